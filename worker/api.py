"""A request to a model, in the shape of the Anthropic Messages API.

Values only: wire.py makes them from items, validate.py checks them, a client
sends them, a policy (scripted.py, the loopback server) reads them.
"""

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType


class CacheControl(
    Struct, frozen=True, tag_field="type", tag="ephemeral", omit_defaults=True
):
    """A prompt-cache breakpoint behind the block that carries it."""

    ttl: Literal["5m", "1h"] = "5m"


class Text(Struct, frozen=True, tag_field="type", tag="text", omit_defaults=True):
    text: str
    cache_control: CacheControl | UnsetType = UNSET


class Base64(Struct, frozen=True, tag_field="type", tag="base64"):
    media_type: str
    data: str


class Image(Struct, frozen=True, tag_field="type", tag="image", omit_defaults=True):
    source: Base64
    cache_control: CacheControl | UnsetType = UNSET


class Thinking(Struct, frozen=True, tag_field="type", tag="thinking"):
    thinking: str
    signature: str


class RedactedThinking(Struct, frozen=True, tag_field="type", tag="redacted_thinking"):
    data: str


class ToolUse(
    Struct, frozen=True, tag_field="type", tag="tool_use", omit_defaults=True
):
    id: str
    name: str
    input: Raw
    """A JSON object."""
    cache_control: CacheControl | UnsetType = UNSET


class ToolResult(
    Struct, frozen=True, tag_field="type", tag="tool_result", omit_defaults=True
):
    tool_use_id: str
    content: tuple[Text | Image, ...] = ()
    is_error: bool = False
    cache_control: CacheControl | UnsetType = UNSET


class Opaque(Struct, frozen=True):
    """Any other block, sent as it came; encoded as *raw* alone."""

    raw: Raw


Block = Text | Image | Thinking | RedactedThinking | ToolUse | ToolResult | Opaque


class Message(Struct, frozen=True):
    role: Literal["user", "assistant", "system"]
    content: tuple[Block, ...]


class ToolSpec(Struct, frozen=True):
    """A tool as the model is told of it; *input_schema* is a JSON Schema object."""

    name: str
    description: str
    input_schema: Raw


class Compact(Struct, frozen=True):
    """Asks the provider to compact: the answer is one block, and no reply.

    *instructions* take the place of the provider's own prompt; "" for none.
    """

    instructions: str = ""


class Request(Struct, frozen=True):
    """One call to a model.

    *max_tokens* bounds the answer, reasoning included. *thinking* is
    "adaptive", "off", or a budget in tokens; *effort* goes into
    ``output_config``. Both are left out of the wire where None.
    """

    model: str
    max_tokens: int
    system: tuple[Text, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    thinking: Literal["adaptive", "off"] | int | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    temperature: float | None = None
    betas: tuple[str, ...] = ()
    """Sent as the ``anthropic-beta`` header."""
    compaction: Compact | None = None
