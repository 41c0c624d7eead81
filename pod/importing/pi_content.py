"""What the messages of pi and oh-my-pi hold: text, images, and the parts of an answer."""

from collections.abc import Sequence

from msgspec import Raw

from pod.importing.pi_lines import Content, Message
from pod.importing.records import (
    Answer,
    Block,
    Called,
    Part,
    Said,
    Thought,
    raw_text,
)
from tools.base import Image
from worker.usage import Usage

OTHER_SIGNATURES = "signatures of other providers' reasoning: its text is kept"
OTHER_BLOCKS = "content blocks of other kinds"

_SIGNING = frozenset({"", "anthropic-messages", "bedrock-converse-stream"})
"""The API kinds whose reasoning carries the Messages API's signatures."""


def answer_of(
    message: Message, losses: list[str], *, id: str, parent: str | None, at: str
) -> Answer:
    """Return what a message of the assistant's says, and what it used."""
    parts = _own_parts(message)
    if parts is None:
        parts = _parts(message, losses)
    is_whole = message.stopReason not in {"error", "aborted"}
    usage = None
    context = None
    if (used := message.usage) is not None:
        usage = Usage(
            input=max(used.input, 0),
            cache_read=max(used.cacheRead, 0),
            cache_write=max(used.cacheWrite, 0),
            output=max(used.output, 0),
        )
        if is_whole and usage.total:
            context = usage.total
    cost = None if message.usage is None else message.usage.cost
    return Answer(
        id=id,
        parent=parent,
        at=at,
        key=message.responseId or "",
        model=message.model,
        parts=tuple(parts),
        stop=message.stopReason or "",
        error=message.errorMessage or "",
        usage=usage,
        context=context,
        cost=None if cost is None else cost.total,
        is_counted=message.pod is not None,
    )


def _parts(message: Message, losses: list[str]) -> list[Part]:
    content = message.content
    parts: list[Part] = []
    if isinstance(content, str):
        parts = [Said(content)] if content else []
    for one in content if isinstance(content, list) else ():
        match one.type:
            case "text":
                if one.text:
                    parts.append(Said(one.text))
            case "thinking":
                parts += _thought(one, message.api, losses)
            case "toolCall":
                parts.append(Called(one.id, one.name, arguments(one.arguments)))
            case _:
                losses.append(OTHER_BLOCKS)
    return parts


def _own_parts(message: Message) -> list[Part] | None:
    """Return the parts as Pod's log had them; None where pi has changed them."""
    content = message.content
    if message.pod is None or not isinstance(content, list):
        return None
    rest = iter(content)
    parts: list[Part] = []
    for own in message.pod:
        if own.json:
            parts.append(Block(own.json, own.entry))
            continue
        one = next(rest, None)
        if one is None:
            return None
        signature = one.thinkingSignature or ""
        match one.type:
            case "text":
                parts.append(Said(one.text, own.extra, own.entry))
            case "thinking" if one.redacted:
                parts.append(
                    Thought("", "", signature, extra=own.extra, entry=own.entry)
                )
            case "thinking":
                parts.append(
                    Thought(one.thinking, signature, extra=own.extra, entry=own.entry)
                )
            case "toolCall":
                text = own.arguments or arguments(one.arguments)
                parts.append(
                    Called(one.id, one.name, text, own.incomplete, own.extra, own.entry)
                )
            case _:
                return None
    return None if next(rest, None) is not None else parts


def _thought(one: Content, api: str, losses: list[str]) -> Sequence[Thought]:
    signature = one.thinkingSignature or ""
    if signature and api not in _SIGNING:
        losses.append(OTHER_SIGNATURES)
        signature = ""
    if one.redacted:
        return [Thought("", redacted=signature)] if signature else []
    if not one.thinking and not signature:
        return []
    return [Thought(one.thinking, signature)]


def arguments(raw: Raw) -> str:
    """Return a call's arguments as a JSON object."""
    text = raw_text(raw).strip()
    if text.startswith("{"):
        return text
    return '{"input":%s}' % (text or "null")


def content_of(
    content: str | list[Content] | None, losses: list[str]
) -> tuple[str, tuple[Image, ...]]:
    """Return the text and the images of what was told to the model."""
    if not isinstance(content, list):
        return content or "", ()
    texts: list[str] = []
    images: list[Image] = []
    for one in content:
        match one.type:
            case "text":
                texts.append(one.text)
            case "image":
                images.append(Image(one.mimeType or "image/png", one.data))
            case _:
                losses.append(OTHER_BLOCKS)
    return "\n".join(texts), tuple(images)
