import json
from collections import Counter, deque
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.corpus import CORPUS, corpus
from tests.worker.streams import (
    block,
    call,
    event,
    fold_pieces,
    folded,
    naive_events,
    opened,
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
from worker.items import AssistantText, Opaque, Reasoning, ToolCall
from worker.stream import Fold
from worker.usage import Usage

STREAMS = sorted((CORPUS / "sse_bodies").glob("*.sse"))
needs_corpus = pytest.mark.skipif(not STREAMS, reason="no corpus beside the project")


def failure_of(data: bytes, chunk: int = 1 << 20) -> Failure:
    with pytest.raises(ProviderError) as raised:
        folded(data, chunk)
    return raised.value.failure


def said(words: str) -> AssistantText:
    return AssistantText(text=words, response="msg_1")


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


# What the recorded streams say, against a naive reading of the same bytes.


def naive_message(path: Path) -> list[dict[str, object]]:
    """The blocks of the first message, put together in the plainest way."""
    blocks: dict[int, dict[str, object]] = {}
    for told in naive_events(path):
        match told:
            case {"type": "content_block_start", "index": int(index)}:
                start = told["content_block"]
                assert isinstance(start, dict)
                blocks[index] = start | {"input_json": ""}
            case {
                "type": "content_block_delta",
                "index": int(index),
                "delta": {"type": str(kind), **fields},
            }:
                name, field = {
                    "text_delta": ("text", "text"),
                    "thinking_delta": ("thinking", "thinking"),
                    "signature_delta": ("signature", "signature"),
                    "input_json_delta": ("input_json", "partial_json"),
                }.get(kind, ("", ""))
                if name:
                    before = blocks[index].get(name, "")
                    blocks[index][name] = f"{before}{fields[field]}"
            case {"type": "message_stop"}:
                break
            case _:
                pass
    return [blocks[index] for index in sorted(blocks)]


FAILING = {
    "anthropic-sdk-python__sample_file.sse": "not_a_stream",
    "openinference__test_anthropic_instrumentation_async_completions_streaming__0.sse": "truncated",
    "vercel-ai__spliced-message-start.sse": "garbled",
}


@needs_corpus
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_every_recorded_stream_is_read_or_fails_with_a_name(path: Path) -> None:
    if path.name in FAILING:
        assert failure_of(path.read_bytes()).kind == FAILING[path.name]
        return

    response = folded(path.read_bytes())

    naive = naive_message(path)
    assert len(response.items) == len(naive)
    for item, told in zip(response.items, naive, strict=True):
        match item:
            case AssistantText():
                assert (told["type"], told["text"]) == ("text", item.text)
            case Reasoning():
                signed = (told["thinking"], told["signature"])
                assert signed == (item.text, item.signature)
            case ToolCall(incomplete=True):
                with pytest.raises(json.JSONDecodeError):
                    json.loads(str(told["input_json"]))
            case ToolCall():
                start = json.dumps(told["input"], separators=(",", ":"))
                assert item.arguments == (told["input_json"] or start)
                assert (item.call_id, item.name) == (told["id"], told["name"])
            case Opaque():
                again = json.loads(item.json)
                assert again["type"] == told["type"]
                if told["input_json"]:
                    assert again["input"] == json.loads(str(told["input_json"]))


@needs_corpus
def test_blocks_and_stop_reasons_are_those_of_the_index() -> None:
    kinds = {AssistantText: "text", Reasoning: "thinking", ToolCall: "tool_use"}
    for entry in json.loads(corpus("sse_bodies/index.json").read_text()):
        if entry["events"].get("message_stop") != 1 or Path(entry["file"]).name in (
            FAILING
        ):
            continue

        response = folded(corpus(entry["file"]).read_bytes())

        told = Counter(
            json.loads(item.json)["type"]
            if isinstance(item, Opaque)
            else kinds[type(item)]
            for item in response.items
        )
        assert told == entry["blocks"], entry["file"]
        assert response.stop_reason == entry["stop_reason"], entry["file"]


@needs_corpus
def test_a_body_of_several_messages_ends_with_the_first() -> None:
    path = corpus("sse_bodies/vercel-ai__anthropic-tool-search-regex.1.sse")

    response = folded(path.read_bytes())

    assert response.stop_reason == "tool_use"
    assert len(response.items) == 4
    fold = Fold()
    fold.feed(path.read_bytes())
    assert fold.is_done
    assert fold.feed(b"data: what comes after is not read\n\n") == []


def test_what_comes_behind_the_answer_cannot_spoil_it() -> None:
    fold = Fold(limit=1000)
    fold.feed(started() + HI + stopped())

    fold.feed(b"data: " + b"x" * 2000)
    fold.feed(b"\n\n" + event("error", error={"type": "api_error", "message": "m"}))

    assert fold.end() == folded(started() + HI + stopped())


@needs_corpus
def test_an_answer_may_come_whole_inside_message_start() -> None:
    path = corpus("sse_bodies/vercel-ai__anthropic-programmatic-tool-calling.1.sse")
    bodies = path.read_bytes().split(b"event: message_start\n")
    second = b"event: message_start\n" + bodies[2]

    response = folded(second)

    (item,) = response.items
    assert isinstance(item, ToolCall)
    assert (item.name, item.arguments) == ("rollDie", '{"player":"player2"}')
    assert '"caller"' in item.extra
    assert response.stop_reason == "tool_use"
    assert response.usage is None
    assert response.context_tokens is None


@needs_corpus
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_how_the_bytes_are_cut_changes_nothing(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([p for p in STREAMS if p.name not in FAILING]))
    body = path.read_bytes()
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=30).map(sorted))

    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    assert fold_pieces(pieces) == fold_pieces([body])


