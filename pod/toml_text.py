"""Values as TOML, each on one line of printable text."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict


def toml_value(value: object) -> str:
    """Return *value* as TOML: text, numbers, booleans, lists of them, tables.

    Anything else (TOML's dates) comes as Python's text for it.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case Struct():
            keys = asdict(value).items()
            fields = [f"{key} = {toml_value(v)}" for key, v in keys if v is not None]
            return f"{{{', '.join(fields)}}}"
        case Sequence():
            return f"[{', '.join(map(toml_value, value))}]"
        case int() if value.bit_length() > 200:
            return hex(value)  # Python refuses to write thousands of decimals
        case int() if abs(value) >= 10_000:
            return f"{value:_}"
        case _:
            return str(value)


def toml_key(key: str) -> str:
    """Return *key* bare where TOML allows it, else quoted."""
    is_bare = key.isascii() and key.replace("-", "_").replace("_", "a").isalnum()
    return key if is_bare else quoted(key)


def quoted(text: str) -> str:
    """Return *text* as a basic string; what a terminal would act on is escaped."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{printable(escaped)}"'


def printable(text: str) -> str:
    """Return *text* with everything that is no printable character as an escape."""
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    short = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}.get(character)
    code = ord(character)
    return short or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
