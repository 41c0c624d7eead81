"""Lines on their way to a file descriptor that may be slow, stuck or gone."""

from collections import deque

import trio

from pod.pipe import write_all
from tools.off_loop import is_no_thread

LIVE_BYTES = 8 * 1024 * 1024
"""Live events wait up to this many bytes; past it they are dropped and counted.
Durable ones are bounded by *drain*, which a run awaits at each commit."""

NO_THREAD_PAUSE = 0.05
"""Seconds until a write is tried again where the system had no thread left for it."""


class Outbox:
    """Writes lines to *fd* in order, without ever holding up the loop.

    *put* returns at once. The task *write* does the writing, in a thread,
    since a pipe may be full for as long as its reader likes.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._writing = False
        self._changed = trio.Event()
        self.dropped = 0
        """Live lines left out because the reader was too slow."""
        self.broken = False
        """Whether the reader is gone; what is put after that goes nowhere."""

    def put(self, line: bytes, *, live: bool) -> None:
        """Queue *line*; a live one is left out where too much is waiting."""
        if self.broken:
            return
        if live and self._size + len(line) > LIVE_BYTES:
            self.dropped += 1
            return
        self._lines.append(line)
        self._size += len(line)
        self._wake()

    async def write(self) -> None:
        """Write what is put, until cancelled. Stops by itself at a broken pipe."""
        while not self.broken:
            if not self._lines:
                await self._changed.wait()
                continue
            data = b"".join(self._lines)
            self._lines.clear()
            self._writing = True
            try:
                await trio.to_thread.run_sync(
                    write_all, self._fd, data, abandon_on_cancel=True
                )
            except RuntimeError as error:
                if not is_no_thread(error):
                    raise
                # Not from here, where a reader that is slow would stop the run.
                self._lines.appendleft(data)
                await trio.sleep(NO_THREAD_PAUSE)
            except OSError:
                self.broken = True
                self._lines.clear()
            finally:
                self._writing = False
                self._size = sum(map(len, self._lines))
                self._wake()

    async def drain(self) -> None:
        """Wait until all that was put is written, or can never be."""
        while (self._lines or self._writing) and not self.broken:
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
