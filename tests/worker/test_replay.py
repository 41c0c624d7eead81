import json

import pytest
from hypothesis import given, settings, strategies as st

from tests.corpus import CORPUS
from tests.worker.streams import fold_pieces, folded
from worker.client import ProviderError, Response, ToolInputDelta
from worker.items import AssistantText, FromModel, Opaque, Reasoning, ToolCall
from worker.replay import events_of
from worker.usage import Usage

STREAMS = sorted((CORPUS / "sse_bodies").glob("*.sse"))

TAKEN = {"type", "text", "thinking", "signature", "data", "id", "name", "input"}
tokens = st.integers(0, 300_000)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=8), json_values, max_size=3)


def compact(told: object) -> str:
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def spread(told: object) -> str:
    return json.dumps(told, indent=1)


extras = objects.map(
    lambda told: {k: v for k, v in told.items() if k not in TAKEN}
).map(lambda told: compact(told) if told else "")


def items(response: str, model: str) -> st.SearchStrategy[FromModel]:
    said = st.builds(AssistantText, st.text(), st.just(response), extras)
    thought = st.builds(
        Reasoning,
        text=st.text(),
        response=st.just(response),
        model=st.just(model),
        signature=st.text(max_size=20),
        extra=extras,
    )
    redacted = st.builds(
        Reasoning,
        text=st.just(""),
        response=st.just(response),
        model=st.just(model),
        redacted=st.text(min_size=1, max_size=20),
        extra=extras,
    )
    call = st.builds(
        ToolCall,
        call_id=st.text(max_size=8),
        name=st.text(max_size=8),
        arguments=objects.map(compact) | objects.map(spread),
        response=st.just(response),
        extra=extras,
    )
    cut = st.builds(
        ToolCall,
        call_id=st.text(max_size=8),
        name=st.text(max_size=8),
        arguments=st.just("{}"),
        response=st.just(response),
        incomplete=st.just(True),
    )
    kinds = st.sampled_from(["orb", "server_tool_use", "compaction", "tool_result"])
    other = st.builds(
        lambda kind, told, write: Opaque(write({"type": kind} | told), response),
        kinds,
        objects.map(lambda told: {k: v for k, v in told.items() if k != "type"}),
        st.sampled_from([compact, spread]),
    )
    return said | thought | redacted | call | cut | other


@st.composite
def usages(draw: st.DrawFn) -> Usage | None:
    write = draw(tokens)
    usage = Usage(
        input=draw(tokens),
        cache_read=draw(tokens),
        cache_write=write,
        cache_write_1h=draw(st.integers(0, write)),
        output=draw(tokens),
        reasoning=draw(tokens),
        web_searches=draw(st.integers(0, 9)),
    )
    return draw(st.sampled_from([usage, None])) if usage.total else None


@st.composite
def responses(draw: st.DrawFn) -> Response:
    message_id, model = draw(st.text(max_size=8)), draw(st.text(max_size=8))
    usage = draw(usages())
    known: st.SearchStrategy[int | None] = st.none()
    if usage is not None:
        known |= st.just(usage.total) | st.integers(1, usage.total)
    return Response(
        message_id=message_id,
        model=model,
        items=tuple(draw(st.lists(items(message_id, model), max_size=5))),
        stop_reason=draw(st.sampled_from(["end_turn", "max_tokens", "tool_use", "zz"])),
        usage=usage,
        context_tokens=draw(known),
        explanation=draw(st.none() | st.text(min_size=1, max_size=9)),
    )


@settings(max_examples=200, deadline=None)
@given(response=responses(), chunk=st.integers(1, 50))
def test_a_replayed_response_folds_into_itself(response: Response, chunk: int) -> None:
    again, _ = fold_pieces(events_of(response, chunk=chunk))

    assert again == response


@settings(max_examples=50, deadline=None)
@given(response=responses(), data=st.data())
def test_a_replay_cut_off_anywhere_is_no_response(
    response: Response, data: st.DataObject
) -> None:
    body = b"".join(events_of(response, chunk=5))
    last = body.rindex(b"event: message_stop")
    cut = data.draw(st.integers(0, last))

    with pytest.raises(ProviderError) as raised:
        folded(body[:cut])

    whole = set(response.items)
    assert raised.value.failure.kind in {"truncated", "not_a_stream"}
    assert set(raised.value.failure.partial) <= whole


@pytest.mark.skipif(not STREAMS, reason="no corpus beside the project")
def test_recorded_responses_fold_into_themselves() -> None:
    told = 0
    for path in STREAMS:
        try:
            response = folded(path.read_bytes())
        except ProviderError:
            continue

        again, _ = fold_pieces(events_of(response, chunk=11))

        assert again == response, path.name
        told += 1
    assert told > 80


def test_what_streams_comes_in_pieces() -> None:
    response = Response(
        message_id="m",
        model="x",
        items=(ToolCall("t", "bash", '{"command":"ls"}', "m"),),
        stop_reason="tool_use",
    )

    events = list(events_of(response, chunk=6))
    _, deltas = fold_pieces(events)

    assert [event.split(b"\n")[0].decode() for event in events] == [
        "event: message_start",
        "event: ping",
        "event: content_block_start",
        *["event: content_block_delta"] * 3,
        "event: content_block_stop",
        "event: message_delta",
        "event: message_stop",
    ]
    assert deltas == [
        ToolInputDelta("t", "bash", piece) for piece in ['{"comm', 'and":"', 'ls"}']
    ]


def test_a_context_larger_than_the_usage_cannot_be_told() -> None:
    response = Response("m", "x", (), "end_turn", Usage(input=5), context_tokens=6)

    with pytest.raises(ValueError, match="context_tokens 6 above usage 5"):
        list(events_of(response, chunk=5))
