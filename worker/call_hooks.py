"""Who is asked before a tool call is run, and before its result is kept."""

from typing import Protocol

from msgspec import Struct

from worker.items import ToolCall, ToolResult


class Denied(Struct, frozen=True):
    """The call is answered with an error that says *message*, and never run.

    With *stops* no call of its response is run, and the turn ends.
    """

    message: str
    stops: bool = False


class Seen(Struct, frozen=True):
    """The result that is kept. *stop* ends the turn once it is, and says why."""

    result: ToolResult
    stop: str | None = None


class CallHooks(Protocol):
    """Asked one call at a time, in the order of the calls."""

    async def before(self, call: ToolCall) -> Denied | None:
        """Say whether *call* may be run; nothing has been run of its response."""

    async def after(self, call: ToolCall, result: ToolResult) -> Seen:
        """Say what becomes of *result*; all calls of its response have ended."""

    def unseen(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return what is kept of a result for which there was no time to ask."""
