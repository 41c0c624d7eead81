"""Disks that fail."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from pod.disk import RealDisk
from pod.log import RESERVE


class FaultyDisk(RealDisk):
    """A disk whose calls fail where *fails* says so, given the call's number and name.

    *fails* returns an errno, or 0. Each write takes *most* bytes at once.
    """

    def __init__(self, fails: Callable[[int, str], int], most: int = 1 << 30) -> None:
        self.calls: list[str] = []
        self._fails = fails
        self._most = most

    def write(self, fd: int, data: memoryview) -> int:
        self._call("write")
        return super().write(fd, data[: self._most])

    def sync(self, fd: int) -> None:
        self._call("sync")
        super().sync(fd)

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate")
        super().truncate(fd, size)

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if code := self._fails(len(self.calls), name):
            raise OSError(code, os.strerror(code))


class SmallDisk(RealDisk):
    """A disk with room for *room* bytes more; a write takes what fits, then fails."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, fd: int, data: memoryview) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = super().write(fd, data[: self.room])
        self.room -= written
        return written

    def truncate(self, fd: int, size: int) -> None:
        self.room += os.fstat(fd).st_size - size
        super().truncate(fd, size)


class FillingDisk(SmallDisk):
    """A small disk once *fill* was called; giving up *reserve* makes room on it."""

    def __init__(self, reserve: Path) -> None:
        super().__init__(1 << 30)
        self._reserve = reserve
        self._is_held = False

    def fill(self, room: int) -> None:
        self.room = room
        self._is_held = self._reserve.exists()

    def write(self, fd: int, data: memoryview) -> int:
        if self._is_held and not self._reserve.exists():
            self._is_held = False
            self.room += RESERVE
        return super().write(fd, data)


class SlowDisk(RealDisk):
    """A disk whose syncs each wait until they are let go."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.syncs = 0

    def sync(self, fd: int) -> None:
        self.started.release()
        self.go.acquire()
        super().sync(fd)
        self.syncs += 1


def always(name: str, code: int) -> Callable[[int, str], int]:
    return lambda _, call: code if call == name else 0


def once(name: str, code: int) -> Callable[[int, str], int]:
    codes: Iterator[int] = iter([code])
    return lambda _, call: next(codes, 0) if call == name else 0


def from_call(number: int, code: int) -> Callable[[int, str], int]:
    return lambda n, _: code if n >= number else 0
