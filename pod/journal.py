"""One run's record: the turn loop's history, kept in the session."""

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence

import msgspec
from msgspec.structs import replace

from pod.entries import (
    Custom,
    DeliveredEntry,
    ItemEntry,
    Permission,
    PermissionDenial,
    ToolStart,
    UsageEntry,
)
from pod.session import Session
from tools.files_in_use import FilesInUse
from tools.text import short_line
from worker.items import FromModel, Item, ToolCall, ToolResult, UserText
from worker.permit import Allowed, Decision, Denied, Stopped
from worker.turn import Answered

MOST_DENIALS = 50
"""Denied calls that a run's end lists; the log has them all."""

DENIAL_CHARACTERS = 300
"""Of a denied call's arguments, and of the reason, in that list."""


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
        self.denials: deque[PermissionDenial] = deque(maxlen=MOST_DENIALS)

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

    def decided(self, call: ToolCall, decision: Decision) -> None:
        self._session.append(_permission(call, decision))
        match decision:
            case Denied(reason, by) | Stopped(reason, by):
                self.denials.append(
                    PermissionDenial(
                        tool=call.name,
                        call_id=call.call_id,
                        arguments=short_line(call.arguments, DENIAL_CHARACTERS),
                        by=by,
                        reason=short_line(reason, DENIAL_CHARACTERS),
                    )
                )
            case Allowed():
                pass

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


def _permission(call: ToolCall, decision: Decision) -> Permission:
    entry = Permission(
        call_id=call.call_id,
        tool=call.name,
        decision="allow",
        by="default",
        rule=decision.rule,
    )
    match decision:
        case Allowed(by=by):
            return replace(entry, by=by or "default")
        case Denied(reason, by):
            return replace(entry, decision="deny", by=by, reason=reason)
        case Stopped(reason, by):
            return replace(entry, decision="stop", by=by, reason=reason)
