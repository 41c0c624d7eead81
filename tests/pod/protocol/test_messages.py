"""Lines that are requests, and lines that are none."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from pod.protocol.messages import (
    MAX_LINE,
    PARAMS,
    AbortCompaction,
    AnswerPermission,
    BadRequest,
    Compact,
    FollowUp,
    Fork,
    GetEntries,
    GetState,
    Interrupt,
    Navigate,
    Params,
    Pause,
    Prompt,
    Request,
    Resume,
    SetModel,
    Shutdown,
    Steer,
    Subscribe,
    encode_request,
    method_of,
    parse,
)

SAID: dict[str, tuple[str, Params]] = {
    "prompt": ('{"text":"go"}', Prompt("go")),
    "steer": ('{"text":"left"}', Steer("left")),
    "follow_up": ('{"text":"then"}', FollowUp("then")),
    "interrupt": ("{}", Interrupt()),
    "pause": ("{}", Pause()),
    "resume": ("{}", Resume()),
    "compact": ('{"mode":"mechanical"}', Compact(mode="mechanical")),
    "abort_compaction": ("{}", AbortCompaction()),
    "navigate": ('{"target":null,"label":"l"}', Navigate(None, label="l")),
    "fork": ('{"entry":"e"}', Fork("e")),
    "set_model": ('{"model":"m"}', SetModel("m")),
    "get_state": ("{}", GetState()),
    "get_entries": ('{"from_seq":7,"limit":2}', GetEntries(7, 2)),
    "subscribe": (
        '{"from_seq":0,"types":["result"],"partial":true}',
        Subscribe(0, ("result",), partial=True),
    ),
    "answer_permission": (
        '{"call_id":"c","allow":true}',
        AnswerPermission("c", allow=True),
    ),
    "shutdown": ('{"now":true}', Shutdown(now=True)),
}


def line(method: str, params: str = "{}", id: str = '"1"') -> bytes:
    return f'{{"id":{id},"method":"{method}","params":{params}}}'.encode()


def refused(text: bytes) -> tuple[str, object]:
    with pytest.raises(BadRequest) as caught:
        parse(text)
    return caught.value.code, caught.value.id


@pytest.mark.parametrize("method", SAID)
def test_each_method_is_parsed_into_its_params(method: str) -> None:
    params, meant = SAID[method]

    assert parse(line(method, params)) == Request("1", meant)


def test_no_method_is_left_out_of_these_tests() -> None:
    assert list(SAID) == [method_of(kind) for kind in PARAMS]


@pytest.mark.parametrize("method", SAID)
def test_what_a_client_encodes_is_what_a_server_parses(method: str) -> None:
    request = Request(3, SAID[method][1])

    assert parse(encode_request(request).removesuffix(b"\n")) == request


def test_an_id_is_a_text_a_number_or_nothing() -> None:
    ids = [parse(line("pause", id=id)).id for id in ('"a"', "-7", "null")]
    without = parse(b'{"method":"pause"}')

    assert (ids, without) == (["a", -7, None], Request(None, Pause()))


NEEDED = {"prompt", "steer", "follow_up", "navigate", "set_model", "answer_permission"}


@pytest.mark.parametrize("kind", PARAMS, ids=method_of)
def test_params_may_be_left_out_or_null_where_none_are_needed(
    kind: type[Params],
) -> None:
    method = method_of(kind)
    without = b'{"id":1,"method":"%s"}' % method.encode()
    null = line(method, " null ", id="1")

    if method in NEEDED:
        assert refused(without) == refused(null) == ("invalid_request", 1)
    else:
        assert parse(without) == parse(null) == Request(1, msgspec.convert({}, kind))


@pytest.mark.parametrize(
    ("text", "code", "id"),
    [
        (b"hello", "invalid_json", None),
        (b'{"id":1,"method":"pause"', "invalid_json", None),
        (b'{"id":1,"method":"pause"}{}', "invalid_json", None),
        (b'{"id":"\xff","method":"pause"}', "invalid_json", None),
        (b"[]", "invalid_request", None),
        (b"null", "invalid_request", None),
        (b'{"id":1}', "invalid_request", 1),
        (b'{"id":1,"method":7}', "invalid_request", 1),
        (b'{"id":[],"method":"pause"}', "invalid_request", None),
        (b'{"id":1,"method":"fly"}', "unknown_method", 1),
        (b'{"id":1,"method":"prompt"}', "invalid_request", 1),
        (b'{"id":1,"method":"prompt","params":null}', "invalid_request", 1),
        (b'{"id":1,"method":"prompt","params":{"text":7}}', "invalid_request", 1),
        (
            b'{"id":1,"method":"subscribe","params":{"form_seq":7}}',
            "invalid_request",
            1,
        ),
        (b'{"id":1,"method":"compact","params":{"mode":"x"}}', "invalid_request", 1),
        (b'{"method":"pause","params":' + b"[" * 9_999, "invalid_json", None),
    ],
)
def test_what_is_no_request_has_a_code_and_the_id_if_it_can_be_read(
    text: bytes, code: str, id: object
) -> None:
    assert refused(text) == (code, id)


def test_a_line_beyond_the_bound_is_not_even_looked_at() -> None:
    text = line("prompt", '{"text":"' + "x" * MAX_LINE + '"}')

    assert refused(text) == ("too_large", None)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(text: bytes) -> None:
    try:
        found = parse(text)
    except BadRequest:
        return

    assert parse(encode_request(found).removesuffix(b"\n")) == found


@given(st.text())
def test_any_text_that_json_can_say_arrives_as_it_is(text: str) -> None:
    well_formed = text.encode("utf-8", "replace").decode()
    request = Request("i", Prompt(well_formed))

    assert parse(encode_request(request).removesuffix(b"\n")) == request