# Case 23: dialects, cuts, and streams that break.


@pytest.mark.parametrize(
    "name", ["23-multibyte.sse", "23-cr.sse", "23-crlf.sse", "23-nospace.sse"]
)
def test_case_23_is_the_same_answer_at_every_cut(name: str) -> None:
    body = corpus(f"cases/inputs/{name}").read_bytes()
    expected = (
        said("日本語 🎉 é"),
        ToolCall("toolu_1", "bash", '{"command": "echo 日本"}', "msg_1"),
    )

    for cut in range(len(body) + 1):
        response, _ = fold_pieces([body[:cut], body[cut:]])
        assert response.items == expected
        assert response.stop_reason == "tool_use"
        assert response.usage == Usage(input=5, output=20)


def test_case_23_without_message_stop_is_truncated_at_every_cut() -> None:
    body = corpus("cases/inputs/23-no-stop.sse").read_bytes()

    for chunk in range(1, len(body), 11):
        failure = failure_of(body, chunk)
        assert failure.kind == "truncated"
        assert [type(item) for item in failure.partial] == [AssistantText, ToolCall]
        assert failure.usage == Usage(input=5, output=1)


def test_case_23_with_a_line_of_bad_json_is_garbled() -> None:
    body = corpus("cases/inputs/23-bad-json-line.sse").read_bytes()

    for chunk in range(1, len(body), 11):
        failure = failure_of(body, chunk)
        assert (failure.kind, failure.partial) == ("garbled", ())


def test_case_25_is_another_api_and_no_crash() -> None:
    body = corpus("cases/inputs/25-usage-in-choice.sse").read_bytes()

    assert failure_of(body).kind == "garbled"


RECORDED = "fantasy__TestAnthropicThinking_claude-sonnet-4_thinking-streaming__0.sse"


def test_a_stream_cut_at_any_byte_is_never_an_answer() -> None:
    body = corpus(f"sse_bodies/{RECORDED}").read_bytes()
    whole = folded(body)
    needed = body.index(b'"message_stop"') + len(b'"message_stop"')

    for cut in range(0, len(body), 3):
        try:
            response = folded(body[:cut])
        except ProviderError as error:
            failure = error.failure
            assert failure.kind in {"truncated", "not_a_stream"}
            assert failure.partial == whole.items[: len(failure.partial)]
        else:
            assert cut > needed
            assert response == whole
    assert folded(body.rstrip()) == whole


def test_every_dialect_of_a_recorded_stream_is_the_same_answer() -> None:
    body = corpus(f"sse_bodies/{RECORDED}").read_bytes()
    whole = folded(body)

    for same in [
        body.replace(b"\n", b"\r\n"),
        body.replace(b"\n", b"\r"),
        b"\xef\xbb\xbf" + body,
        body.replace(b"event: ", b": a comment\nid: 1\nretry: 5\nevent:"),
        b"\n\n" + body.replace(b"data: ", b"data:"),
        b"\n".join(line for line in body.split(b"\n") if line[:6] != b"event:"),
    ]:
        assert folded(same, 13) == whole


def test_an_error_after_half_a_tool_input_leaves_no_call_behind() -> None:
    body = corpus(f"sse_bodies/{RECORDED}").read_bytes()
    half = body[
        : body.index(
            b'event: content_block_stop\ndata: {"type":"content_block_stop","index":1'
        )
    ]
    error = {"type": "overloaded_error", "message": "Overloaded"}

    failure = failure_of(half + event("error", error=error))

    assert failure.kind == "overloaded"
    assert [type(item) for item in failure.partial] == [Reasoning]


@needs_corpus
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_whatever_comes_is_a_response_or_a_provider_error(data: st.DataObject) -> None:
    body = data.draw(st.sampled_from(STREAMS)).read_bytes()[:20_000]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body)))
        gone = data.draw(st.integers(0, 60))
        put = data.draw(st.binary(max_size=4) | st.sampled_from([b"null", b"[", b"5"]))
        body = body[:at] + put + body[at + gone :]

    try:
        response = folded(body, 4096)
    except ProviderError:
        return

    assert b"message_stop" in body
    for item in response.items:
        if isinstance(item, ToolCall):
            assert isinstance(json.loads(item.arguments), dict)


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
