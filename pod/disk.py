"""What the session log asks of a disk: opening, locking, syncing, holding room.

The calls that can fail half-way go through Disk, so that a test can make each
of them fail.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pod.errors import DiskFull, LogFailed, NotASession, SessionLocked

CHUNK = 1 << 20
"""Bytes read at once: large enough that calls do not count, small beside a log."""

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Disk(Protocol):
    """The calls that write, as in os."""

    def write(self, fd: int, data: memoryview) -> int:
        """Write some of *data*; return how many bytes."""

    def sync(self, fd: int) -> None:
        """Return when what was written can be read again after a power loss."""

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to *size* bytes."""


class RealDisk:
    def write(self, fd: int, data: memoryview) -> int:
        return os.write(fd, data)

    def sync(self, fd: int) -> None:
        getattr(os, "fdatasync", os.fsync)(fd)  # macOS has no fdatasync

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)


def failed(doing: str, path: Path, error: OSError) -> LogFailed:
    """Return what to raise for an error of the system."""
    kind = DiskFull if error.errno in NO_ROOM else LogFailed
    return kind(f"{doing} {path}: {error.strerror}")


def open_locked(path: Path, *, create: bool = False) -> int:
    """Open a log for appending and lock it; return the descriptor.

    The lock goes with the process, however it ends. Raises SessionLocked,
    NotASession (no plain file), LogFailed.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    if create:
        flags |= os.O_CREAT | os.O_EXCL
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.EISDIR}:
            raise NotASession(f"no session log: {path} is not a plain file") from None
        raise failed("cannot open", path, error) from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotASession(f"no session log: {path} is not a plain file")
        _lock(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who = owner(fd)
        by = f"process {who}" if who else "another process"
        raise SessionLocked(
            f"session {path.stem} is in use by {by}: end that one first, or fork it"
        ) from None
    except OSError as error:
        raise failed("cannot lock", path, error) from error
    # A repair may have put another file in its place since it was opened.
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(fd), path.stat()):
            return
    raise SessionLocked(f"session {path.stem} was just replaced: try again")


def owner(fd: int) -> int | None:
    """Return the process that holds the lock on this file, where it can be told."""
    inode = f":{os.fstat(fd).st_ino}"
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[-3].endswith(inode) and int(fields[-4]) > 0:
                return int(fields[-4])
    return None


def open_reading(path: Path) -> int:
    """Open a log for reading alone. Raises NotASession, LogFailed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise failed("cannot open", path, error) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotASession(f"no session log: {path} is not a plain file")
    return fd


def chunks(fd: int, start: int = 0) -> Iterator[bytes]:
    """Give what is in the file from *start* on, a chunk at a time."""
    while chunk := os.pread(fd, CHUNK, start):
        yield chunk
        start += len(chunk)


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Write all of *data*, however many calls it takes. Raises OSError."""
    view = memoryview(data)
    while view:
        written = disk.write(fd, view)
        if written <= 0:
            raise OSError(errno.EIO, "nothing was written")
        view = view[written:]


def make_folder(folder: Path) -> None:
    """Create the folder for nobody but its owner; parents as the system does.

    Raises OSError: NotADirectoryError where a file has its name, or a parent's.
    """
    if folder.is_dir():
        return
    for there in (folder, *folder.parents):
        if os.path.lexists(there):
            if not there.is_dir():
                raise NotADirectoryError(
                    errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there)
                )
            break
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in the folder last. Not every file system can: never fails."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def hold_room(path: Path, size: int) -> bool:
    """Keep *size* bytes of the disk in a file of its own; False if it has none."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with contextlib.suppress(OSError):
        fd = os.open(path, flags, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, size)
            else:  # macOS
                write_all(RealDisk(), fd, bytes(size))
            return True
        except OSError:
            path.unlink(missing_ok=True)
        finally:
            os.close(fd)
    return False
