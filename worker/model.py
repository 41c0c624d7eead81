"""What the runtime knows of the model it talks to."""

from typing import Literal

from msgspec import Struct


class Model(Struct, frozen=True):
    """A model and how it is asked. Token figures are None where unknown."""

    provider: Literal["anthropic", "scripted"]
    id: str
    window: int | None
    """Tokens that prompt and output may have together."""
    max_tokens: int
    """Most output tokens asked for in one request, reasoning included."""
    thinking: Literal["adaptive", "off"] | int | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    temperature: float | None = None
    system_messages: bool = False
    """Takes ``role: "system"`` messages between the others."""
    prefill: bool = False
    """Takes a request that ends with an assistant message."""
    betas: tuple[str, ...] = ()
