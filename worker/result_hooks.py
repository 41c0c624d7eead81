"""Who looks at the results of calls before they are kept."""

from typing import Protocol

from msgspec import Struct

from worker.items import ToolCall, ToolResult


class Seen(Struct, frozen=True):
    """The result that is kept. *stop* ends the turn once it is, and says why."""

    result: ToolResult
    stop: str | None = None


class ResultHooks(Protocol):
    """Shown one result at a time, in the order of the calls."""

    async def look(self, call: ToolCall, result: ToolResult) -> Seen:
        """Say what becomes of *result*; all calls of its response have ended."""

    def unseen(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return what is kept of a result for which there was no time to look."""
