"""Where a search starts: a folder or file of the scope, opened."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from tools.base import ToolError
from tools.ignore import MOST_BYTES, IgnoreFile
from tools.scope import Opened, Scope, read_up_to


class Start(Struct, frozen=True):
    """An open folder or file, and what a search there has to know.

    *shown* is its path, *prefix* what goes before the paths found below.
    """

    fd: int
    is_folder: bool
    shown: str
    prefix: str
    above: tuple[IgnoreFile, ...]


@contextmanager
def open_start(scope: Scope, path: str) -> Iterator[Start]:
    """Open *path* for a search. Raises ToolError."""
    shown = scope.shown(path)
    match scope.open_either(path):
        case Opened(file=file):
            with file:
                yield Start(file.fileno(), False, shown, "", ())
            return
        case fd:
            pass
    prefix = "" if shown == "." else shown.rstrip("/") + "/"
    try:
        yield Start(fd, True, shown, prefix, _above(scope, scope.absolute(path)))
    finally:
        os.close(fd)


def _above(scope: Scope, start: str) -> tuple[IgnoreFile, ...]:
    """Read the .gitignore files above *start*, up to where its repository begins."""
    files: list[IgnoreFile] = []
    folder, down = start, ""
    try:
        while scope.kind(f"{folder}/.git") is None and folder != "/":
            folder, name = os.path.split(folder)
            down = f"{name}/{down}"
            text = _text(scope, f"{folder}/.gitignore")
            if text:
                files.append(IgnoreFile(down, text))
    except ToolError:
        pass  # the scope ends here
    return tuple(reversed(files))


def _text(scope: Scope, path: str) -> str:
    opened = scope.open_either(path)
    if isinstance(opened, int):
        os.close(opened)
        return ""
    with opened.file:
        data = read_up_to(opened.file, MOST_BYTES)
    return data.decode("utf-8-sig", "replace")
