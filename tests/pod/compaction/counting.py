"""Tokens that are easy to foresee: one for every four characters begun."""

from worker.items import (
    AssistantText,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)

ENVELOPE = 7
IMAGE = 10


def count_text(text: str) -> int:
    return (len(text) + 3) // 4


def count(item: Item) -> int:
    match item:
        case SystemText(text) | AssistantText(text):
            return ENVELOPE + count_text(text)
        case UserText(text, images):
            return ENVELOPE + count_text(text) + IMAGE * len(images)
        case Reasoning(text, signature=signature, redacted=redacted):
            return ENVELOPE + count_text(text + signature + redacted)
        case ToolCall(name=name, arguments=arguments):
            return ENVELOPE + count_text(name + arguments)
        case ToolResult(summary=summary, content=content, images=images):
            text = summary if content is None else content
            return ENVELOPE + count_text(text) + IMAGE * len(images)
        case Opaque(json):
            return ENVELOPE + count_text(json)
