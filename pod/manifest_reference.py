"""The example manifest and the page of the docs, made from the structs."""

import textwrap
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from pod.field_docs import field_docs, table_doc
from pod.field_types import describe, examples
from pod.manifest import Manifest
from pod.manifest_errors import arrays_of, tables_of
from pod.toml_text import toml_value

_WIDTH = 78


def example_manifest() -> str:
    """Return manifest.example.toml: every key with its default and its meaning.

    A key without a default is commented out, with an example value.
    """
    return "\n".join(_example_lines())


def manifest_page() -> str:
    """Return docs/manifest.md: a table of keys for each table of the manifest."""
    return "\n".join(_page_lines())


def _example_lines() -> Iterator[str]:
    yield "# A Pod's manifest with every key. What stands here are the defaults, so"
    yield "# that any line may be left out; a key right behind a # has no default, but"
    yield "# an example value. What stands in [[double brackets]] may be there several"
    yield "# times, and is not there by default. An unknown key is an error. `pod schema`"
    yield "# prints a schema for editors; docs/manifest.md says more."
    for name, table in tables_of(Manifest).items():
        yield ""
        yield from _comment(table_doc(table))
        yield f"[{name}]"
        docs = field_docs(table)
        for field in fields(table):
            yield from _comment(docs.get(field.name, ""))
            if field.default is None:
                yield _example_line(field)
            else:
                yield f"{field.name} = {toml_value(field.default)}"
    for name, table in arrays_of(Manifest).items():
        yield ""
        yield from _comment(table_doc(table))
        yield f"#[[{name}]]"
        docs = field_docs(table)
        for field in fields(table):
            yield from _comment(docs.get(field.name, ""))
            yield _example_line(field)
    yield ""


def _example_line(field: FieldInfo) -> str:
    """Return *field* commented out, with an example, or with its default."""
    given = examples(field.type) or [field.default]
    return f"#{field.name} = {toml_value(given[0])}"


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text, _WIDTH, break_on_hyphens=False):
        yield f"# {line}"


def _page_lines() -> Iterator[str]:
    yield _INTRODUCTION
    for header, table in _headers():
        yield f"## {header}"
        yield ""
        yield table_doc(table)
        yield ""
        yield "| key | takes | default | meaning |"
        yield "|---|---|---|---|"
        yield from _rows(table)
        yield ""


def _headers() -> Iterator[tuple[str, type[Struct]]]:
    """Yield all tables with their headers; arrays in a table stand behind it."""
    for name, table in tables_of(Manifest).items():
        yield f"[{name}]", table
        for key, items in arrays_of(table).items():
            yield f"[[{name}.{key}]]", items
    for name, items in arrays_of(Manifest).items():
        yield f"[[{name}]]", items


def _rows(table: type[Struct]) -> Iterator[str]:
    docs = field_docs(table)
    for field in fields(table):
        cells = (f"`{field.name}`", describe(field.type), _default(field))
        escaped = [cell.replace("|", r"\|") for cell in (*cells, docs[field.name])]
        yield f"| {' | '.join(escaped)} |"


def _default(field: FieldInfo) -> str:
    if field.required:
        return "(required)"
    return "" if field.default is None else f"`{toml_value(field.default)}`"


_INTRODUCTION = """\
# The manifest

A manifest is a TOML file (UTF-8; a byte order mark and CRLF line ends are
fine). Every table and key may be left out; an unknown one is an error. This
page is made from `pod/manifest.py` by `scripts/make_docs.py`, and so is
[manifest.example.toml](../manifest.example.toml).

- Without `--manifest`, `pod.toml` in the working folder is read where there is
  one, else the defaults count.
- `-c table.key=value` sets one key over the file; the value is TOML, and a bare
  word where the key takes a text: `-c model.id=claude-x -c limits.timeout=600`.
  The later one wins. A whole table cannot be set, and what stands in
  `[[double brackets]]` only in a file: it may be there several times.
- Mistakes are reported together, one line each, with file, line, column and the
  key; exit code 2. Wrong keys and types come first. Once they are mended, a
  prompt file that cannot be read; then what does not go together.
- `pod check` prints the manifest in effect, with the source of each value, and
  checks that the values go together and that the tools can be had: the files of
  `[tools] python` are run for that, as for a run.
- For editors: `pod schema > pod.schema.json` writes a JSON Schema (draft-07), and
  `#:schema ./pod.schema.json` as the first line of the manifest points most of
  them to it (Taplo, Tombi, Even Better TOML).
- Files that a manifest names (`system_file`, `python`, `dir`) are relative to its
  own folder; `read_roots` and `write_roots` to the folder the Pod works in. A `~`
  at the start is the home folder.
"""
