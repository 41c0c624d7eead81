"""The output of a command, in bounded memory: its head, its tail, the rest on disk."""

import contextlib
from pathlib import Path
from typing import IO

from tools.base import Spill
from tools.off_loop import off_loop

SPILL_LIMIT = 1 << 30
"""Bytes of one output kept on disk: enough to read, too few to fill a disk."""
WRITE_BYTES = 1 << 18
"""Bytes gathered before they are written: a thread for each line costs more."""


class Capture:
    """Takes an output piece by piece; gives back all of it, or head and tail.

    Up to *cap* bytes stay in memory. Once there are more, the complete output
    goes to a file of *spill*, and half of *cap* is kept of either end. A disk
    that is full costs the file, never the ends.
    """

    def __init__(self, cap: int, spill: Spill, name: str) -> None:
        self._half = cap // 2
        self._cap = cap
        self._spill = spill
        self._name = name
        self._head = bytearray()
        self._tail = bytearray()
        self._pending = bytearray()
        self._file: IO[bytes] | None = None
        self._failed = False
        self.total = 0
        """Bytes that came."""
        self.kept = 0
        """Bytes that are in the file."""
        self.path: Path | None = None
        self.trouble = ""
        """Why the file is not complete, where it is not."""

    async def add(self, chunk: bytes) -> None:
        """Take the next piece. Raises nothing but Cancelled."""
        fitted = self.total <= self._cap
        self.total += len(chunk)
        self._pending += chunk
        if self.total <= self._cap:
            return
        if fitted:
            self._head += self._pending[: self._half]
            self._tail += self._pending[-self._half :]
        else:
            self._tail += chunk[-self._half :]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]
        if fitted or len(self._pending) >= WRITE_BYTES:
            await self._flush()

    async def close(self) -> None:
        """Write what is pending and close the file, if there is one."""
        if self.total > self._cap:
            await self._flush(last=True)

    def ends(self) -> tuple[bytes, bytes]:
        """Return the head and the tail; all of it and nothing where it fits."""
        if self.total <= self._cap:
            return bytes(self._pending), b""
        return bytes(self._head), bytes(self._tail[-self._half :])

    async def _flush(self, *, last: bool = False) -> None:
        pending, self._pending = self._pending, bytearray()
        if self._failed:
            return
        await off_loop(lambda: self._write(pending, last))

    def _write(self, data: bytearray, last: bool) -> None:
        try:
            if self._file is None:
                self.path, self._file = self._spill.open(self._name)
            room = SPILL_LIMIT - self.kept
            self._file.write(data[:room])
            self.kept += min(len(data), room)
            if len(data) > room:
                self._give_up(f"it holds the first {SPILL_LIMIT} bytes")
            elif last:
                self._file.close()
        except OSError as error:
            self._give_up(f"writing failed: {error.strerror or error}")

    def _give_up(self, why: str) -> None:
        self._failed = True
        self.trouble = why
        if self._file is not None:
            with contextlib.suppress(OSError):  # what is buffered does not fit either
                self._file.close()
