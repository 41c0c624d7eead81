"""The schema that is published for hooks, held to what they get and may say."""

from pathlib import Path

import msgspec
import pytest

from pod.hooks.answers import ANSWERS, Garbage, parse
from pod.hooks.payloads import AnyPayload, HookEvent, event_of
from pod.hooks.schema import hooks_schema
from tests.command import pod
from tests.pod.hooks.samples import SAMPLES
from tests.schema_check import Json, Schema, errors, object_in

SCHEMA = object_in(hooks_schema())


def wrong(value: Json, name: str = "") -> list[str]:
    """Return what is wrong with *value*, by one definition or as any payload."""
    schema: Schema = {"$ref": f"#/$defs/{name}"} if name else SCHEMA
    return list(errors(value, schema, SCHEMA))


@pytest.mark.parametrize("payload", SAMPLES)
def test_every_payload_fits_as_any_and_as_its_events(payload: AnyPayload) -> None:
    told = object_in(msgspec.json.encode(payload).decode())

    assert wrong(told) == []
    assert wrong(told, f"told.{event_of(payload)}") == []
    assert wrong({**told, "session": 1}) != []


@pytest.mark.parametrize("event", ANSWERS)
@pytest.mark.parametrize(
    "said",
    [
        {},
        {"cancel": True, "message": "m"},
        {"stop": True},
        {"deny": True},
        {"context": ["a", "b"]},
        {"context": "a"},
        {"compaction": {"summary": "s", "details": {"read_files": ["/a"]}}},
        {"compaction": {}},
        {"summary": "s"},
        {"summary": {"text": "t"}},
        {"label": None},
        {"cancle": True},
    ],
)
def test_an_answer_fits_where_it_is_taken(event: HookEvent, said: Schema) -> None:
    try:
        parse(said, ANSWERS[event])
        is_taken = True
    except Garbage:
        is_taken = False

    assert (wrong(said, f"answer.{event}") == []) == is_taken


async def test_the_command_prints_it(tmp_path: Path) -> None:
    done = await pod("schema", "hooks", cwd=tmp_path)

    assert (done.code, done.out) == (0, hooks_schema())
