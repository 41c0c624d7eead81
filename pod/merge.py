"""The manifest in effect: defaults, the file, and the overrides over both."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from pod.manifest import Manifest
from pod.manifest_errors import ManifestError, arrays_of, problems, tables_of
from pod.overrides import Override, OverrideError, parse_override, place
from pod.toml_document import Document, TomlError, parse_bytes
from pod.toml_positions import Position
from pod.toml_text import printable


class Source(Struct, frozen=True):
    """Where a value of the manifest comes from.

    Its default (*name* empty), the file *name*, or an override (*name* is
    ``-c`` and its text, *position* None).
    """

    name: str = ""
    position: Position | None = None

    @property
    def place(self) -> str:
        """For messages: ``pod.toml:12:1``, ``-c model.id=x``, ``default``."""
        if self.position is None:
            return self.name or "default"
        return f"{self.name}:{self.position.line}:{self.position.column}"

    @property
    def comment(self) -> str:
        """For comments: ``pod.toml:12``, ``-c``, ``default``."""
        if self.position is None:
            return "-c" if self.name else "default"
        return f"{self.name}:{self.position.line}"


class Merged(Struct, frozen=True):
    """A manifest, and the source of each of its values by dotted key."""

    manifest: Manifest
    sources: dict[str, Source]


def merge(raw: bytes | None, name: str, overrides: Sequence[str]) -> Merged:
    """Make a manifest of the file *name* with the bytes *raw*, and of *overrides*.

    *raw* None: no file. Later overrides win. Raises ManifestError with every
    problem of the file and of the overrides.
    """
    name = printable(name)
    lines: list[str] = []
    document = Document({}, {})
    try:
        document = parse_bytes(raw or b"")
    except TomlError as error:
        lines.append(f"{Source(name, error.position).place}: {error}")
    lines.extend(_file_problems(document, name))
    parsed = []
    for text in overrides:
        try:
            override = parse_override(text, _TABLES, _ARRAYS)
        except OverrideError as error:
            lines.append(f"{place(text)}: {error}")
        else:
            parsed.append(override)
            found = problems(override.document, Manifest)
            lines.extend(f"{override.place}: {problem.text}" for problem in found)
    if lines:
        raise ManifestError(lines)
    return Merged(_manifest(document, parsed), _sources(document, name, parsed))


_TABLES = tables_of(Manifest)
_ARRAYS = arrays_of(Manifest)


def _file_problems(document: Document, name: str) -> Iterator[str]:
    at = document.positions
    found = problems(document.values, Manifest)
    for problem in sorted(found, key=lambda problem: at[problem.path]):
        yield f"{Source(name, at[problem.path]).place}: {problem.text}"


def _manifest(document: Document, overrides: Sequence[Override]) -> Manifest:
    tables: dict[str, dict[str, object]] = {}
    layers: list[Mapping[str, object]] = [document.values]
    layers.extend(override.document for override in overrides)
    for layer in layers:
        for name, keys in layer.items():
            if isinstance(keys, dict):
                tables.setdefault(name, {}).update(keys)
    # Only the file can have arrays of tables.
    arrays = {
        name: document.values[name] for name in _ARRAYS if name in document.values
    }
    return msgspec.convert({**tables, **arrays}, Manifest)


def _sources(
    document: Document, name: str, overrides: Sequence[Override]
) -> dict[str, Source]:
    sources = {
        f"{table}.{key}": Source()
        for table, struct in _TABLES.items()
        for key in struct.__struct_fields__
    }
    for array, struct in _ARRAYS.items():
        elements = document.values.get(array, [])
        assert isinstance(elements, list), "problems() lets no other value through"
        for index in range(len(elements)):
            for key in struct.__struct_fields__:
                sources[f"{array}.{index}.{key}"] = Source()
    for path, position in document.positions.items():
        if len(path) == (3 if path[0] in _ARRAYS else 2):
            sources[".".join(map(str, path))] = Source(name, position)
    for override in overrides:
        sources[".".join(map(str, override.path))] = Source(override.place)
    return sources
