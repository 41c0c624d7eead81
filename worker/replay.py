"""An answer as the event stream that tells it: the inverse of stream.Fold."""

from collections.abc import Iterator

from msgspec import Raw, json

from worker.client import Response
from worker.items import AssistantText, FromModel, Opaque, Reasoning, ToolCall
from worker.usage import Usage


def events_of(response: Response, *, chunk: int) -> Iterator[bytes]:
    """Yield the events of *response*'s stream, each as its bytes.

    Text, reasoning and arguments come in pieces of *chunk* characters. A Fold
    makes the same response of them, if its items carry its message id and
    reasoning its model; the request id is a header and not in it. Raises
    ValueError for context_tokens above the usage, which no stream can tell.
    """
    yield _event("message_start", message=_message(response))
    yield _event("ping")
    for index, item in enumerate(response.items):
        block, deltas = _block(item, chunk)
        yield _event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ending: dict[str, object] = {
        "stop_reason": response.stop_reason,
        "stop_sequence": None,
    }
    if response.explanation is not None:
        ending["stop_details"] = {
            "type": "refusal",
            "category": None,
            "explanation": response.explanation,
        }
    yield _event("message_delta", delta=ending, usage=_final_usage(response))
    yield _event("message_stop")


def _event(kind: str, **fields: object) -> bytes:
    lines = json.encode({"type": kind, **fields}).splitlines()
    data = b"".join(b"data: " + line + b"\n" for line in lines)
    return b"event: " + kind.encode() + b"\n" + data + b"\n"


def _message(response: Response) -> dict[str, object]:
    usage = response.usage or Usage()
    return {
        "id": response.message_id,
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_prompt(usage), "output_tokens": min(1, usage.output)},
    }


def _block(item: FromModel, chunk: int) -> tuple[object, list[dict[str, str]]]:
    block: dict[str, object]
    match item:
        case AssistantText():
            block = {"type": "text", "text": "", **_extra(item.extra)}
            return block, _deltas("text_delta", "text", item.text, chunk)
        case Reasoning(redacted=""):
            block = {
                "type": "thinking",
                "thinking": "",
                "signature": "",
                **_extra(item.extra),
            }
            deltas = _deltas("thinking_delta", "thinking", item.text, chunk)
            if item.signature:
                signature = {"type": "signature_delta", "signature": item.signature}
                deltas.append(signature)
            return block, deltas
        case Reasoning():
            kind = "redacted_thinking"
            return {"type": kind, "data": item.redacted, **_extra(item.extra)}, []
        case ToolCall():
            block = {
                "type": "tool_use",
                "id": item.call_id,
                "name": item.name,
                "input": {},
                **_extra(item.extra),
            }
            told = '{"' if item.incomplete else item.arguments
            return block, _deltas("input_json_delta", "partial_json", told, chunk)
        case Opaque():
            return Raw(item.json.encode()), []


def _extra(extra: str) -> dict[str, Raw]:
    return json.decode(extra, type=dict[str, Raw]) if extra else {}


def _deltas(kind: str, field: str, text: str, chunk: int) -> list[dict[str, str]]:
    return [
        {"type": kind, field: text[start : start + chunk]}
        for start in range(0, len(text), chunk)
    ]


def _prompt(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write - usage.cache_write_1h,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
    }


def _final_usage(response: Response) -> dict[str, object]:
    usage = response.usage or Usage()
    told = {
        **_prompt(usage),
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
        "server_tool_use": {"web_search_requests": usage.web_searches},
    }
    has_opaque = any(isinstance(item, Opaque) for item in response.items)
    if has_opaque or response.context_tokens != (usage.total or None):
        told["iterations"] = _iterations(usage, response.context_tokens)
    return told


def _iterations(usage: Usage, context_tokens: int | None) -> list[dict[str, object]]:
    """Split *usage* so that the last message iteration has *context_tokens*."""
    left = context_tokens or 0
    message: list[int] = []
    for tokens in (usage.input, usage.cache_write, usage.cache_read, usage.output):
        message.append(min(left, tokens))
        left -= message[-1]
    if left:
        raise ValueError(f"context_tokens {context_tokens} above usage {usage.total}")
    rest = usage.input, usage.cache_write, usage.cache_read, usage.output
    before = [whole - part for whole, part in zip(rest, message, strict=True)]
    told = [_iteration("compaction", before)]
    if context_tokens is not None:
        told.append(_iteration("message", message))
    return told


def _iteration(kind: str, tokens: list[int]) -> dict[str, object]:
    names = (
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
    )
    return {"type": kind, **dict(zip(names, tokens, strict=True))}
