"""Items in one short word each, for tests that read like the history they mean."""

from tools.base import Image
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
from worker.model import Model

MODEL_ID = "claude-test-1"

MODEL = Model(provider="scripted", id=MODEL_ID, window=200_000, max_tokens=8_000)


def history(*items: Item) -> list[Item]:
    return list(items)


def user(text: str, *images: Image) -> UserText:
    return UserText(text, images)


def synthetic(text: str = "Continue if you have next steps.") -> UserText:
    return UserText(text, synthetic=True)


def told(text: str) -> SystemText:
    return SystemText(text)


def said(text: str, response: str = "said") -> AssistantText:
    return AssistantText(text, response)


def thought(
    text: str = "hm", response: str = "", *, of: str = "a", model: str = MODEL_ID
) -> Reasoning:
    """Signed reasoning; by default of the response that call(*of*) belongs to."""
    return Reasoning(text, response or f"r-{of}", model, signature=f"signed {text}")


def call(
    call_id: str, response: str = "", *, name: str = "bash", arguments: str = "{}"
) -> ToolCall:
    """A call in a response of its own (``r-`` and the call id) unless told."""
    return ToolCall(call_id, name, arguments, response or f"r-{call_id}")


def result(call_id: str, content: str = "ok", *images: Image) -> ToolResult:
    return ToolResult(call_id, f"ran {call_id}", content, images=images)


def opaque(json: str = '{"type":"new_block"}', response: str = "o") -> Opaque:
    return Opaque(json, response)


def picture(size: int = 16) -> Image:
    """A GIF of one pixel whose base64 has *size* characters, at least 16."""
    return Image("image/gif", "R0lGODlhAQABAAAA".ljust(size, "A"))
