"""One run's record: the turn loop's history, kept in the session."""

from collections.abc import Awaitable, Callable, Collection, Sequence

import msgspec

from pod.entries import (
    Custom,
    DeliveredEntry,
    ItemEntry,
    ToolStart,
    UsageEntry,
)
from pod.session import Session
from tools.files_in_use import FilesInUse
from worker.items import FromModel, Item, ToolCall, ToolResult, UserText
from worker.loop import Answered


class Journal:
    """The history of one run: each item is in the log before it is in here.

    Also keeps what the run's end will tell, and the files its tools touched.
    """

    def __init__(
        self,
        session: Session,
        *,
        files: FilesInUse,
        settled: Callable[[], Awaitable[None]],
        follow_ups: Collection[str] = (),
    ) -> None:
        self._session = session
        self._follow_ups = frozenset(follow_ups)
        """Those that this run is for; it takes no others."""
        self._files = files
        self._settled = settled
        """Awaited at each commit: who listens has time to take it in."""
        self.tool_calls = 0
        self.tool_errors = 0
        self.responses = 0
        """Answers so far; broken-off ones do not count."""

    @property
    def items(self) -> Sequence[Item]:
        return self._session.items

    def add(self, items: Sequence[Item]) -> None:
        self._session.append(*(ItemEntry(item=item) for item in items))
        for item in items:
            match item:
                case ToolCall():
                    self.tool_calls += 1
                case ToolResult():
                    self.tool_errors += item.is_error
                    self._files.touch(item.referenced_files)
                case _:
                    pass

    def deliver(self) -> int:
        """Put waiting input into the history: all of it, in one batch of entries."""
        waiting = [
            entry
            for entry in self._session.pending_inputs
            if not entry.follow_up or entry.input in self._follow_ups
        ]
        if waiting:
            self._session.append(
                *(ItemEntry(item=UserText(text=entry.text)) for entry in waiting),
                DeliveredEntry(inputs=tuple(entry.input for entry in waiting)),
            )
        return len(waiting)

    def discard(self, items: Sequence[FromModel]) -> None:
        if items:
            json = msgspec.json.encode(items).decode()
            self._session.append(Custom(kind="discarded_response", json=json))

    def start_tool(self, call: ToolCall) -> None:
        self._session.append(ToolStart(call_id=call.call_id, name=call.name))

    def answered(self, answered: Answered) -> None:
        self.responses += bool(answered.response)
        self._session.append(
            UsageEntry(
                response=answered.response,
                model=answered.model,
                stop_reason=answered.stop_reason,
                usage=answered.usage,
                context_tokens=answered.context_tokens,
                estimate=answered.estimate,
                cost_usd=None if answered.cost is None else float(answered.cost),
                request_id=answered.request_id,
                attempts=answered.attempts,
                seconds=round(answered.seconds, 3),
            )
        )

    async def commit(self) -> None:
        await self._session.commit()
        await self._settled()
