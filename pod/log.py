"""The session log on the disk: one writer, appending, losing nothing.

An entry is written before anything else sees it (append), and at commit points
it is also made to outlast a power loss (commit).
"""

import contextlib
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, Self

import trio

from pod.codec import encode
from pod.disk import (
    Disk,
    RealDisk,
    chunks,
    failed,
    hold_room,
    make_folder,
    open_locked,
    open_reading,
    sync_folder,
    write_all,
)
from pod.entries import AnyEntry, Header
from pod.errors import LogFailed, NotASession, SessionDamaged
from pod.rescue import trouble
from pod.scan import Record, Scan, read, scan
from tools.off_loop import off_loop

Durability = Literal["fsync", "flush"]

RESERVE = 64 * 1024
"""Bytes held for the last words: a RunEnd and a few tool results."""


class Log(Protocol):
    """Where a session's entries go."""

    def append(self, entries: Sequence[AnyEntry]) -> None: ...

    async def commit(self) -> None: ...

    def last_words(self, entries: Sequence[AnyEntry]) -> None: ...

    def close(self) -> None: ...


class Opened(NamedTuple):
    """A log that was opened: its contents, and what was mended on the way."""

    log: "SessionLog"
    header: Header
    scan: Scan
    notices: tuple[str, ...]


def read_log(path: Path) -> Scan:
    """Read a log without locking it, damaged or not, while another writes to it.

    Raises NotASession, NewerFormat, LogFailed.
    """
    fd = open_reading(path)
    try:
        return _scan(fd, path)
    finally:
        os.close(fd)


def read_undamaged(path: Path) -> tuple[Header, Scan]:
    """Read a log that could be gone on with; no lock, no write.

    Raises SessionDamaged, NotASession, NewerFormat, LogFailed.
    """
    found = read_log(path)
    return _undamaged(found, path), found


def read_entries(path: Path, ids: Collection[str]) -> dict[str, AnyEntry]:
    """Read single entries of a log, by their ids; one pass over the file.

    Raises LogFailed.
    """
    fd = open_reading(path)
    try:
        found: dict[str, AnyEntry] = {}
        for part in read(chunks(fd)):
            if isinstance(part, Record) and part.entry.id in ids:
                found.setdefault(part.entry.id, part.entry)
        return found
    except OSError as error:
        raise failed("cannot read", path, error) from error
    finally:
        os.close(fd)


def _scan(fd: int, path: Path) -> Scan:
    try:
        found = scan(chunks(fd))
    except OSError as error:
        raise failed("cannot read", path, error) from error
    if found.header is None and not found.entries:
        raise NotASession(f"no session log: {path} does not begin with its header")
    return found


