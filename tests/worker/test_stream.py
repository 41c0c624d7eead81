from collections import deque

import pytest

from tests.corpus import corpus
from tests.worker.streams import (
    block,
    call,
    event,
    failure_of,
    fold_pieces,
    folded,
    opened,
    said,
    started,
    stopped,
    text,
    told_input,
)
from worker.client import (
    Failure,
    FailureKind,
    ProviderError,
    ReasoningDelta,
    Response,
    TextDelta,
    ToolInputDelta,
)
from worker.items import Opaque, Reasoning, ToolCall
from worker.stream import Fold
from worker.usage import Usage


def test_a_whole_answer_is_a_response() -> None:
    data = started() + text(0, "hi") + stopped()

    assert folded(data) == Response(
        message_id="msg_1",
        model="m",
        items=(said("hi"),),
        stop_reason="end_turn",
        usage=Usage(input=5, output=20),
        context_tokens=25,
    )


def test_listeners_are_told_while_it_streams() -> None:
    data = (
        started()
        + block(
            0,
            {"type": "thinking", "thinking": ""},
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "signature_delta", "signature": "s"},
        )
        + block(1, {"type": "text", "text": "a"}, {"type": "text_delta", "text": "b"})
        + block(2, call("t", "bash"), told_input(""), told_input("{}"))
        + stopped("tool_use")
    )

    _, deltas = fold_pieces([data])

    assert deltas == [
        ReasoningDelta("hm"),
        TextDelta("a"),
        TextDelta("b"),
        ToolInputDelta("t", "bash", "{}"),
    ]


def test_what_comes_behind_the_answer_cannot_spoil_it() -> None:
    fold = Fold(limit=1000)
    fold.feed(started() + HI + stopped())

    fold.feed(b"data: " + b"x" * 2000)
    fold.feed(b"\n\n" + event("error", error={"type": "api_error", "message": "m"}))

    assert fold.end() == folded(started() + HI + stopped())


# Errors inside the stream.


@pytest.mark.parametrize(
    ("error_type", "kind"),
    [
        ("invalid_request_error", "invalid"),
        ("authentication_error", "auth"),
        ("permission_error", "auth"),
        ("billing_error", "billing"),
        ("not_found_error", "not_found"),
        ("request_too_large", "payload_too_large"),
        ("rate_limit_error", "rate_limit"),
        ("overloaded_error", "overloaded"),
        ("api_error", "server"),
        ("timeout_error", "server"),
        ("zz_error", "server"),
    ],
)
def test_an_error_event_fails_as_its_type_says(
    error_type: str, kind: FailureKind
) -> None:
    error = event(
        "error", error={"type": error_type, "message": "why"}, request_id="req_1"
    )

    failure = failure_of(started() + text(0, "a") + opened(1, call()) + error)

    assert failure == Failure(
        kind=kind,
        message=f"{error_type}: why (request id req_1)",
        request_id="req_1",
        partial=(said("a"),),
        usage=Usage(input=5, output=1),
    )


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (
            b'event: error\ndata: {"type":"overloaded_error","message":"m"}',
            "overloaded",
        ),
        (b'data: {"error":{"type":"rate_limit_error","message":"m"}}', "rate_limit"),
        (b'data: {"type":"error","error":"broken"}', "server"),
        (b'data: {"type":"error"}', "server"),
        (b"event: error\ndata: upstream went away", "server"),
        (b"event: error\ndata: \xff", "server"),
    ],
)
def test_errors_of_other_shapes_are_errors_too(told: bytes, kind: FailureKind) -> None:
    assert failure_of(started() + told + b"\n\n" + stopped()).kind == kind
    assert failure_of(told).kind in {kind, "truncated"}


def test_an_error_event_about_the_window_is_an_overflow() -> None:
    message = "prompt is too long: 210000 tokens > 200000 maximum"
    error = {"type": "invalid_request_error", "message": message}

    failure = failure_of(started() + event("error", error=error))

    assert failure.kind == "overflow"
    assert (failure.prompt_tokens, failure.window_tokens) == (210_000, 200_000)
    assert failure.usage == Usage(input=5, output=1)


# Streams that make no sense.

HI = text(0, "hi")


THINKING = {"type": "thinking", "thinking": ""}


