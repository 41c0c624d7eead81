"""Going through a folder and all below it, in the order of the paths.

Folders are opened relative to the one they lie in and never through a
symbolic link, so nothing outside is ever seen. Symbolic links, sockets and
the like are left out, and so is what .gitignore files say.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from tools.ignore import MOST_BYTES, VERSION_CONTROL, Rules
from tools.openat import Anchor, OutsideError, Walk, open_beneath, parts_of

MOST_DEEP = 100
"""Folders below that are not entered; each holds a descriptor meanwhile."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Found(Struct, frozen=True):
    """A file or folder; *path* is from the start, and a folder's ends in "/".

    *size* is a file's, in bytes.
    """

    path: str
    is_folder: bool = False
    size: int = 0


def walk(start: int, rules: Rules, *, depth: int | None = None) -> Iterator[Found]:
    """Find what lies below the folder *start*, at most *depth* folders deep.

    Folders that cannot be opened are passed over.
    """
    yield from _walk(start, "", rules, MOST_DEEP if depth is None else depth)


def open_found(start: int, path: str) -> int:
    """Open a file that was found, whatever became of it meanwhile. Raises OSError."""
    fd = open_beneath(start, path, _READ)
    if fd is not None:
        return fd
    with Walk(Anchor("", start), parts_of(path), _nowhere) as way:
        return os.open(way.name, _READ, dir_fd=way.folder)


def _nowhere(path: str) -> tuple[Anchor, list[str]]:
    raise OutsideError(path)


def _walk(folder: int, path: str, rules: Rules, depth: int) -> Iterator[Found]:
    entries = _entries(folder)
    if any(entry.name == ".gitignore" for entry in entries):
        rules = _with_gitignore(folder, path, rules)
    for entry in entries:
        there = path + entry.name
        if entry.is_dir(follow_symlinks=False):
            if rules.ignore(there + "/"):
                continue
            yield Found(there + "/", is_folder=True)
            if depth > 1:
                yield from _enter(folder, entry.name, there + "/", rules, depth - 1)
        elif entry.is_file(follow_symlinks=False) and not rules.ignore(there):
            yield Found(there, size=_size(entry))


def _enter(
    folder: int, name: str, path: str, rules: Rules, depth: int
) -> Iterator[Found]:
    try:
        fd = os.open(name, _READ | os.O_DIRECTORY, dir_fd=folder)
    except OSError:
        return
    try:
        yield from _walk(fd, path, rules, depth)
    finally:
        os.close(fd)


def _entries(folder: int) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(
            (entry for entry in entries if entry.name not in VERSION_CONTROL),
            key=lambda entry: entry.name,
        )
    return []


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _with_gitignore(folder: int, path: str, rules: Rules) -> Rules:
    try:
        fd = os.open(".gitignore", _READ, dir_fd=folder)
    except OSError:
        return rules
    try:
        text = os.read(fd, MOST_BYTES).decode("utf-8-sig", "replace")
    except OSError:  # a folder of that name
        return rules
    finally:
        os.close(fd)
    return rules.below(path, text)
