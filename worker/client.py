"""The one interface between the turn loop and a model."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from msgspec import Struct

from worker.api import Request
from worker.items import FromModel
from worker.usage import Usage


class TextDelta(Struct, frozen=True, tag="text_delta"):
    """More of the answer's text, while it streams."""

    text: str


class ReasoningDelta(Struct, frozen=True, tag="reasoning_delta"):
    """More of the reasoning's text, while it streams."""

    text: str


class ToolInputDelta(Struct, frozen=True, tag="tool_input_delta"):
    """More of a tool call's arguments, while they stream."""

    call_id: str
    name: str
    json: str


class BrokenOff(Struct, frozen=True, tag="broken_off"):
    """What an answer had used when a cancel broke it off; nothing is told after it.

    The provider bills it. As far as the stream had told it: all of the prompt, and
    at least some of the output.
    """

    usage: Usage
    request_id: str | None = None


Delta = TextDelta | ReasoningDelta | ToolInputDelta | BrokenOff
"""What a client tells of an answer while it is under way."""


class Response(Struct, frozen=True):
    """A whole answer: its stream ended with ``message_stop`` and a stop reason.

    The items' *response* field is the provider's message id; whoever puts
    them into a history gives them an id that is unique there.
    """

    message_id: str
    model: str
    items: tuple[FromModel, ...]
    stop_reason: str
    """end_turn, max_tokens, stop_sequence, tool_use, pause_turn, refusal,
    model_context_window_exceeded, or what a newer API says."""
    usage: Usage | None = None
    """As billed, over all iterations; None where the provider told nothing or
    only zeroes."""
    context_tokens: int | None = None
    """Prompt and output of the last message iteration: what the context holds
    now. None where unknown."""
    request_id: str | None = None
    explanation: str | None = None
    """What the provider said about a refusal."""


FailureKind = Literal[
    "invalid",  # 400 and other 4xx: the request's shape is wrong
    "auth",  # 401, 403, no key
    "billing",  # 402, spend limits
    "not_found",  # 404: no such model
    "overflow",  # the prompt does not fit the window
    "output_too_large",  # input + max_tokens > window: lower max_tokens
    "payload_too_large",  # 413 by bytes: drop media
    "rate_limit",  # 429
    "overloaded",  # 529, or an error event that says so
    "server",  # 408, 409, 5xx, an error event of any other kind
    "connection",  # refused, reset, dropped
    "timeout",  # silent for longer than the idle timeout
    "truncated",  # the stream ended without message_stop and a stop reason
    "garbled",  # an event that is no JSON, or makes no sense where it stands
    "not_a_stream",  # 200 with a body that is no event stream
]


class Failure(Struct, frozen=True):
    """Why a request got no whole answer, as far as the runtime can use it."""

    kind: FailureKind
    message: str
    """For a person: what the provider said, with its status."""
    status: int | None = None
    retry_after: float | None = None
    """Seconds the provider asked to wait."""
    request_id: str | None = None
    prompt_tokens: int | None = None
    window_tokens: int | None = None
    """Figures an overflow text gave."""
    partial: tuple[FromModel, ...] = ()
    """The blocks that were complete when the stream broke off. Never run."""
    usage: Usage | None = None
    """What the broken stream had told of its usage."""
    output_limit: int | None = None
    """The most ``max_tokens`` this prompt may ask for, where the text tells."""
    should_retry: bool | None = None
    """What the provider itself said about trying again; None where nothing."""

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in TRANSIENT and self.should_retry is not False


TRANSIENT: frozenset[FailureKind] = frozenset(
    {
        "rate_limit",
        "overloaded",
        "server",
        "connection",
        "timeout",
        "truncated",
        "garbled",
        "not_a_stream",
    }
)


class ProviderError(Exception):
    """A request failed; *failure* says how."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Client(Protocol):
    """A model one can ask. Opened with ``async with``; never retries by itself."""

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        """Send *request* and wait for its whole answer, streaming deltas meanwhile.

        Cancelled, it tells with a BrokenOff what is billed, where it knows.
        Raises ProviderError for everything that goes wrong on the way; any
        other exception is a bug of the client.
        """

    async def count_tokens(self, request: Request) -> int:
        """Ask the provider how many tokens *request*'s prompt has.

        Raises ProviderError.
        """


OpenClient = Callable[[], AbstractAsyncContextManager[Client]]
