"""Models that summarise in one call, played by policies: good and bad ones.

Each decides from the request alone. Which call it is comes from the order at the
end of the prompt.
"""

import re
from collections.abc import Callable
from typing import Literal

from tests.worker.compact import policies
from worker.api import Request, Text
from worker.client import Failure
from worker.policy import Decide, FailingWhen, Policy, Reply, call, say

Call = Literal["first", "update", "turn_prefix", "short", "shorten"]

_ORDERS: dict[Call, str] = {
    "first": "is going to be replaced by your summary",
    "update": "came after what the previous summary tells",
    "turn_prefix": "is the first part of one long turn",
    "short": "Write its title",
    "shorten": "Write it anew in fewer words",
}

PREFIX = (
    "### Request\nFetch everything.\n\n"
    "### Progress so far\nSome of it is fetched.\n\n"
    "### Needed for what follows\nThe rest is still to come.\n"
)

CHATTER = "I'll continue with the next step now and fetch what is missing."


def prompt_of(request: Request) -> str:
    """Return the one message of a request for a summary, "" for another request."""
    if request.tools or len(request.messages) != 1:
        return ""
    return "".join(b.text for b in request.messages[0].content if isinstance(b, Text))


def call_of(request: Request) -> Call | None:
    """Return which call *request* is, None where it is none of a summariser's."""
    prompt = prompt_of(request)
    found = [call for call, order in _ORDERS.items() if order in prompt]
    return found[0] if found else None


def is_summary_request(request: Request) -> bool:
    return call_of(request) is not None


def between(request: Request, tag: str) -> str:
    """Return what stands in the prompt between the tags *tag*, "" without them."""
    found = re.search(rf"<{tag}>\n(.*?)\n</{tag}>", prompt_of(request), re.DOTALL)
    return found[1] if found else ""


def right(request: Request) -> str:
    """Return a text of the shape that is wanted."""
    match call_of(request):
        case "turn_prefix":
            return PREFIX
        case "short":
            return "Fetching everything: half done"
        case "shorten":
            return re.sub(r"(?:word )+", "word ", between(request, "summary"))
        case _:
            quotes = re.findall(r"^\[User\]: (.*)$", prompt_of(request), re.MULTILINE)
            seen = between(request, "previous-summary")
            done = "Earlier work counts." if seen else ""
            return policies.summary(*quotes[:1], done=done)


def careful() -> Policy:
    return Decide(lambda request: say(right(request)))


def truncating() -> Policy:
    """Is cut off each time."""
    return Decide(lambda r: Reply(say(right(r)[:60]).items, stop_reason="max_tokens"))


def thinker() -> Policy:
    """Thinks until it is cut off and writes nothing."""
    return Decide(lambda r: Reply((), stop_reason="max_tokens"))


def empty() -> Policy:
    return Decide(lambda r: say("  \n"))


def chatty() -> Policy:
    """Goes on with the conversation."""
    return Decide(lambda r: say(CHATTER))


def calling() -> Policy:
    """Answers with a tool call, as if it were the agent."""
    return Decide(lambda r: call(("toolu_1", "bash", '{"command": "ls"}')))


def long_winded(request: Request) -> str:
    """Return a text of the right shape that is far too long."""
    return right(request) + "\n" + "word " * 6_000


def oversize() -> Policy:
    """Writes too much, and not less when asked to."""
    return Decide(
        lambda r: say(
            between(r, "summary") if call_of(r) == "shorten" else long_winded(r)
        )
    )


def corrected() -> Policy:
    """Writes too much, and less when asked to."""
    return Decide(
        lambda r: say(right(r) if call_of(r) == "shorten" else long_winded(r))
    )


def failing(
    failure: Failure, *, times: int = 1_000, policy: Policy | None = None
) -> Policy:
    """Fails the first *times* requests for a summary."""
    failed = 0

    def fail(request: Request) -> Failure | None:
        nonlocal failed
        if failed >= times or not is_summary_request(request):
            return None
        failed += 1
        return failure

    return FailingWhen(policy or careful(), fail)


class Either:
    """Plays summariser and Pod: which one is asked is seen from the request."""

    def __init__(self, summariser: Policy, otherwise: Policy) -> None:
        self._summariser = summariser
        self._otherwise = otherwise

    def reply(self, request: Request) -> Reply:
        if is_summary_request(request):
            return self._summariser.reply(request)
        return self._otherwise.reply(request)


ALL: dict[str, Callable[[], Policy]] = {
    "careful": careful,
    "corrected": corrected,
    "truncating": truncating,
    "thinker": thinker,
    "empty": empty,
    "chatty": chatty,
    "calling": calling,
    "oversize": oversize,
    "rate_limited": lambda: failing(Failure("rate_limit", "slow down", status=429)),
    "server_error": lambda: failing(Failure("server", "oops", status=500)),
    "disconnected": lambda: failing(Failure("connection", "reset")),
}
