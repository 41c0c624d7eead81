"""The events of one run, for a program that reads them at its own pace."""

from collections import deque
from pathlib import Path
from typing import Self

import trio

from pod.entries import AnyEntry, RunEnd
from pod.errors import LogFailed
from pod.events import Event
from pod.protocol.replay import LogReader

MOST_WAITING = 10_000
"""Events that wait for who reads a stream."""


class EventStream:
    """The events of one run, in their order.

    At most *most* of them wait. Past that live ones are left out and counted, and
    durable ones are read again from the session's log when their turn comes, as a
    client reads them that comes late. A session that is kept nowhere has no *log*:
    it has its entries in memory anyway, and so do they wait.

    Iterating raises LogFailed where the log cannot be read again.
    """

    def __init__(
        self, log: Path | None, session: str, *, most: int = MOST_WAITING
    ) -> None:
        self.run = ""
        """The run's id."""
        self.result: RunEnd | None = None
        """The run's end, once it has been read."""
        self.is_over = False
        """Whether the run has ended, read or not."""
        self.left_out = 0
        """Live events that were left out, since nobody read them."""
        self._log = log
        self._session = session
        self._most = most
        self._waiting: deque[Event] = deque()
        self._more = trio.Event()
        self._ended: set[str] = set()
        """Runs that ended before it was said which one this is about."""
        self._next: int | None = None
        """The first durable event that does not wait, but is in the log alone."""
        self._last = 0
        """The last one of those."""
        self._unwritten: RunEnd | None = None
        """An end that the log did not take (a full disk), behind them."""
        self._reader: LogReader | None = None

    @property
    def waiting(self) -> int:
        """How many events wait in memory."""
        return len(self._waiting)

    def begin(self, run: str) -> None:
        """Say which run it is about; it may be over by now."""
        self.run = run
        self.is_over = run in self._ended

    def put(self, event: Event) -> None:
        """Take in an event; never waits, and keeps no more than may wait."""
        if self.is_over:
            return
        if isinstance(event, RunEnd) and event.run is not None:
            self.is_over = event.run == self.run
            if not self.run:
                self._ended.add(event.run)
        if self._keeps(event):
            self._waiting.append(event)
        self._more.set()
        self._more = trio.Event()

    def close(self) -> None:
        """Let go of the log; what is read on opens it again."""
        if self._reader is not None:
            self._next = self._reader.next_seq
            self._reader.close()
            self._reader = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self.result is not None:
            raise StopAsyncIteration
        while not self._waiting:
            if self._next is not None and self._log is not None:
                await self._read_again(self._log, self._next)
            else:
                await self._more.wait()
        event = self._waiting.popleft()
        if isinstance(event, RunEnd) and event.run == self.run:
            self.result = event
        return event

    def _keeps(self, event: Event) -> bool:
        """Whether *event* is to wait; otherwise it is seen to here."""
        is_behind = self._next is not None
        if not is_behind and len(self._waiting) < self._most:
            return True
        if not isinstance(event, AnyEntry):
            self.left_out += 1
            return False
        if self._log is None:
            return True
        if not event.seq:
            if is_behind and isinstance(event, RunEnd):
                self._unwritten = event
                return False
            return True
        if self._next is None:
            self._next = event.seq
        self._last = event.seq
        return False

    async def _read_again(self, log: Path, first: int) -> None:
        """Have the next events out of the log wait; go on as before behind them.

        Between the last one of those and the next event that is put there is no
        checkpoint, so that none is missed and none comes twice.
        """
        if self._reader is None:
            self._reader = LogReader(log, self._session, first)
        reader = self._reader
        # Not abandoned when cancelled: what was read would be gone.
        found = await trio.to_thread.run_sync(reader.entries, self._last)
        if not found:
            raise LogFailed(f"{log}: there is no event {reader.next_seq} any more")
        self._waiting.extend(found)
        if reader.next_seq > self._last:
            self.close()
            self._next = None
            if self._unwritten is not None:
                self._waiting.append(self._unwritten)
