"""A disk that remembers all that was done to a session log, in its order."""

import os

from msgspec import Struct

from pod.disk import RealDisk
from pod.entries import Known


class Wrote(Struct, frozen=True, gc=False):
    """Bytes that one call put at the end of the log."""

    data: bytes


class Cut(Struct, frozen=True, gc=False):
    """The log was cut to *size* bytes."""

    size: int


class Synced(Struct, frozen=True, gc=False):
    """The first *size* bytes of the log outlast a power loss from here on."""

    size: int


class Told(Struct, frozen=True, gc=False):
    """An entry was acknowledged: its event went out."""

    seq: int
    id: str


class Effect(Struct, frozen=True, gc=False):
    """Something happened outside that cannot be taken back: a tool ran."""


Op = Wrote | Cut | Synced | Told | Effect


class TracedDisk(RealDisk):
    """The real disk, with a trace of what was done to the log on it.

    Only files whose name ends in ``.jsonl`` are traced. *size* is what the log
    had before.
    """

    def __init__(self, size: int = 0) -> None:
        self.trace: list[Op] = []
        self.stream: list[Known] = []
        """The entries whose events went out, in their order."""
        self._size = size

    def write(self, fd: int, data: memoryview) -> int:
        written = super().write(fd, data)
        if _is_log(fd):
            self._size += written
            self.trace.append(Wrote(bytes(data[:written])))
        return written

    def sync(self, fd: int) -> None:
        size = self._size
        super().sync(fd)
        if _is_log(fd):
            self.trace.append(Synced(size))

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        if _is_log(fd):
            self._size = size
            self.trace.append(Cut(size))

    @property
    def acknowledged(self) -> dict[int, str]:
        """The ids of the entries that were acknowledged so far, by number."""
        return {entry.seq: entry.id for entry in self.stream}

    def told(self, entry: Known) -> None:
        self.trace.append(Told(entry.seq, entry.id))
        self.stream.append(entry)

    def effect(self) -> None:
        self.trace.append(Effect())


def _is_log(fd: int) -> bool:
    return os.readlink(f"/proc/self/fd/{fd}").endswith(".jsonl")  # noqa: PTH115  often
