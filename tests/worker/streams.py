"""Event streams for tests: made by hand, and read from the corpus naively."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from worker.client import Delta, Failure, ProviderError, Response
from worker.items import AssistantText
from worker.stream import Fold


def event(kind: str, **fields: object) -> bytes:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def started(usage: object = None, **fields: object) -> bytes:
    told = {"input_tokens": 5, "output_tokens": 1} if usage is None else usage
    message = {"id": "msg_1", "model": "m", "content": [], "usage": told}
    return event("message_start", message={**message, **fields})


def block(
    index: int, start: Mapping[str, object], *deltas: Mapping[str, object]
) -> bytes:
    return opened(index, start, *deltas) + event("content_block_stop", index=index)


def opened(
    index: int, start: Mapping[str, object], *deltas: Mapping[str, object]
) -> bytes:
    grown = [event("content_block_delta", index=index, delta=d) for d in deltas]
    return event("content_block_start", index=index, content_block=start) + b"".join(
        grown
    )


def text(index: int, said: str) -> bytes:
    return block(
        index, {"type": "text", "text": ""}, {"type": "text_delta", "text": said}
    )


def told_input(piece: str) -> dict[str, object]:
    return {"type": "input_json_delta", "partial_json": piece}


def call(call_id: str = "toolu_1", name: str = "bash") -> dict[str, object]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def stopped(
    reason: str | None = "end_turn", usage: object = None, **fields: object
) -> bytes:
    told = {"output_tokens": 20} if usage is None else usage
    delta = {"stop_reason": reason, "stop_sequence": None, **fields}
    return event("message_delta", delta=delta, usage=told) + event("message_stop")


def folded(data: bytes, chunk: int = 1 << 20) -> Response:
    return fold_pieces(data[i : i + chunk] for i in range(0, len(data), chunk))[0]


def fold_pieces(pieces: Iterable[bytes]) -> tuple[Response, list[Delta]]:
    fold = Fold()
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += fold.feed(piece)
    return fold.end(), deltas


def naive_events(path: Path) -> list[dict[str, object]]:
    """Read a recorded stream with nothing of ours: its data lines, as JSON."""
    lines = path.read_bytes().decode().replace("\r\n", "\n").split("\n")
    return [json.loads(line[5:]) for line in lines if line.startswith("data:")]


def failure_of(data: bytes, chunk: int = 1 << 20) -> Failure:
    with pytest.raises(ProviderError) as raised:
        folded(data, chunk)
    return raised.value.failure


def said(words: str) -> AssistantText:
    return AssistantText(text=words, response="msg_1")
