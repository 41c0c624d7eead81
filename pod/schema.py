"""The manifest's JSON Schema (draft-07), for editors."""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec
from msgspec import Struct

from pod.field_docs import field_docs, table_doc
from pod.manifest import Manifest
from pod.manifest_errors import arrays_of, tables_of

DRAFT = "http://json-schema.org/draft-07/schema#"

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def manifest_schema() -> str:
    """Return the schema as JSON text, with a newline at its end."""
    _, definitions = msgspec.json.schema_components(
        [Manifest], ref_template="#/definitions/{name}"
    )
    schema: Json = {
        "$schema": DRAFT,
        **_described(definitions[Manifest.__name__], Manifest),
        "title": "Pod manifest",
        "definitions": {
            table.__name__: _described(definitions[table.__name__], table)
            for table in _tables()
        },
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def _tables() -> Iterator[type[Struct]]:
    """Yield the tables of a manifest, and what arrays of tables hold."""
    for table in tables_of(Manifest).values():
        yield table
        yield from arrays_of(table).values()
    yield from arrays_of(Manifest).values()


def _described(definition: dict[str, Json], struct: type[Struct]) -> dict[str, Json]:
    """Add the docstrings of *struct* and its fields."""
    docs = field_docs(struct)
    properties = definition["properties"]
    assert isinstance(properties, dict)
    return {
        **definition,
        "description": table_doc(struct),
        "properties": {
            name: _property(value, docs.get(name)) for name, value in properties.items()
        },
    }


def _property(value: Json, doc: str | None) -> Json:
    assert isinstance(value, dict)
    if "$ref" in value:  # a table: draft-07 ignores what stands beside a $ref
        return {"$ref": value["$ref"]}
    plain = dict(_without_null(value))
    return {"description": doc, **plain} if doc else plain


def _without_null(value: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    """Leave out what TOML cannot say: null, as a type or a default."""
    for key, part in value.items():
        if key == "anyOf" and isinstance(part, list):
            options = [option for option in part if option != {"type": "null"}]
            match options:
                case [dict() as only]:
                    yield from _without_null(only)
                case _:
                    yield key, options
        elif not (key == "default" and part is None) and key != "description":
            yield key, part