@pytest.mark.parametrize(
    "data",
    [
        HI,
        stopped(),
        event("message_start"),
        started() + HI + HI,
        started() + event("content_block_stop", index=0),
        started() + HI + event("content_block_stop", index=0),
        started() + HI + opened(0, {"type": "text", "text": ""}),
        started() + opened(0, THINKING) + opened(0, THINKING),
        started()
        + HI
        + event(
            "content_block_delta", index=0, delta={"type": "text_delta", "text": "x"}
        ),
        started() + event("content_block_start", index=0),
        started() + event("content_block_start", content_block=THINKING),
        started() + opened(0, {"text": ""}),
        started() + opened(0, {"type": "text", "text": 5}),
        started() + opened(0, {"type": "text", "text": ""}, told_input("{}")),
        started() + opened(0, call(), {"type": "text_delta", "text": "x"}),
        started() + opened(0, THINKING, {"type": "citations_delta", "citation": 1}),
        started() + opened(0, {"type": "text", "text": ""}, {"type": "text_delta"}),
        started() + event("content_block_delta", index=0),
        started() + b'data: {"type":"content_block_stop","index":0\n\n',
        started() + b"data: [DONE]\n\n",
        started() + b'data: {"type":"ping","x":"\xff"}\n\n',
        started() + b"data: " + b"[" * 100_000 + b"\n\n",
        started(content=[{"type": "text", "text": []}]),
        started(content=5),
        started() + event("message_delta", delta={"stop_reason": 5}),
        started() + started(id="msg_2"),
        started() + HI + started(id="msg_2") + text(1, "x") + stopped(),
        started()
        + block(0, {"type": "server_tool_use", "input": {}}, told_input("{"))
        + text(1, "x")
        + stopped(),
    ],
)
def test_what_makes_no_sense_is_garbled(data: bytes) -> None:
    assert failure_of(data + b"\n").kind == "garbled"


def test_an_event_that_is_too_large_is_garbled() -> None:
    fold = Fold(limit=1000)
    fold.feed(started() + HI)

    with pytest.raises(ProviderError) as raised:
        fold.feed(b"data: " + b"x" * 1000)

    failure = raised.value.failure
    assert (failure.kind, failure.partial) == ("garbled", (said("hi"),))


def test_an_answer_that_does_not_end_is_garbled() -> None:
    fold = Fold(most=len(started() + HI) + 1000)
    fold.feed(started() + HI)
    pings = [event("ping")] * 1000

    with pytest.raises(ProviderError) as raised:
        deque(map(fold.feed, pings), maxlen=0)

    failure = raised.value.failure
    assert (failure.kind, failure.partial) == ("garbled", (said("hi"),))
    assert failure.message == "the stream is garbled: the answer does not end"


@pytest.mark.parametrize("chunk", [1, 1000])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n \n",
        b'{"type": "message", "content": []}',
        b'{"type":"error","error":{"type":"api_error","message":"x"}}' * 20,
        b"\xef\xbb\xbf  <html>\n<body>\n\n</body></html>",
        b"<!doctype html>" + b"\n\ndata: x\n\n" * 200,
        b"\xef\xbb\xbf\n {\n\ndata: x\n\n}",
        b"[]",
        b"Bad gateway",
    ],
)
def test_a_body_that_is_no_event_stream_is_named(body: bytes, chunk: int) -> None:
    failure = failure_of(body, chunk)

    assert failure.kind == "not_a_stream"
    assert body.decode("utf-8-sig").strip()[:200] in failure.message


def test_a_long_document_is_not_read_to_its_end() -> None:
    fold = Fold()

    with pytest.raises(ProviderError) as raised:
        fold.feed(b"<!doctype html>" + b" " * 1000)

    assert raised.value.failure.kind == "not_a_stream"


@pytest.mark.parametrize(
    "data",
    [
        started(),
        started() + HI,
        started() + HI + event("message_delta", delta={"stop_reason": "end_turn"}),
        started() + HI + stopped(None),
        started() + HI + stopped(""),
        started() + HI + event("message_stop"),
        b": only a comment\n\n",
        event("completion", completion="x"),
        event("ping"),
    ],
)
def test_a_stream_without_message_stop_or_stop_reason_is_truncated(
    data: bytes,
) -> None:
    assert failure_of(data).kind == "truncated"


def test_a_last_event_without_its_blank_line_counts_if_it_is_whole() -> None:
    data = started() + HI + stopped()

    for missing in (b"\n", b"\n\n"):
        assert folded(data.removesuffix(missing)) == folded(data)
    assert failure_of(data.removesuffix(b"}\n\n")).kind == "truncated"


