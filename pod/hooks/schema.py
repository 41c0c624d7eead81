"""The published schema of hooks: what each is told, and what it may answer.

JSON Schema 2020-12, made from the structs themselves.
"""

from typing import TypeAlias, get_args

import msgspec

from pod.hooks.answers import ANSWERS
from pod.hooks.payloads import AnyPayload, HookEvent

DRAFT = "https://json-schema.org/draft/2020-12/schema"
REF = "#/$defs/{name}"

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def hooks_schema() -> str:
    """Return the schema as JSON text, with a newline at its end.

    It accepts any payload. Its definitions ``told.EVENT`` and ``answer.EVENT``
    are those of one event each.
    """
    payloads = dict(zip(get_args(HookEvent), get_args(AnyPayload), strict=True))
    structs = [*payloads.values(), *dict.fromkeys(ANSWERS.values())]
    _, made = msgspec.json.schema_components(structs, ref_template=REF)
    by_event: dict[str, Json] = {}
    for event, payload in payloads.items():
        by_event[f"told.{event}"] = _ref(payload.__name__)
        by_event[f"answer.{event}"] = _ref(ANSWERS[event].__name__)
    schema: Json = {
        "$schema": DRAFT,
        "title": "What Pod tells a hook",
        "anyOf": [_ref(f"told.{event}") for event in payloads],
        "$defs": {**by_event, **made},
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def _ref(name: str) -> Json:
    return {"$ref": REF.format(name=name)}
