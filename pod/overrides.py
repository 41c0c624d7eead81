"""``-c key=value``: one value of the manifest, set on the command line."""

import re
from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import fields

from pod.field_types import describe, takes_text
from pod.key_text import label, shown_part
from pod.manifest_errors import Tables
from pod.toml_document import TomlError, parse_text
from pod.toml_positions import KEY_PART, KeyPath
from pod.toml_text import printable


class Override(Struct, frozen=True):
    """The value that *text* sets at *path*."""

    text: str
    path: KeyPath
    value: object

    @property
    def document(self) -> dict[str, object]:
        """What a manifest with nothing but this value would say."""
        nested = self.value
        for part in reversed(self.path):
            nested = {str(part): nested}
        assert isinstance(nested, dict)
        return nested

    @property
    def place(self) -> str:
        """How messages point to it."""
        return place(self.text)


class OverrideError(Exception):
    """An override that says nothing; the message says why."""


def place(text: str) -> str:
    """Return how messages point to the override *text*; an API key is left out."""
    shown = re.sub(r"\bsk-[\w-]+", "sk-…", text)
    return f"-c {printable(shown if len(shown) <= 80 else shown[:80] + '…')}"


_KEY_AND_VALUE = re.compile(
    rf"\s*((?:{KEY_PART})(?:\s*\.\s*(?:{KEY_PART}))*)\s*=(.*)", re.DOTALL
)


def parse_override(text: str, tables: Tables, arrays: Collection[str] = ()) -> Override:
    """Read ``table.key=value``.

    The value is TOML; what is no TOML is taken as text where the key takes
    one, so that ``model.id=claude-x`` needs no quotes. *arrays* are names of
    arrays of tables: these cannot be set. Raises OverrideError.
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise OverrideError("not UTF-8")
    match = _KEY_AND_VALUE.fullmatch(text)
    if match is None:
        raise OverrideError('write it as table.key=value, like -c model.id="x"')
    path = _path(match[1])
    if path[0] in arrays:
        raise OverrideError(
            f"[[{path[0]}]] is an array of tables: write it into the manifest"
        )
    if len(path) == 1 and path[0] in tables:
        table = path[0]
        key = tables[str(table)].__struct_fields__[0]
        raise OverrideError(
            f"[{table}] is a table: set its keys one by one, like -c {table}.{key}=…"
        )
    return Override(text, path, _value(match[2], path, tables))


def _path(key: str) -> KeyPath:
    try:
        values: object = parse_text(f"{key} = 0").values
    except TomlError as error:
        raise OverrideError(f"no TOML key: {error}") from error
    path: tuple[str, ...] = ()
    while isinstance(values, dict):
        [(part, values)] = values.items()
        path = (*path, part)
    return path


def _value(raw: str, path: KeyPath, tables: Tables) -> object:
    try:
        values = parse_text(f"value = {raw}").values
    except TomlError as error:
        bare = raw.strip()
        annotation = _annotation(path, tables)
        if bare.startswith(('"', "'")):
            raise OverrideError(str(error)) from error
        if annotation is not None and not takes_text(annotation):
            raise OverrideError(
                f"{label(path)}: {shown_part(bare)} is no TOML value; "
                f"it takes {describe(annotation)}"
            ) from error
        return bare
    if len(values) > 1:
        raise OverrideError("sets more than one key: give each its own -c")
    return values["value"]


def _annotation(path: KeyPath, tables: Tables) -> object | None:
    """Return the type of the field at *path*; None where there is no such field."""
    match path:
        case (str(table), str(key)) if table in tables:
            types = {field.name: field.type for field in fields(tables[table])}
            annotation: object | None = types.get(key)
            return annotation
    return None
