"""The folders a Pod's tools may read and write, and every way into them.

Nothing here checks a path and then opens it: between the two a link can take
its place. The roots are opened once; everything else is opened relative to
them, by openat2 in one step or by hand (`tools.openat`).
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, Self, TypeVar

from msgspec import Struct

from tools.base import ToolError
from tools.near import near_names
from tools.openat import (
    FOLDER,
    Anchor,
    OutsideError,
    Walk,
    is_secret,
    open_beneath,
    parts_of,
)
from tools.replacing import replace_file
from tools.text import one_line, short_line

MOST_NAMES = 1000
"""Names of a folder looked at for one that is near to a missing one."""

PATH_BYTES = 4096
"""The longest path Linux takes (PATH_MAX). A model may name one of a megabyte."""

_CHUNK_BYTES = 1024 * 1024

Kind = Literal["file", "folder", "other"]

T = TypeVar("T")


def _here(act: Callable[[], T]) -> T:
    return act()


class FolderError(ToolError):
    """What was to be read is a folder."""


class Opener(Protocol):
    """Does what touches the disk, in whatever thread may do so."""

    def __call__(self, act: Callable[[], T], /) -> T:
        """Call *act* and return its result."""


class Opened(Struct, frozen=True):
    """A regular file, open for reading; the caller closes *file*.

    *path* is absolute. *size* (bytes) and *stamp* are those of the moment.
    """

    file: BinaryIO
    path: str
    size: int
    stamp: tuple[int, ...]
    """Differs once the file is another, or has been written to."""


class Scope:
    """Where tools may read and write. All methods may block on a slow disk."""

    def __init__(
        self,
        read_roots: Sequence[Path],
        write_roots: Sequence[Path],
        cwd: Path,
        *,
        openat2: bool = True,
    ) -> None:
        """Open the roots; *write_roots* may be read too. *cwd* is where paths begin.

        Symbolic links in the roots' own paths are resolved here, once.
        *openat2* = False walks by hand even where the kernel could do it.
        Raises OSError if a root is no folder that can be opened.
        """
        self.cwd = os.path.realpath(cwd)
        self._openat2 = openat2
        self._do: Opener = _here
        self._anchors: list[Anchor] = []
        self._readable: dict[str, Anchor] = {}
        self._writable: dict[str, Anchor] = {}
        try:
            for root in (*write_roots, *read_roots):
                _check_root(self.absolute(str(root)), write_roots)
            for root in write_roots:
                self._add(root, self._writable)
            self._readable.update(self._writable)
            for root in read_roots:
                self._add(root, self._readable)
        except BaseException:
            self.close()
            raise

    def _add(self, root: Path, roots: dict[str, Anchor]) -> None:
        real = os.path.realpath(root)
        anchor = next((a for a in self._anchors if a.path == real), None)
        if anchor is None:
            anchor = Anchor(real, os.open(real, FOLDER | os.O_NOFOLLOW))
            self._anchors.append(anchor)
        roots[real] = anchor
        # The name it was given by leads there too.
        roots.setdefault(self.absolute(str(root)), anchor)

    def close(self) -> None:
        """Close the roots; the scope is of no use afterwards."""
        for anchor in self._anchors:
            os.close(anchor.fd)
        self._anchors.clear()
        self._readable.clear()
        self._writable.clear()

    def reading(self, do: Opener) -> Self:
        """Return this scope for reading only, with *do* opening its files.

        It is of use as long as this one is open, and needs no closing.
        """
        other = copy(self)
        other._do = do
        other._writable = {}
        return other

    @property
    def anchors(self) -> tuple[int, ...]:
        """The descriptors of the roots; they are the scope's."""
        return tuple(anchor.fd for anchor in self._anchors)

    @property
    def read_roots(self) -> tuple[str, ...]:
        """The folders that may be read, absolute and resolved."""
        return tuple(dict.fromkeys(a.path for a in self._readable.values()))

    @property
    def write_roots(self) -> tuple[str, ...]:
        """The folders that may be written, absolute and resolved."""
        return tuple(dict.fromkeys(a.path for a in self._writable.values()))

    def absolute(self, path: str) -> str:
        """Return *path* as an absolute one, by its words alone: no link is followed.

        ``a/..`` is nothing, whatever ``a`` is.
        """
        if not path or "\0" in path:
            raise ToolError("the path is empty" if not path else "NUL in the path")
        try:
            length = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise ToolError(f"no valid path: {short_line(path, 200)}") from None
        if length > PATH_BYTES:
            raise ToolError(
                f"the path is too long: {length:,} bytes, at most {PATH_BYTES:,}"
                f" are taken: {short_line(path, 200)}"
            )
        whole = path if path.startswith("/") else f"{self.cwd}/{path}"
        return "/" + os.path.normpath(whole).lstrip("/")

    def shown(self, path: str) -> str:
        """Return *path* as it is best shown: from cwd if it lies there, in one line."""
        absolute = self.absolute(path)
        if absolute == self.cwd:
            return "."
        return one_line(absolute.removeprefix(self.cwd.rstrip("/") + "/"))

    def open_read(self, path: str) -> Opened:
        """Open a regular file. Raises ToolError, for folders and devices too."""
        match self.open_either(path):
            case Opened() as opened:
                return opened
            case folder:
                os.close(folder)
                raise FolderError(_not_a_file(self.shown(path), stat.S_IFDIR))

    def open_either(self, path: str) -> Opened | int:
        """Open a regular file, or a folder for reading: then it is a descriptor.

        The caller closes either. Raises ToolError.
        """
        absolute = self.absolute(path)
        # O_NONBLOCK: opening a FIFO must not wait for a writer.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
        fd = self._open(absolute, flags)
        try:
            found = os.fstat(fd)
            if stat.S_ISDIR(found.st_mode):
                return fd
            if not stat.S_ISREG(found.st_mode):
                raise ToolError(_not_a_file(self.shown(absolute), found.st_mode))
            file = os.fdopen(fd, "rb", buffering=0)
        except BaseException:
            os.close(fd)
            raise
        return Opened(file, absolute, found.st_size, _stamp(found))

    def read_bytes(self, path: str, *, max_bytes: int) -> bytes:
        """Read a whole file. Raises ToolError, also if it is over *max_bytes*."""
        opened = self.open_read(path)
        with opened.file, self._refusals(opened.path):
            data = read_up_to(opened.file, max_bytes + 1)
        if len(data) > max_bytes:
            size = max(opened.size, len(data))
            raise ToolError(
                f"{self.shown(path)} is too large for this: {size} bytes, "
                f"at most {max_bytes} are taken"
            )
        return data

    def open_folder(self, path: str) -> int:
        """Open a folder for reading; the caller closes the descriptor."""
        return self._open(self.absolute(path), os.O_RDONLY | os.O_DIRECTORY)

    def kind(self, path: str) -> Kind | None:
        """Tell what *path* is, links followed, or None if there is nothing.

        Raises ToolError if it lies outside, or cannot be looked at.
        """
        absolute = self.absolute(path)

        def look() -> os.stat_result:
            with self._walk(absolute, self._readable) as walk:
                return os.stat(walk.name, dir_fd=walk.folder, follow_symlinks=False)

        try:
            found = self._do(look)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal(absolute, error) from error
        if stat.S_ISDIR(found.st_mode):
            return "folder"
        return "file" if stat.S_ISREG(found.st_mode) else "other"

    def write_atomic(
        self,
        path: str,
        data: bytes,
        *,
        make_folders: bool = False,
        stamp: tuple[int, ...] | None = None,
    ) -> bool:
        """Put *data* into a file in one step; return whether it is a new one.

        Readers see the old or the new content, never half of it. A file that
        was there keeps its mode; its other hard links keep the old content.
        *make_folders* creates missing folders on the way. With a *stamp* (of
        `Opened`) the file must still be what it was then. Raises ToolError.
        """
        absolute = self.absolute(path)
        with (
            self._refusals(absolute, write=True),
            self._walk(absolute, self._writable, make=make_folders) as walk,
        ):
            before = self._check_target(absolute, walk, stamp)
            replace_file(walk, data, before)
        return before is None

    def _check_target(
        self, absolute: str, walk: Walk, stamp: tuple[int, ...] | None
    ) -> os.stat_result | None:
        try:
            found = os.stat(walk.name, dir_fd=walk.folder, follow_symlinks=False)
        except FileNotFoundError:
            found = None
        shown = self.shown(absolute)
        if stamp is not None and (found is None or _stamp(found) != stamp):
            raise ToolError(f"{shown} was changed meanwhile: read it again")
        if found is None:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(_not_a_file(shown, found.st_mode))
        if not os.access(walk.name, os.W_OK, dir_fd=walk.folder, follow_symlinks=False):
            mode = stat.S_IMODE(found.st_mode)
            raise ToolError(f"{shown} is read-only (mode {mode:04o})")
        return found

    def _open(self, absolute: str, flags: int) -> int:
        with self._refusals(absolute):
            fd = self._do(lambda: self._opened(absolute, flags))
        if is_secret(fd):
            os.close(fd)
            raise ToolError(
                f"{self.shown(absolute)} shows the environment or the memory of a"
                " program, and is not read: there may be keys in it"
            )
        return fd

    def _opened(self, absolute: str, flags: int) -> int:
        anchor, parts = self._find(absolute, self._readable)
        if self._openat2:
            fd = open_beneath(anchor.fd, "/".join(parts) or ".", flags)
            if fd is not None:
                return fd
        with self._walk(absolute, self._readable) as walk:
            flags |= os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(walk.name, flags, dir_fd=walk.folder)

    def _walk(
        self, absolute: str, roots: dict[str, Anchor], *, make: bool = False
    ) -> Walk:
        anchor, parts = self._find(absolute, roots)
        return Walk(anchor, parts, lambda path: self._find(path, roots), make=make)

    def _find(self, path: str, roots: dict[str, Anchor]) -> tuple[Anchor, list[str]]:
        """Find the outermost of *roots* that holds *path*, and the parts from there."""
        parts = parts_of(path)
        # What a link says may hold "..": only the parts before it are certain.
        certain = parts.index("..") if ".." in parts else len(parts)
        deepest = max((root.count("/") for root in roots), default=0)
        for depth in range(min(certain, deepest) + 1):
            anchor = roots.get("/" + "/".join(parts[:depth]))
            if anchor is not None:
                return anchor, parts[depth:]
        raise OutsideError(errno.EXDEV, "lies outside")

    @contextmanager
    def _refusals(self, absolute: str, *, write: bool = False) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._refusal(absolute, error, write=write) from error

    def _refusal(
        self, absolute: str, error: OSError, *, write: bool = False
    ) -> ToolError:
        shown = self.shown(absolute)
        if isinstance(error, OutsideError):
            roots = self.write_roots if write else self.read_roots
            what = "write" if write else "read"
            allowed = ", ".join(roots) or "none"
            return ToolError(
                f"{shown} {error.strerror} of the folders you may {what}: {allowed}"
            )
        match error.errno:
            case errno.ENOENT:
                return ToolError(self._missing(absolute))
            case errno.ENOTDIR:
                return ToolError(f"{shown}: a part of this path is no folder")
            case errno.ELOOP:
                return ToolError(f"{shown}: its symbolic links go round in circles")
            case errno.ENXIO:
                return ToolError(f"{shown} is no regular file (a socket or a device)")
            case _:
                return ToolError(f"{shown}: {error.strerror or error}")

    def _missing(self, absolute: str) -> str:
        """Say which part of a path is missing, and what is there instead."""
        folder, name = parent, _ = os.path.split(absolute)
        names = self._names(folder)
        while names is None and folder != "/":
            folder, name = os.path.split(folder)
            names = self._names(folder)
        near = near_names(name, names or [])
        message = f"no such file: {self.shown(absolute)}"
        if folder not in ("/", parent):
            message += f" ({self.shown(folder)} holds no {one_line(name)})"
        if near:
            there = ", ".join(self.shown(f"{folder}/{name}") for name in near)
            message += f". There is: {there}"
        return message

    def _names(self, folder: str) -> list[str] | None:
        """List some of a folder's names; None if it is none, or may not be read."""
        flags = os.O_RDONLY | os.O_DIRECTORY
        try:  # not by open_folder(), whose error would say what is missing, too
            fd = self._do(lambda: self._opened(folder, flags))
        except OSError:
            return None
        try:
            with os.scandir(fd) as entries:
                return [entry.name for entry in islice(entries, MOST_NAMES)]
        finally:
            os.close(fd)


