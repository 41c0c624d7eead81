"""The arguments of a call: their JSON Schema, and the JSON a model sent, parsed."""

import difflib
import re
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from tools.base import ToolError

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
T = TypeVar("T", bound=Struct)

SHOWN_CHARS = 60
"""How much of a wrong value an error repeats."""

_WHERE = re.compile(r"^(?P<what>.*) - at `\$(?P<path>[^`]*)`$", re.DOTALL)
_STEP = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+)\]")
_TYPES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def schema_of(arguments: type[Struct]) -> bytes:
    """Return the JSON Schema of *arguments*: one plain object, as JSON.

    References are put in place and titles left out, since providers differ in
    what they take. Fields are described by ``Meta(description=…)``. The type
    must not contain itself.
    """
    schema: Json = msgspec.json.schema(arguments)
    definitions = schema.pop("$defs", {}) if isinstance(schema, dict) else {}
    assert isinstance(definitions, dict)
    return msgspec.json.encode(_plain(schema, definitions))


def parse(type_: type[T], arguments: bytes) -> T:
    """Parse the *arguments* of a call as a *type_*.

    Nothing at all counts as ``{}``. Raises ToolError, which names every
    unknown and missing argument, or the first value of a wrong type.
    """
    text = arguments.strip() or b"{}"
    try:
        return msgspec.json.decode(text, type=type_)
    except msgspec.ValidationError as error:
        raise ToolError(_complaint(type_, str(error), text)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ToolError(
            f"the arguments are not valid JSON: {error}. Send one JSON object."
        ) from None


def _plain(schema: Json, definitions: dict[str, Json]) -> Json:
    if isinstance(schema, list):
        return [_plain(value, definitions) for value in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = definitions[reference.removeprefix("#/$defs/")]
        assert isinstance(target, dict)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _plain({**target, **beside}, definitions)
    return {
        key: _properties(value, definitions)
        if key == "properties"
        else _plain(value, definitions)
        for key, value in schema.items()
        if key != "title"
    }


def _properties(properties: Json, definitions: dict[str, Json]) -> Json:
    """Put references in place below "properties", whose keys are our own names."""
    assert isinstance(properties, dict)
    return {name: _plain(value, definitions) for name, value in properties.items()}


def _complaint(type_: type[Struct], error: str, text: bytes) -> str:
    try:
        sent: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as broken:
        return f"the arguments are not valid JSON: {broken}. Send one JSON object."
    if not isinstance(sent, dict):
        return f"the arguments must be one JSON object, not {_shown(sent)}"
    found = _WHERE.match(error)
    path = found["path"] if found else ""
    value = _step_into(sent, path)
    if isinstance(value, dict):
        schema: Json = msgspec.json.decode(schema_of(type_))
        return _misnamed(path, value, _step_into(schema, path, in_schema=True))
    what = re.sub(
        r"`([a-z |]+)`", lambda m: _in_words(m[1]), found["what"] if found else error
    )
    what = re.sub(r", got .*$", "", what)
    return f"{path.lstrip('.')}: {what[0].lower()}{what[1:]}, got {_shown(value)}"


def _misnamed(path: str, value: dict[str, Json], schema: Json) -> str:
    """Say which names are wrong in the object at *path*, whose schema is given."""
    match schema:
        case {"properties": dict(properties)}:
            names = list(properties)
        case _:
            names = []
    match schema:
        case {"required": list(required)}:
            missing = [str(name) for name in required if name not in value]
        case _:
            missing = []
    where = f" in {path.lstrip('.')}" if path else ""
    parts = []
    for name in (name for name in value if name not in names):
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        parts.append(f"there is no argument {_clip(name)}{where}{hint}")
    if missing:
        parts.append(f"missing{where}: {', '.join(missing)}")
    known = (
        f"The arguments{where} are: {', '.join(names)}" if names else "It takes none"
    )
    return f"{'; '.join(parts)}. {known}."


def _step_into(value: Json, path: str, *, in_schema: bool = False) -> Json:
    """Return what *path* (``.edits[0].n``) leads to, in a value or its schema."""
    for step in _STEP.finditer(path):
        match value:
            case {"properties": dict(properties)} if in_schema and step["key"]:
                value = properties.get(step["key"])
            case {"items": items} if in_schema and step["index"]:
                value = items
            case dict() if step["key"] is not None:
                value = value.get(step["key"])
            case list() if step["index"] is not None:
                value = value[int(step["index"])]
            case _:
                break
    return value


def _in_words(types: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in types.split(" | "))


def _shown(value: Json) -> str:
    return _clip(msgspec.json.encode(value).decode())


def _clip(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"
