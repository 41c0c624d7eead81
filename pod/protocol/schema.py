"""The published schema of the protocol: every event, request and response.

JSON Schema 2020-12, made from the structs themselves. An object may have more
fields than are named here: readers ignore those they do not know.
"""

from typing import TypeAlias

import msgspec

from pod.entries import Compaction, CompactionFailed, RunEnd, UsageEntry
from pod.events import NOT_IN_RESULT, PROTOCOL, VERSION
from pod.protocol.answers import DATA, Data, ErrorInfo
from pod.protocol.messages import PARAMS, Params, method_of
from pod.protocol.reading import EVENTS, KnownEvent

DRAFT = "https://json-schema.org/draft/2020-12/schema"
REF = "#/$defs/{name}"

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Object: TypeAlias = "dict[str, Json]"

ID: Json = {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}
_NULLABLE: Json = {"anyOf": [{"type": "string"}, {"type": "null"}]}
ENVELOPE: Object = {
    "v": {"const": VERSION},
    "seq": {"type": "integer", "minimum": 1},
    "at": {"type": "string"},
    "session": {"type": "string"},
    "run": _NULLABLE,
}
IN_ENVELOPE = ("v", "at", "session", "run", "type")


def protocol_schema() -> str:
    """Return the schema as JSON text, with a newline at its end."""
    structs = [*EVENTS.values(), *PARAMS, *DATA.values(), ErrorInfo]
    _, made = msgspec.json.schema_components(structs, ref_template=REF)
    definitions: Object = dict(made)
    events: Object = {
        f"event.{name}": _event(name, kind, made[kind.__name__])
        for name, kind in EVENTS.items()
    }
    requests: Object = {
        f"request.{method_of(kind)}": _request(kind, made[kind.__name__])
        for kind in PARAMS
    }
    responses: Object = {
        f"response.{method}": _response(method, data) for method, data in DATA.items()
    }
    definitions |= events | requests | responses
    definitions["Event"] = _any(events)
    definitions["Request"] = _any(requests)
    definitions["Response"] = {"anyOf": [*_refs(responses), _ref("Error")]}
    definitions["Error"] = _error()
    schema: Object = {
        "$schema": DRAFT,
        "$id": f"urn:pod:protocol:{PROTOCOL}",
        "title": f"Pod protocol {PROTOCOL}",
        "description": "A line on a connection: an event, a request or a response.",
        "anyOf": [_ref("Event"), _ref("Request"), _ref("Response")],
        "$defs": _used(definitions),
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def _event(name: str, kind: type[KnownEvent], definition: Object) -> Object:
    """Return the schema of an event: the envelope, and the struct's own fields."""
    own = _properties(definition)
    required = [*IN_ENVELOPE, *_required(definition)]
    if "seq" in own:
        required += ["seq", "id", "parent"]
    if issubclass(kind, RunEnd):
        required = [*IN_ENVELOPE, *(f for f in own if f not in NOT_IN_RESULT)]
    if issubclass(kind, UsageEntry | Compaction | CompactionFailed):
        required.append("cost_usd")
    optional = {"parent", "seq", "id"} if issubclass(kind, RunEnd) else {"parent"}
    return {
        "type": "object",
        "description": definition.get("description", ""),
        "properties": {**own, **_envelope("seq" in own), "type": {"const": name}},
        "required": list(
            dict.fromkeys(each for each in required if each not in optional)
        ),
    }


def _envelope(is_durable: bool) -> Object:
    return {k: v for k, v in ENVELOPE.items() if is_durable or k != "seq"}


def _request(kind: type[Params], definition: Object) -> Object:
    own = {k: v for k, v in _properties(definition).items() if k != "type"}
    required: list[Json] = [k for k in _required(definition) if k != "type"]
    params: Json = {
        "type": "object",
        "properties": own,
        "required": required,
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "description": definition.get("description", ""),
        "properties": {
            "id": ID,
            "method": {"const": method_of(kind)},
            "params": params if required else {"anyOf": [params, {"type": "null"}]},
        },
        "required": ["method", "params"] if required else ["method"],
    }


def _response(method: str, data: type[Data]) -> Object:
    return {
        "type": "object",
        "description": f"{method} was done.",
        "properties": {
            "id": ID,
            "ok": {"const": True},
            "data": _ref(data.__name__),
        },
        "required": ["id", "ok", "data"],
    }


def _error() -> Object:
    return {
        "type": "object",
        "description": "A request was not done; id is null where none could be read.",
        "properties": {
            "id": ID,
            "ok": {"const": False},
            "error": _ref(ErrorInfo.__name__),
        },
        "required": ["id", "ok", "error"],
    }


def _used(definitions: Object) -> Object:
    """Leave out the structs that stand in an event or a request with their fields."""
    tops: set[str] = {kind.__name__ for kind in (*EVENTS.values(), *PARAMS)}
    text = msgspec.json.encode(
        {name: value for name, value in definitions.items() if name not in tops}
    ).decode()
    return {
        name: value
        for name, value in definitions.items()
        if name not in tops or f'"#/$defs/{name}"' in text
    }


def _properties(definition: Object) -> Object:
    properties = definition["properties"]
    assert isinstance(properties, dict)
    return properties


def _required(definition: Object) -> list[str]:
    required = definition.get("required", [])
    assert isinstance(required, list)
    return [str(name) for name in required]


def _ref(name: str) -> Json:
    return {"$ref": REF.format(name=name)}


def _refs(definitions: Object) -> list[Json]:
    return [_ref(name) for name in definitions]


def _any(definitions: Object) -> Object:
    return {"anyOf": _refs(definitions)}
