"""Streams that servers sent: read whole, cut anywhere, broken anyhow."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.corpus import CORPUS, corpus
from tests.worker.streams import (
    event,
    failure_of,
    fold_pieces,
    folded,
    naive_events,
    said,
)
from worker.client import (
    ProviderError,
)
from worker.items import AssistantText, Opaque, Reasoning, ToolCall
from worker.stream import Fold
from worker.usage import Usage

STREAMS = sorted((CORPUS / "sse_bodies").glob("*.sse"))


needs_corpus = pytest.mark.skipif(not STREAMS, reason="no corpus beside the project")


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
