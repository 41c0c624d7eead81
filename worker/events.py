"""What happens in a turn, told while it happens.

These are live: they carry no sequence number and are not given again. What
lasts (items, usage, tool starts) goes to the journal.
"""

from collections.abc import Callable

from msgspec import Struct

from worker.client import FailureKind, ReasoningDelta, TextDelta, ToolInputDelta


class RequestStart(Struct, frozen=True, tag="request_start"):
    """A request goes out. *estimate* is its prompt in tokens, None where unknown."""

    request: int
    model: str
    items: int
    max_tokens: int
    estimate: int | None


class Retry(Struct, frozen=True, tag="retry"):
    """The request failed and is sent again after *wait* seconds."""

    attempt: int
    attempts: int
    wait: float
    kind: FailureKind
    status: int | None
    message: str


class ToolProgress(Struct, frozen=True, tag="tool_progress"):
    """A line from a tool that is still running."""

    call_id: str
    name: str
    text: str


class Warning(Struct, frozen=True, tag="warning"):
    """Something a person should know that does not stop the run."""

    message: str


Live = (
    RequestStart
    | Retry
    | ToolProgress
    | Warning
    | TextDelta
    | ReasoningDelta
    | ToolInputDelta
)
Listen = Callable[[Live], None]
"""Told of each live event; returns at once, never raises."""


def without_deltas(listen: Listen) -> Listen:
    """Return what passes on all but the deltas.

    For answers that are no part of the conversation: nobody must take a summary
    for what the Pod says.
    """

    def pass_on(event: Live) -> None:
        if not isinstance(event, TextDelta | ReasoningDelta | ToolInputDelta):
            listen(event)

    return pass_on
