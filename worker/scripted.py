"""A model without a network: a policy answers in its place."""

from typing import Protocol

from msgspec import Struct

from worker.api import Request
from worker.client import Failure as Failure
from worker.items import AssistantText, FromModel, ToolCall
from worker.usage import Usage


class Reply(Struct, frozen=True):
    """What a policy answers: the items of a response and why it stopped.

    The items' *response* may be empty: whoever serves the reply fills it in.
    *usage* None has the server count for itself.
    """

    items: tuple[FromModel, ...]
    stop_reason: str = "end_turn"
    usage: Usage | None = None


class Policy(Protocol):
    """Decides the answer to a request.

    From the request alone, so that a retry,
    a resume or a second process gets the same answer.
    """

    def reply(self, request: Request) -> Reply:
        """Answer *request*. May raise ProviderError to play a failure."""


def say(text: str) -> Reply:
    """End the turn with *text*."""
    return Reply(items=(AssistantText(text=text, response=""),))


def call(*calls: tuple[str, str, str], text: str = "") -> Reply:
    """Make tool calls, each (call id, name, arguments as JSON), after *text*."""
    said: tuple[FromModel, ...] = (
        (AssistantText(text=text, response=""),) if text else ()
    )
    made = tuple(
        ToolCall(call_id=i, name=name, arguments=arguments, response="")
        for i, name, arguments in calls
    )
    return Reply(items=said + made, stop_reason="tool_use")
