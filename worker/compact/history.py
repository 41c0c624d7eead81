"""The compact worker's own history: in memory, every item counted as it comes."""

from collections.abc import Callable, Sequence

import trio
from msgspec import Struct

from worker.compact.guard import InputGuard
from worker.compact.order import CallOrder
from worker.compact.tools import WriteSummary
from worker.items import FromModel, Item, ToolCall, ToolResult
from worker.permit import Decision
from worker.tokens import ENVELOPE, count_item
from worker.turn import Answered


class WorkerHistory:
    """The compact worker's history: in memory, each item counted as it comes."""

    def __init__(
        self,
        guard: InputGuard,
        count: Callable[[str], int],
        *,
        record: Callable[[Item], None],
        answered: Callable[[], None],
    ) -> None:
        self.items: list[Item] = []
        self.admitted: set[str] = set()
        """Calls whose results' text is counted already."""
        self.order = CallOrder()
        self.cut_off = 0
        """Calls of write_summary that ended inside their arguments."""
        self._guard = guard
        self._counted = Counted(count)
        self._record = record
        self._answered = answered

    def add(self, items: Sequence[Item]) -> None:
        for item in items:
            self._guard.add(self._tokens(item))
            if isinstance(item, ToolCall) and item.incomplete:
                self.cut_off += item.name == WriteSummary.name
            self.items.append(item)
            self._record(item)

    def _tokens(self, item: Item) -> int:
        if isinstance(item, ToolResult) and item.call_id in self.admitted:
            return ENVELOPE
        return count_item(item, self._counted)

    def deliver(self) -> int:
        return 0

    def discard(self, items: Sequence[FromModel]) -> None:
        for item in items:
            self._record(item)

    def decided(self, call: ToolCall, decision: Decision) -> None:
        pass  # what a call was answered stands in its result

    def start_tool(self, call: ToolCall) -> None:
        self.order.expect(call.call_id)

    def answered(self, answered: Answered) -> None:
        if answered.context_tokens is not None:
            self._guard.measured(answered.context_tokens)
        self._answered()

    async def commit(self) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()


class Counted(Struct, frozen=True):
    """A Counter out of a function."""

    function: Callable[[str], int]

    def count(self, text: str) -> int:
        return self.function(text)
