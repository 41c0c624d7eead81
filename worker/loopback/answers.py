"""An answer as bytes: its event stream, or one JSON message."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import msgspec
from msgspec import Raw, Struct

from worker.client import Response
from worker.encode import events_of
from worker.items import AssistantText, FromModel, Opaque, Reasoning, ToolCall
from worker.usage import Usage

CHUNK = 24
"""Characters in one delta; the real API sends a few tokens at a time."""


def stream_of(response: Response, *, interleave: bool = False) -> list[bytes]:
    """Return the answer's events. *interleave* mixes the blocks of parallel calls."""
    events = list(events_of(response, chunk=CHUNK))
    return list(_interleaved(events)) if interleave else events


class _Kind(Struct, frozen=True):
    type: str = ""


class _Event(Struct, frozen=True):
    type: str
    index: int | None = None
    content_block: _Kind = _Kind()


_events = msgspec.json.Decoder(_Event)


def _interleaved(events: Sequence[bytes]) -> Iterator[bytes]:
    """Give the events of neighbouring tool blocks in turns, by their index."""
    calls: dict[int, list[bytes]] = {}
    for event in events:
        told = _events.decode(event.partition(b"data: ")[2])
        if told.content_block.type == "tool_use" and told.index is not None:
            calls[told.index] = [event]
        elif told.index in calls:
            calls[told.index].append(event)
        else:
            yield from _in_turns(calls)
            calls.clear()
            yield event


def _in_turns(calls: dict[int, list[bytes]]) -> Iterator[bytes]:
    for turn in zip_longest(*calls.values()):
        yield from (event for event in turn if event is not None)


class _Message(Struct, tag_field="type", tag="message"):
    id: str
    model: str
    content: list[dict[str, object] | Raw]
    stop_reason: str
    usage: dict[str, object]
    role: str = "assistant"
    stop_sequence: None = None


def message_of(response: Response) -> bytes:
    """Return the answer as the JSON of a request without ``stream``."""
    return msgspec.json.encode(
        _Message(
            id=response.message_id,
            model=response.model,
            content=[_block(item) for item in response.items],
            stop_reason=response.stop_reason,
            usage=_usage(response.usage or Usage()),
        )
    )


def _block(item: FromModel) -> dict[str, object] | Raw:
    match item:
        case AssistantText():
            return {"type": "text", "text": item.text}
        case Reasoning(redacted=""):
            thinking = {"thinking": item.text, "signature": item.signature}
            return {"type": "thinking", **thinking}
        case Reasoning():
            return {"type": "redacted_thinking", "data": item.redacted}
        case ToolCall():
            arguments = Raw(item.arguments.encode())
            call = {"id": item.call_id, "name": item.name, "input": arguments}
            return {"type": "tool_use", **call}
        case Opaque():
            return Raw(item.json.encode())


def _usage(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write - usage.cache_write_1h,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }
