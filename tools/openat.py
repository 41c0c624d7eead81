"""Opening what lies below a folder, and never anything else."""

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

# <linux/openat2.h>; the number is the same on every architecture but alpha.
_SYS_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
_RACES = 64
"""Tries before a path whose folders are renamed all the time is given up."""

MOST_HOPS = 40
"""Symbolic links on the way to one file; the kernel's own limit."""

MOST_PARTS = 200
"""Folders on the way to one file: each holds a descriptor while walking."""

FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""Flags for a folder that is only passed through."""


class OutsideError(OSError):
    """A path, or a symbolic link on it, leads out of the folders it may lie in."""


class Anchor(Struct, frozen=True):
    """A folder that was opened once; everything else is opened relative to it."""

    path: str
    fd: int


Find = Callable[[str], tuple[Anchor, list[str]]]
"""Gives the anchor an absolute path lies below, and the parts from there.

Raises OutsideError where there is none.
"""


def open_beneath(folder: int, path: str, flags: int) -> int | None:
    """Open *path*, relative to *folder*, in one step of the kernel's.

    It answers None where it cannot tell: there is no openat2 (another system,
    an old kernel, a container that forbids it), or a symbolic link is
    absolute or leads out. Raises OSError as os.open does. *flags* must not
    create anything.
    """
    if not sys.platform.startswith("linux"):
        return None
    # struct open_how: flags, mode (0 unless something is created), resolve.
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, resolve)
    for _ in range(_RACES):
        fd: int = _LIBC.syscall(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.c_char_p(how),
            ctypes.c_size_t(len(how)),
        )
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code in (errno.ENOSYS, errno.EPERM, errno.EXDEV, errno.ELOOP):
            return None
        # EAGAIN: a folder on the way was renamed while the kernel looked.
        if code not in (errno.EAGAIN, errno.EINTR):
            raise OSError(code, os.strerror(code), path)
    raise OSError(errno.EAGAIN, "its folders keep being renamed", path)


def is_secret(fd: int) -> bool:
    """Whether *fd* shows a program's environment or memory, and so its keys.

    That is some files in /proc, wherever it is mounted: asked of the open file,
    whose name cannot change under us.
    """
    if not _is_procfs(fd):
        return False
    try:
        name = Path(f"/proc/self/fd/{fd}").readlink().name
    except OSError:
        return True
    return name in _SECRET


_SECRET = frozenset({"environ", "mem", "auxv", "kcore", "pagemap"})


def _is_procfs(fd: int) -> bool:
    """fstatfs(2) tells the kind of the file system in its first word."""
    if not sys.platform.startswith("linux"):
        return False
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _LIBC.fstatfs(ctypes.c_int(fd), buffer) != 0:
        return False
    (kind,) = struct.unpack_from("@l", buffer.raw)
    return bool(kind == _PROC_SUPER_MAGIC)


_STATFS_BYTES = 256
"""More than struct statfs has on any architecture."""
_PROC_SUPER_MAGIC = 0x9FA0

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


class Walk:
    """The way to a file, one part at a time, links followed by hand.

    Each folder is opened relative to the one before and never through a
    symbolic link; where a link is found, what it says is walked like any
    other path. So whatever is renamed meanwhile, the walk stays below an
    anchor. In the end *folder* is the descriptor of the folder that holds
    *name*, which is no link ("." for an anchor itself). Leaving the `with`
    block closes all.
    """

    def __init__(
        self, anchor: Anchor, parts: Sequence[str], find: Find, *, make: bool = False
    ) -> None:
        """Walk *parts* from *anchor*; *make* missing folders on the way.

        Raises OSError, and OutsideError where a link leads out.
        """
        self._find = find
        self._make = make
        self._hops = 0
        self._held = [os.dup(anchor.fd)]
        try:
            self.name = self._walk(list(parts))
        except BaseException:
            self.close()
            raise

    @property
    def folder(self) -> int:
        return self._held[-1]

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _walk(self, parts: list[str]) -> str:
        while parts:
            part = parts.pop(0)
            if part == "..":
                self._leave()
            elif not parts:
                target = self._link(part)
                if target is None:
                    return part
                parts = self._follow(target)
            elif not self._enter(part):
                target = self._link(part)
                if target is None:
                    raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), part)
                parts = [*self._follow(target), *parts]
        return "."

    def _leave(self) -> None:
        if len(self._held) == 1:
            raise OutsideError(errno.EXDEV, "leads out")
        os.close(self._held.pop())

    def _enter(self, part: str) -> bool:
        """Go into the folder *part*; False if it is none, or a link."""
        if len(self._held) > MOST_PARTS:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), part)
        try:
            self._held.append(self._open_folder(part))
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                return False
            raise
        return True

    def _open_folder(self, part: str) -> int:
        try:
            return os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=self.folder)
        except FileNotFoundError:
            if not self._make:
                raise
        # There already: a dangling link, or somebody else was quicker.
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=self.folder)
        return os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=self.folder)

    def _link(self, part: str) -> str | None:
        """Return what the symbolic link *part* says, or None if it is no link."""
        try:
            return os.readlink(part, dir_fd=self.folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise

    def _follow(self, target: str) -> list[str]:
        self._hops += 1
        if self._hops > MOST_HOPS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), target)
        if not target.startswith("/"):
            return parts_of(target)
        anchor, parts = self._find(target)
        fd = os.dup(anchor.fd)
        self.close()
        self._held.append(fd)
        return parts


def parts_of(path: str) -> list[str]:
    """Split *path*; what means nothing ("", ".") is left out, ".." is not."""
    return [part for part in path.split("/") if part not in ("", ".")]
