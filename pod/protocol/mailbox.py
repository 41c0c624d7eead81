"""Lines on their way to one reader, who may be slow, stuck or gone."""

from collections import deque

import trio

MOST_WAITING = 8 * 1024 * 1024
"""Bytes that may wait for a reader. The lines are shared between readers, so that
fifty of them do not wait fifty times."""
GATHER = 0.02
"""Seconds that events wait for more to come, at the least. One write of many lines
costs little more than one of a single line, and with fifty clients writes are what
counts."""
PIECE = 256 * 1024
"""Bytes that are written at once; a longer line is a piece of its own."""


class Mailbox:
    """Holds what one reader has not taken yet, and never holds anybody up.

    *put* is not async: whoever publishes cannot wait for a reader, by
    construction. One task takes with *take* and says so with *sent*.
    """

    def __init__(self, *, most: int = MOST_WAITING) -> None:
        self._most = most
        self._lines: deque[bytes] = deque()
        self._taken = 0
        self.waiting = 0
        """Bytes put and not sent yet."""
        self.is_closed = False
        """Nothing more is taken in; what waits may still be sent."""
        self.ending = trio.Event()
        """Set when it is closed, and may be before: the reader has little time left."""
        self._changed = trio.Event()
        self._hurried = trio.Event()
        self._is_waited_for = False

    @property
    def is_full(self) -> bool:
        """Whether more waits than may. One line alone may be of any length."""
        return self.waiting > self._most and len(self._lines) + bool(self._taken) > 1

    def put(self, line: bytes, *, urgent: bool = False) -> None:
        """Let *line* wait for the reader; a closed mailbox drops it.

        An *urgent* one is not held back until more have come, nor is a whole piece.
        """
        if self.is_closed:
            return
        self._lines.append(line)
        self.waiting += len(line)
        if urgent or self.waiting >= PIECE:
            self._hurried.set()
        self.wake()

    def close(self, last: bytes | None = None) -> None:
        """Take nothing more in.

        With *last*, what has not been taken is thrown away for that one line:
        a reader who was too slow for it would not read it anyway.
        """
        if self.is_closed:
            return
        if last is not None:
            self._lines.clear()
            self._lines.append(last)
            self.waiting = self._taken + len(last)
        self.is_closed = True
        self.ending.set()
        self._hurried.set()
        self.wake()

    def take(self) -> bytes:
        """Return the next lines, PIECE bytes or a little more; nothing if none wait."""
        taken: list[bytes] = []
        while self._lines and self._taken < PIECE:
            line = self._lines.popleft()
            taken.append(line)
            self._taken += len(line)
        if self._hurried.is_set() and not self._lines:
            self._hurried = trio.Event()
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

    async def gather(self, seconds: float = GATHER) -> None:
        """Wait a moment for more lines, unless one is urgent."""
        if not self.is_closed:
            with trio.move_on_after(seconds):
                await self._hurried.wait()

    async def drained(self) -> None:
        """Wait until all that was put is sent, or never will be.

        Nothing is held back meanwhile: somebody waits for it.
        """
        while self.waiting and not self.is_closed:
            self._hurried.set()
            await self.wait()
