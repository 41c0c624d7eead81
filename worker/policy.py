"""Policies: what answers in a model's place, and the usual kinds of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from tools.text import counted
from worker.api import Request, ToolResult
from worker.client import Failure, ProviderError
from worker.items import AssistantText, FromModel, Reasoning, ToolCall
from worker.usage import Usage


class Reply(Struct, frozen=True):
    """What a policy answers: the items of a response and why it stopped.

    The items' *response* may be empty: whoever serves the reply fills it in,
    and signs reasoning that has neither signature nor redacted data. *usage*
    None has the server count for itself.
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


def think(text: str, reply: Reply) -> Reply:
    """Put reasoning before *reply*; the server signs it."""
    first = Reasoning(text=text, response="", model="")
    return Reply((first, *reply.items), reply.stop_reason, reply.usage)


def assistant_turns(request: Request) -> int:
    """Count the assistant's messages in *request*."""
    return sum(message.role == "assistant" for message in request.messages)


def tool_results(request: Request) -> int:
    """Count the tool results in *request*."""
    return sum(
        isinstance(block, ToolResult)
        for message in request.messages
        for block in message.content
    )


class Script:
    """Gives its replies in order.

    Which one is next is read from the request: the number of assistant
    messages in it. So a retry gets the same reply again, and a resumed
    session goes on where it was; after a compaction, which takes messages
    away, the script starts over at what is left. Behind the last reply it
    says *then*.
    """

    def __init__(self, replies: Sequence[Reply], then: Reply | None = None) -> None:
        self._replies = tuple(replies)
        self._then = then or say("The script has ended.")

    def reply(self, request: Request) -> Reply:
        """Give the reply whose turn it is."""
        turn = assistant_turns(request)
        return self._replies[turn] if turn < len(self._replies) else self._then


class Decide:
    """A policy out of a function."""

    def __init__(self, decide: Callable[[Request], Reply]) -> None:
        self._decide = decide

    def reply(self, request: Request) -> Reply:
        """Answer what the function answers."""
        return self._decide(request)


class Echo:
    """Calls *tool* as often as *times*, one call a response, then ends.

    The newest call's id tells how many there were, so it is as stateless as
    Script, and a compaction, which takes results away, does not make it begin anew.
    """

    def __init__(self, tool: str, *, times: int = 3, arguments: str = "{}") -> None:
        self._tool = tool
        self._times = times
        self._arguments = arguments

    def reply(self, request: Request) -> Reply:
        """Call the tool once more, or say that it is done."""
        done = _echoed(request)
        if done >= self._times or not request.tools:
            return say(f"Done after {counted(done, 'call')}.")
        return call((f"toolu_{done:06}", self._tool, self._arguments))


def _echoed(request: Request) -> int:
    """Return how many calls were answered, by what *request* shows of them."""
    numbers = [
        int(block.tool_use_id.removeprefix("toolu_"))
        for message in request.messages
        for block in message.content
        if isinstance(block, ToolResult)
        and block.tool_use_id.removeprefix("toolu_").isdecimal()
    ]
    return max(tool_results(request), *(number + 1 for number in numbers), 0)


class Route:
    """Asks the policy of the first tool the request offers, else *otherwise*.

    For Pods whose compact worker is to be played too: it offers tools the Pod
    does not have.
    """

    def __init__(self, by_tool: Mapping[str, Policy], otherwise: Policy) -> None:
        self._by_tool = dict(by_tool)
        self._otherwise = otherwise

    def reply(self, request: Request) -> Reply:
        """Answer as the policy does that is in charge."""
        for tool in request.tools:
            if tool.name in self._by_tool:
                return self._by_tool[tool.name].reply(request)
        return self._otherwise.reply(request)


class Failing:
    """Plays *failures* before another policy answers.

    Keyed by the number of the request, counted from 1: a retry is the next
    number. This one does count, since a retry is the same request.
    """

    def __init__(self, policy: Policy, failures: Mapping[int, Failure]) -> None:
        self._policy = policy
        self._failures = dict(failures)
        self._asked = 0

    def reply(self, request: Request) -> Reply:
        """Answer, or raise the failure of this request."""
        self._asked += 1
        failure = self._failures.get(self._asked)
        if failure is not None:
            raise ProviderError(failure)
        return self._policy.reply(request)


class FailingWhen:
    """Plays the failure that *failure_of* gives for a request, if it gives one."""

    def __init__(
        self, policy: Policy, failure_of: Callable[[Request], Failure | None]
    ) -> None:
        self._policy = policy
        self._failure_of = failure_of

    def reply(self, request: Request) -> Reply:
        """Answer, or raise the failure of this request."""
        failure = self._failure_of(request)
        if failure is not None:
            raise ProviderError(failure)
        return self._policy.reply(request)
