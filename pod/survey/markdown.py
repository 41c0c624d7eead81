"""Text from files as Markdown that shows it and does nothing else."""

import re

MOST_CHARS = 200


def code(text: str) -> str:
    """Return *text* as inline code, in one line; what cannot be shown is escaped."""
    return f"`{escaped(text[:MOST_CHARS])}`" if text else "``"


def plain(text: str) -> str:
    """Return *text* as running text, in one line, that no Markdown in it changes.

    Not at the start of a line: put something before it.
    """
    shown = "".join(c if c.isprintable() else " " for c in text[: 2 * MOST_CHARS])
    return _SPECIAL.sub(r"\\\g<0>", " ".join(shown.replace("`", "").split()))


def escaped(text: str) -> str:
    r"""Return *text* without backticks and unprintable characters; see `unescaped`.

    These become ``\x60``, ``\u2028`` and the like, a backslash is doubled.
    """
    if text.isprintable() and "`" not in text and "\\" not in text:
        return text
    return "".join(_escape(char) for char in text)


def unescaped(text: str) -> str:
    """Return what *escaped* was given."""
    return _ESCAPE.sub(_unescape, text)


# Where it would act: an underscore inside a word, say, does not.
_SPECIAL = re.compile(
    r"[\\*<$]|(?<!\w)_|_(?!\w)|\[(?=[^\]]*\][(\[:])|~(?=~)|&(?=#?\w+;)|^[>#+-]"
)
_ESCAPE = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def _escape(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char.isprintable() and char != "`":
        return char
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _unescape(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3]
    return chr(int(digits, 16)) if digits else "\\"