def _check_root(root: str, write_roots: Sequence[Path]) -> None:
    """Raise OSError where *root* is what somebody who writes in *write_roots* says.

    That is where a link that lies in one of them leads out of it: a model of an
    earlier run may have put it there.
    """
    real = os.path.realpath(root)
    for other in map(os.path.realpath, write_roots):
        inside = f"{other.rstrip('/')}/"
        steps = (os.path.realpath(step) for step in Path(root).parents)
        way = any(f"{step}/".startswith(inside) for step in steps)
        if way and not f"{real}/".startswith(inside):
            raise OSError(
                errno.EXDEV,
                f"a link in {one_line(other)}, which may be written, leads to"
                f" {one_line(real)}; if that is meant, name it itself",
                root,
            )


def read_up_to(file: BinaryIO, size: int) -> bytes:
    """Read *size* bytes, or all there are; a raw file may give fewer at a time."""
    parts = []
    while size > 0 and (part := file.read(min(size, _CHUNK_BYTES))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _not_a_file(shown: str, mode: int) -> str:
    if stat.S_ISDIR(mode):
        return f"{shown} is a folder: use glob to list what is in it"
    kinds = (
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a symbolic link"),
    )
    kind = next((name for test, name in kinds if test(mode)), "a device")
    return f"{shown} is {kind}, not a regular file"