class SessionLog:
    """A log that this process alone appends to.

    *disk* is the seam for faults. A log whose state on the disk is not known
    any more (a sync failed, a failed write could not be taken back, others
    deleted it or wrote to it) is poisoned: every later call raises LogFailed.
    """

    def __init__(
        self, path: Path, fd: int, size: int, durability: Durability, disk: Disk
    ) -> None:
        self.path = path
        self._fd = fd
        self._size = size
        self._synced = size
        self._durability = durability
        self._disk = disk
        self._poison: str | None = None
        self._syncing: trio.Event | None = None
        self._thread = trio.CapacityLimiter(1)  # its own: tools fill the common one
        self._reserve = path.with_name(path.name + ".reserve")
        self._has_room = hold_room(self._reserve, RESERVE)

    @classmethod
    def create(
        cls,
        path: Path,
        header: Header,
        *,
        durability: Durability = "fsync",
        disk: Disk | None = None,
    ) -> Self:
        """Begin a log, in a folder of mode 0700; the file is on the disk then.

        Raises FileExistsError if there is a file of that name, DiskFull, LogFailed.
        """
        disk = disk or RealDisk()
        line = encode(header)
        try:
            make_folder(path.parent)
        except OSError as error:
            raise failed("cannot create", path.parent, error) from error
        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists")
        fd = open_locked(path, create=True)
        try:
            try:
                write_all(disk, fd, line)
                disk.sync(fd)
            except OSError as error:
                path.unlink()
                raise failed("cannot write", path, error) from error
            sync_folder(path.parent)
            return cls(path, fd, len(line), durability, disk)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        durability: Durability = "fsync",
        disk: Disk | None = None,
    ) -> Opened:
        """Lock a log, read it, and set a torn tail aside.

        Raises SessionLocked, SessionDamaged, NotASession, NewerFormat, DiskFull,
        LogFailed; then the file is as it was.
        """
        disk = disk or RealDisk()
        fd = open_locked(path)
        try:
            found = _scan(fd, path)
            header = _undamaged(found, path)
            notices = []
            size = found.good_end
            try:
                if found.torn:
                    notices.append(_set_aside(disk, fd, path, found.torn))
                if not found.ended:
                    write_all(disk, fd, b"\n")
                    size += 1
                if found.torn or not found.ended:
                    disk.sync(fd)
            except OSError as error:
                raise failed("cannot mend the end of", path, error) from error
            log = cls(path, fd, size, durability, disk)
            return Opened(log, header, found, tuple(notices))
        except BaseException:
            os.close(fd)
            raise

    def append(self, entries: Iterable[AnyEntry]) -> None:
        """Write the entries, all of them or none.

        Raises DiskFull or LogFailed: then the log is as it was before, or
        poisoned. Raises ValueError for text that cannot be written.
        """
        self._check()
        self._check_file()
        self._write(b"".join(map(encode, entries)))
        if not self._has_room:
            self._has_room = hold_room(self._reserve, RESERVE)

    def append_lines(self, lines: Iterable[bytes]) -> None:
        """Write lines as they are, each with its line end, and sync: for a fork.

        Not all or none: if it raises, the file is to be thrown away.
        """
        self._check()
        for line in lines:
            self._write(line)
        try:
            self._disk.sync(self._fd)
        except OSError as error:
            raise failed("cannot sync", self.path, error) from error

    def _write(self, data: bytes) -> None:
        try:
            write_all(self._disk, self._fd, data)
        except OSError as error:
            self._take_back(error)
            raise failed("cannot write to", self.path, error) from error
        self._size += len(data)

    async def commit(self) -> None:
        """Return when all that was appended is safe from a power loss.

        Whoever waits at the same time shares one sync. Never cancelled half-way.
        With durability "flush" only tells whether the log is sound. Raises
        LogFailed.
        """
        self._check()
        if self._durability == "flush":
            return
        wanted = self._size
        with trio.CancelScope(shield=True):
            while self._synced < wanted:
                self._check()
                if self._syncing is not None:
                    await self._syncing.wait()
                else:
                    await self._sync()

    def last_words(self, entries: Iterable[AnyEntry]) -> None:
        """Append where append found no room: the room held for it is given up.

        Up to RESERVE bytes in all. Raises as append does.
        """
        self._check()
        self._check_file()
        self._release()
        self._write(b"".join(map(encode, entries)))

    def close(self) -> None:
        """Let go of the log; commit before, where it matters. Closing twice is fine."""
        if self._fd >= 0:
            self._release()
            os.close(self._fd)
            self._fd = -1
            self._poison = f"{self.path} is closed"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _sync(self) -> None:
        self._syncing = trio.Event()
        size = self._size
        try:
            await off_loop(lambda: self._disk.sync(self._fd), limiter=self._thread)
            self._synced = size
        except OSError as error:
            # What the kernel did with the unwritten pages is not known, and a
            # second sync would report success without them.
            self._poison = f"{self.path} could not be synced: {error.strerror}"
            raise failed("cannot sync", self.path, error) from error
        finally:
            self._syncing.set()
            self._syncing = None

    def _take_back(self, cause: OSError) -> None:
        """Cut off what a failed write left behind."""
        try:
            self._disk.truncate(self._fd, self._size)
        except OSError as error:
            self._poison = (
                f"{self.path} could not be written ({cause.strerror}) nor cut back to"
                f" its last whole entry ({error.strerror})"
            )

    def _check(self) -> None:
        if self._poison:
            raise LogFailed(self._poison)

    def _check_file(self) -> None:
        """Fail where others took the file away, or wrote to it: before anybody is told."""
        try:
            self._poison = trouble(self._fd, self._size, self.path) or None
        except OSError as error:
            raise failed("cannot write to", self.path, error) from error
        self._check()

    def _release(self) -> None:
        with contextlib.suppress(OSError):
            self._reserve.unlink(missing_ok=True)
        self._has_room = False


class NoLog:
    """The log of a session that is not kept."""

    def append(self, entries: Sequence[AnyEntry]) -> None:
        """Keep nothing."""

    async def commit(self) -> None:
        """Return at once."""

    def last_words(self, entries: Sequence[AnyEntry]) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Do nothing."""


def _undamaged(found: Scan, path: Path) -> Header:
    if found.header and not found.damage:
        return found.header
    first = found.damage[0]
    more = f" (and {len(found.damage) - 1} more)" if len(found.damage) > 1 else ""
    raise SessionDamaged(
        f"{path} is damaged in line {first.line}, at byte {first.offset}:"
        f" {first.reason}{more}. It can be read; before it can go on, run:"
        f" pod session repair {path.stem}"
    )


def _set_aside(disk: Disk, fd: int, path: Path, torn: tuple[int, int]) -> str:
    """Move a torn tail into a file beside the log, behind earlier ones."""
    offset, length = torn
    aside = path.with_name(path.name + ".torn")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    out = os.open(aside, flags, 0o600)
    try:
        write_all(disk, out, b"\n--- %d bytes from byte %d\n" % (length, offset))
        for chunk in chunks(fd, offset):
            write_all(disk, out, chunk)
        disk.sync(out)
    finally:
        os.close(out)
    sync_folder(path.parent)
    disk.truncate(fd, offset)
    return (
        f"The end of the log was torn, as after a crash: {length} bytes from byte"
        f" {offset} on were moved to {aside.name}."
    )
