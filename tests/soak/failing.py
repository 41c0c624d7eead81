"""Disks that fail at a chosen call, in each of the ways that disks do."""

import errno
import os
from pathlib import Path
from random import Random
from typing import Literal

from msgspec import Struct

from pod.log import RESERVE
from tests.soak.traced import TracedDisk

Kind = Literal["full", "once full", "io", "io in sync", "read-only", "short"]
KINDS: tuple[Kind, ...] = (
    "full",
    "once full",
    "io",
    "io in sync",
    "read-only",
    "short",
)


class Failure(Struct, frozen=True):
    """What fails, and at which of the disk's calls. *kept* bytes of a write get in."""

    kind: Kind
    at: int
    kept: int = 0


class FailingDisk(TracedDisk):
    """A disk that fails once *failure* has come, and no earlier.

    A full one takes no more until the room that the log holds for its last words
    (*reserve*) is given up; a read-only one takes nothing, not even a shorter
    file; the others fail once. A short write is no failure: the caller goes on.
    """

    def __init__(self, failure: Failure, reserve: Path) -> None:
        super().__init__()
        self._failure = failure
        self._reserve = reserve
        self._calls = 0
        self._room = 0
        self._is_held = False
        self.has_come = False

    def write(self, fd: int, data: memoryview) -> int:
        comes = self._comes()
        kept = data[: self._failure.kept]
        match self._failure.kind:
            case "short":
                return super().write(fd, kept if comes and kept else data)
            case "io in sync":
                pass
            case "once full" | "io":
                if comes:
                    self._fail(fd, kept)
            case "read-only":
                if self.has_come:
                    self._fail(fd, data[:0])
            case "full":
                if comes:
                    self._is_held = self._reserve.exists()
                if self.has_come:
                    self._fill(fd, data, kept if comes else data[:0])
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        if self._comes("io in sync") or self._is("read-only"):
            self._raise()
        super().sync(fd)

    def truncate(self, fd: int, size: int) -> None:
        if self._is("read-only"):
            self._raise()
        super().truncate(fd, size)

    def _comes(self, kind: Kind | None = None) -> bool:
        """Count a call; tell whether it is the one that fails."""
        self._calls += 1
        if self.has_come or self._calls < self._failure.at:
            return False
        if (kind or self._failure.kind) != self._failure.kind:
            return False
        if kind is None and self._failure.kind == "io in sync":
            return False
        self.has_come = True
        return True

    def _is(self, kind: Kind) -> bool:
        return self.has_come and self._failure.kind == kind

    def _fill(self, fd: int, data: memoryview, kept: memoryview) -> None:
        if self._is_held and not self._reserve.exists():
            self._is_held, self._room = False, RESERVE
        if self._room < len(data):
            self._fail(fd, kept)
        self._room -= len(data)

    def _fail(self, fd: int, kept: memoryview) -> None:
        if kept:
            super().write(fd, kept)
        self._raise()

    def _raise(self) -> None:
        codes: dict[Kind, int] = {
            "full": errno.ENOSPC,
            "once full": errno.ENOSPC,
            "io": errno.EIO,
            "io in sync": errno.EIO,
            "read-only": errno.EROFS,
            "short": errno.EIO,
        }
        code = codes[self._failure.kind]
        raise OSError(code, os.strerror(code))


def some_failure(calls: int, random: Random) -> Failure:
    """Return any failure within so many calls."""
    kind = random.choice(KINDS)
    return Failure(kind, random.randint(2, max(calls, 2)), random.choice((0, 1, 40)))
