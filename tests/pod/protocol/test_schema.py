"""The schema that is published, held to what goes over the wire."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pod.events import PROTOCOL
from pod.protocol.answers import DATA, Aborted, Accepted, Began, Waits, answer, refusal
from pod.protocol.messages import PARAMS, Request, encode_request, method_of
from pod.protocol.reading import EVENTS
from pod.protocol.schema import protocol_schema
from tests.command import ROOT, pod
from tests.pod.protocol.test_messages import SAID
from tests.recorded import inherited
from tests.schema_check import Schema, UnknownKeyword, errors, object_in

SCHEMA = object_in(protocol_schema())
DEFINITIONS = SCHEMA["$defs"]


def wrong(line: bytes, of: str) -> list[str]:
    return list(errors(object_in(line), {"$ref": f"#/$defs/{of}"}, SCHEMA))


def test_it_has_every_event_every_request_and_every_response() -> None:
    assert isinstance(DEFINITIONS, dict)

    names = {name for name in DEFINITIONS if "." in name}

    assert names == {
        *(f"event.{name}" for name in EVENTS),
        *(f"request.{method_of(kind)}" for kind in PARAMS),
        *(f"response.{method}" for method in DATA),
    }
    assert set(DATA) == {method_of(kind) for kind in PARAMS}


def test_it_says_which_protocol_it_is_of() -> None:
    assert SCHEMA["title"] == f"Pod protocol {PROTOCOL}"


def test_every_reference_in_it_leads_somewhere() -> None:
    assert isinstance(DEFINITIONS, dict)

    text = protocol_schema()
    named = {part.partition('"')[0] for part in text.split('"$ref": "#/$defs/')[1:]}

    assert named <= set(DEFINITIONS)


def test_every_struct_and_event_in_it_says_what_it_is() -> None:
    assert isinstance(DEFINITIONS, dict)

    silent = [
        name
        for name, value in DEFINITIONS.items()
        if "." in name and isinstance(value, dict) and not value["description"]
    ]

    assert [name for name in silent if name not in SPEAK_FOR_THEMSELVES] == []


SPEAK_FOR_THEMSELVES = {
    "event.text_delta",
    "event.reasoning_delta",
    "event.tool_input_delta",
}


@pytest.mark.parametrize("method", SAID)
def test_each_request_that_a_client_makes_fits(method: str) -> None:
    line = encode_request(Request("1", SAID[method][1]))

    assert wrong(line, f"request.{method}") == []
    assert wrong(line, "Request") == []


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        (answer(1, Began("r")), "response.prompt"),
        (answer("a", Waits("in")), "response.steer"),
        (answer("b", Accepted()), "response.shutdown"),
        (answer(None, Aborted(True)), "response.abort_compaction"),
        (refusal(None, "busy", "a run is under way"), "Error"),
    ],
)
def test_responses_fit(line: bytes, fits: str) -> None:
    assert wrong(line, fits) == []
    assert wrong(line, "Response") == []


@pytest.mark.parametrize(
    ("line", "of"),
    [
        (b'{"id":1,"method":"prompt","params":{}}', "request.prompt"),
        (b'{"id":1,"method":"prompt","params":{"text":1}}', "request.prompt"),
        (b'{"id":1,"method":"pause","params":{"x":1}}', "request.pause"),
        (b'{"id":1,"ok":true,"data":{}}', "response.prompt"),
        (b'{"id":1,"ok":false,"error":{"code":"x","message":""}}', "Error"),
        (b'{"v":1,"at":"","session":"s","run":null,"type":"status"}', "event.status"),
        (
            b'{"v":2,"at":"","session":"s","run":null,"type":"warning","message":""}',
            "event.warning",
        ),
        (
            b'{"v":1,"at":"","session":"s","run":null,"type":"notice","message":""}',
            "event.notice",
        ),
    ],
)
def test_what_is_wrong_does_not_fit(line: bytes, of: str) -> None:
    assert wrong(line, of) != []


async def test_the_command_prints_it(tmp_path: Path) -> None:
    done = await pod("schema", "events", cwd=tmp_path)

    assert (done.code, done.out) == (0, protocol_schema())


def test_it_needs_neither_a_client_nor_a_tokenizer_nor_trio() -> None:
    code = (
        "import sys, pod.protocol.schema as s; s.protocol_schema();"
        "print(sorted({'anthropic', 'pydantic', 'tiktoken', 'toktok_rs', 'trio',"
        " 'httpx2'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=ROOT,
        env=inherited(),
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(done.stdout.replace("'", '"')) == []


def test_a_schema_word_that_is_not_understood_is_not_passed_over() -> None:
    unknown: Schema = {"oneOf": []}

    with pytest.raises(UnknownKeyword):
        list(errors(1, unknown, unknown))
