"""Whether a tool call may run: what is asked before it starts, and what is answered."""

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from worker.items import ToolCall

Source = Literal["rule", "default", "hook", "client", "nobody"]
"""Who decided: a permission rule, the default action, a hook, somebody who was
asked, or the lack of anybody who could be."""


class Allowed(Struct, frozen=True):
    """The call runs. *by* is None where nobody had to say so: then nothing is logged."""

    by: Source | None = None
    rule: str = ""
    """The rule that led here, as it is written; empty where none did."""


class Denied(Struct, frozen=True):
    """The call does not run; the model is told *reason*, and what else it can do."""

    reason: str
    by: Source
    rule: str = ""


class Stopped(Struct, frozen=True):
    """Neither this call nor another of its response runs, and the turn ends.

    *reason* is for the person who reads the result, and for the model if the
    turn is gone on with.
    """

    reason: str
    by: Source
    rule: str = ""


Decision = Allowed | Denied | Stopped

Permit = Callable[[ToolCall], Awaitable[Decision]]
"""Asked once for each call that could run, before any call of its response starts.

It may wait (for a person, a program). It raises nothing but a cancellation:
what fails while deciding is a denial.
"""


async def allow_all(call: ToolCall) -> Decision:
    """Let every call run."""
    return Allowed()


def in_turn(*permits: Permit) -> Permit:
    """Ask *permits* one after the other; the first that does not allow decides.

    Where all allow, the answer is that of the first whose decision has to be logged.
    """

    async def permit(call: ToolCall) -> Decision:
        allowed = Allowed()
        for each in permits:
            match await each(call):
                case Allowed() as more:
                    allowed = more if allowed.by is None else allowed
                case decision:
                    return decision
        return allowed

    return permit
