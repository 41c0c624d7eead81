"""How many tokens items have: o200k counts, corrected by a factor per model.

The counts are those of the o200k vocabulary, which is at hand offline; what a
Claude model makes of the same text is higher by a factor, which is guessed here
for the first request and learned from measured usage afterwards.
"""

from typing import Protocol

from tools.base import Image
from worker.api import ToolSpec
from worker.images import image_tokens
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
from worker.known_models import find_known

ENVELOPE = 7
"""Tokens around an item: role, block type, ids (measured: 6 to 7 a message)."""

RESULT_ENVELOPE = 14
"""The same around a tool's result (measured on 800 of them: 11 to 16)."""

CALL_ENVELOPE = 40
"""The same around a tool call, which the model writes as markup (measured: about 40
for Claude, 13 for gpt-5)."""

SEALED_BYTES = 230
"""Bytes of a signature that are there however short the reasoning is."""

SEALED_PER_TOKEN = 5.3
"""Further ones per token of reasoning: base64 of the encrypted text (4/3 of 4)."""

OLD_TOKENIZER = 1.18
NEW_TOKENIZER = 1.53
"""Claude's tokens per o200k token on code and prose, before anything is
measured: models up to 4.6, and since Opus 4.7 (performance.md A5)."""

OTHER_TOKENIZER = 1.15
"""For a model of another family behind the same interface."""


class Counter(Protocol):
    """Counts tokens. May be called from any thread."""

    def count(self, text: str) -> int:
        """Return the o200k tokens of *text*."""


def at_most(text: str) -> int:
    """Return a bound on the tokens of *text* without counting: its bytes."""
    return len(text.encode("utf-8", "replace"))


def count_item(item: Item, counter: Counter) -> int:
    """Return the o200k tokens of *item* as it is sent, images by their size."""
    text, images = _parts(item)
    tokens = counter.count(text) if text else 0
    return _envelope(item) + max(tokens, _sealed(item)) + _images(images)


def item_bytes(item: Item) -> int:
    """Return a bound on count_item that needs no tokenizer."""
    text, images = _parts(item)
    return _envelope(item) + max(at_most(text), _sealed(item)) + _images(images)


def count_tool(spec: ToolSpec, counter: Counter) -> int:
    """Return the o200k tokens of a tool's name, description and schema."""
    return ENVELOPE + counter.count(_tool_text(spec))


def tool_bytes(spec: ToolSpec) -> int:
    """Return a bound on count_tool that needs no tokenizer."""
    return ENVELOPE + at_most(_tool_text(spec))


def factor_for(model: str) -> float:
    """Return the first guess at *model*'s tokens per o200k token."""
    if (known := find_known(model)) is not None:
        return NEW_TOKENIZER if known.new_tokenizer else OLD_TOKENIZER
    # A Claude nobody here has heard of is newer than this table.
    return NEW_TOKENIZER if "claude" in model.lower() else OTHER_TOKENIZER


def _tool_text(spec: ToolSpec) -> str:
    schema = bytes(spec.input_schema).decode("utf-8", "replace")
    return f"{spec.name}\n{spec.description}\n{schema}"


def _envelope(item: Item) -> int:
    match item:
        case ToolCall():
            return CALL_ENVELOPE
        case ToolResult():
            return RESULT_ENVELOPE
        case SystemText() | UserText() | AssistantText() | Reasoning() | Opaque():
            return ENVELOPE


def _sealed(item: Item) -> int:
    """Return the tokens of the reasoning that a signature stands for.

    The signature is not read as text. It holds the whole of the reasoning, of
    which the text may be a summary, or nothing.
    """
    if not isinstance(item, Reasoning):
        return 0
    sealed = len(item.signature) + len(item.redacted)
    return max(round((sealed - SEALED_BYTES) / SEALED_PER_TOKEN), 0)


def _parts(item: Item) -> tuple[str, tuple[Image, ...]]:
    """Return what of *item* the model sees: its text and its images."""
    match item:
        case SystemText(text, native):
            # Which of the two is sent depends on the model: count the larger.
            block = "" if native is None else native.json
            return max(text, block, key=len), ()
        case UserText(text, images):
            return text, images
        case AssistantText(text, extra=extra):
            return text + extra, ()
        case Reasoning(text, extra=extra):
            return text + extra, ()
        case ToolCall(name=name, arguments=arguments, extra=extra):
            return name + arguments + extra, ()
        case ToolResult(summary=summary, content=content, images=images):
            return summary if content is None else content, images
        case Opaque(json):
            return json, ()


def _images(images: tuple[Image, ...]) -> int:
    return sum(image_tokens(image.data) for image in images)