def test_the_connection_can_break_with_what_was_told_so_far() -> None:
    fold = Fold(request_id="req_1")
    fold.feed(started() + HI + opened(1, call(), told_input("{")))

    assert fold.failure("timeout", "silent for 120 s") == Failure(
        kind="timeout",
        message="silent for 120 s",
        request_id="req_1",
        partial=(said("hi"),),
        usage=Usage(input=5, output=1),
    )


# What is tolerated.


def test_the_same_message_start_twice_is_one() -> None:
    twice = started() + started() + HI + stopped()

    assert folded(twice) == folded(started() + HI + stopped())
    path = corpus("sse_bodies/vercel-ai__duplicate-message-start.sse")
    assert folded(path.read_bytes()).message_id == "msg_dup"


def test_spliced_answers_are_garbled_and_the_first_ones_whole_blocks_are_kept() -> None:
    path = corpus("sse_bodies/vercel-ai__spliced-message-start.sse")

    failure = failure_of(path.read_bytes(), 100)

    assert failure.kind == "garbled"
    assert failure.partial == (
        Reasoning(
            text="I will call the tool.",
            response="msg_first",
            model="claude-3-haiku-20240307",
            signature="sig-first",
        ),
    )


def test_pings_and_unknown_events_and_deltas_are_left_out_and_counted() -> None:
    fold = Fold()

    fold.feed(
        started()
        + event("ping")
        + b"event: ping\ndata: not JSON\n\n"
        + b"event: keepalive\ndata: not JSON\n\n"
        + event("content_block_glow", index="many")
        + block(0, {"type": "text", "text": "a"}, {"type": "glow_delta", "text": 1})
        + block(1, {"type": "orb", "x": 1}, {"type": "glow_delta", "x": 2})
        + stopped()
    )

    assert fold.end().items == (said("a"), Opaque('{"type": "orb", "x": 1}', "msg_1"))
    assert fold.ignored == {
        "event ping": 1,
        "event keepalive": 1,
        "event content_block_glow": 1,
        "delta glow_delta": 2,
    }


def test_blocks_may_come_interleaved_and_are_in_the_order_of_their_indexes() -> None:
    data = (
        started()
        + opened(1, call("b"), told_input('{"x"'))
        + opened(0, call("a"), told_input("{"))
        + event("content_block_delta", index=1, delta=told_input(":1}"))
        + event("content_block_stop", index=1)
        + event("content_block_delta", index=0, delta=told_input("}"))
        + event("content_block_stop", index=0)
        + stopped("tool_use")
    )

    assert folded(data).items == (
        ToolCall("a", "bash", "{}", "msg_1"),
        ToolCall("b", "bash", '{"x":1}', "msg_1"),
    )


def test_ids_that_are_empty_missing_or_double_are_passed_on() -> None:
    anonymous: dict[str, object] = {"type": "tool_use", "name": "bash", "id": None}
    data = (
        started(id=None, model=None)
        + block(0, call(""))
        + block(1, call("x"))
        + block(2, call("x"))
        + block(3, anonymous)
        + stopped("tool_use")
    )

    response = folded(data)

    assert (response.message_id, response.model) == ("", "")
    assert [c.call_id for c in response.items if isinstance(c, ToolCall)] == [
        *["", "x", "x", ""]
    ]


def test_a_refusal_is_explained() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "no"}

    assert folded(started() + stopped("refusal", stop_details=details)) == Response(
        message_id="msg_1",
        model="m",
        items=(),
        stop_reason="refusal",
        usage=Usage(input=5, output=20),
        context_tokens=25,
        explanation="no",
    )
    bare = {"type": "refusal", "category": "cyber", "explanation": None}
    response = folded(started() + stopped("refusal", stop_details=bare))
    assert response.explanation == "cyber"
    for nothing in (None, 5, {"explanation": 5}):
        response = folded(started() + stopped("end_turn", stop_details=nothing))
        assert response.explanation is None


def test_after_a_fallback_the_reasoning_is_the_other_models() -> None:
    thinking: dict[str, object] = {**THINKING, "signature": "s"}
    data = (
        started()
        + block(0, thinking)
        + block(1, {"type": "fallback", "from": {"model": "m"}, "to": {"model": "n"}})
        + block(2, thinking)
        + stopped()
    )

    response = folded(data)

    assert response.model == "n"
    made = [item.model for item in response.items if isinstance(item, Reasoning)]
    assert made == ["m", "n"]
