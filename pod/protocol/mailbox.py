"""Lines on their way to one reader, who may be slow, stuck or gone."""

from collections import deque
from collections.abc import Callable

import trio

MOST_WAITING = 8 * 1024 * 1024
"""Bytes that may wait for a reader. The lines are shared between readers, so that
fifty of them do not wait fifty times."""
PIECE = 256 * 1024
"""Bytes that are written at once; a longer line is a piece of its own."""


class Mailbox:
    """Holds what one reader has not taken yet, and never holds anybody up.

    *put* is not async: whoever publishes cannot wait for a reader, by
    construction. One task takes with *take* and says so with *sent*.

    *at_once* writes what the reader has room for just now, and returns how many
    bytes that were; it never waits. With it, a reader that keeps up costs one
    write and no task.
    """

    def __init__(
        self,
        *,
        most: int = MOST_WAITING,
        at_once: Callable[[bytes], int] = lambda data: 0,
    ) -> None:
        self._most = most
        self._at_once = at_once
        self._begun = b""
        """The rest of what is written in part: it goes first, whatever happens."""
        self._lines: deque[bytes] = deque()
        self._taken = 0
        self.waiting = 0
        """Bytes put and not sent yet."""
        self.is_closed = False
        """Nothing more is taken in; what waits may still be sent."""
        self.ending = trio.Event()
        """Set when it is closed, and may be before: the reader has little time left."""
        self._changed = trio.Event()
        self._is_waited_for = False

    @property
    def is_full(self) -> bool:
        """Whether more waits than may. One put alone may be of any length."""
        parts = len(self._lines) + bool(self._begun) + bool(self._taken)
        return self.waiting > self._most and parts > 1

    def put(self, lines: bytes) -> None:
        """Let *lines*, one or several, wait for the reader; a closed mailbox drops them."""
        if self.is_closed or not lines:
            return
        if not self.waiting:
            written = self._at_once(lines)
            if written == len(lines):
                return
            if written:
                self._begun = lines[written:]
                self.waiting = len(self._begun)
                self.wake()
                return
        self._lines.append(lines)
        self.waiting += len(lines)
        self.wake()

    def close(self, last: bytes | None = None) -> None:
        """Take nothing more in.

        With *last*, what has not been taken is thrown away for that one line:
        a reader who was too slow for it would not read it anyway. A line that
        is written in part is written to its end.
        """
        if self.is_closed:
            return
        if last is not None:
            self._lines.clear()
            self._lines.append(last)
            self.waiting = self._taken + len(self._begun) + len(last)
        self.is_closed = True
        self.ending.set()
        self.wake()

    def take(self) -> bytes:
        """Return the next lines, PIECE bytes or a little more; nothing if none wait."""
        taken: list[bytes] = []
        if self._begun:
            taken.append(self._begun)
            self._taken += len(self._begun)
            self._begun = b""
        while self._lines and self._taken < PIECE:
            lines = self._lines.popleft()
            taken.append(lines)
            self._taken += len(lines)
        return b"".join(taken)

    def sent(self) -> None:
        """Say that what was taken is with the reader."""
        self.waiting -= self._taken
        self._taken = 0
        self.wake()

    def wake(self) -> None:
        """Let those who wait look again."""
        if self._is_waited_for:
            self._is_waited_for = False
            self._changed.set()
            self._changed = trio.Event()

    async def wait(self) -> None:
        """Wait until something changes."""
        self._is_waited_for = True
        await self._changed.wait()

    async def drained(self) -> None:
        """Wait until all that was put is sent, or never will be."""
        while self.waiting and not self.is_closed:
            await self.wait()
