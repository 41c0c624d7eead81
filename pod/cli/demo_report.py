"""Where the demo's report goes: never over a file that is not such a report."""

import os
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from msgspec import Struct

from pod.cli.failing import UsageError
from pod.survey.report import SIGNATURE

NAME = "pod-report"


class Place(Struct, frozen=True):
    """The report's absolute path; *why* says why it is not where one would look."""

    path: Path
    why: str = ""

    def clear(self) -> None:
        """Take an earlier demo's report away."""
        if is_report(self.path):
            self.path.unlink()


def place_of(folder: Path, output: Path | None) -> Place:
    """Choose the place: *output*, or in *folder*, or where one may write.

    Raises UsageError for an *output* that cannot be.
    """
    if output is not None:
        return Place(_checked(output.absolute()))
    for parent in (folder, Path.cwd().resolve()):
        if takes_files(parent):
            return _in(parent, "" if parent == folder else _why(folder))
    return Place(
        Path(tempfile.mkdtemp(prefix="pod-demo-")) / f"{NAME}.md", _why(folder)
    )


def is_report(path: Path) -> bool:
    """Tell whether *path* is a report that a demo wrote."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start = file.read(4096).split(b"\n")
    except OSError:
        return False
    return len(start) > 2 and start[2] == SIGNATURE.encode()


def takes_files(folder: Path) -> bool:
    """Tell whether a file can be made in *folder*, by making one without a name."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _why(folder: Path) -> str:
    return f"{folder} takes no new files"


def _in(parent: Path, why: str) -> Place:
    """Return the first name that is free, or has an earlier report."""
    for name in _names():
        path = parent / name
        if not os.path.lexists(path) or is_report(path):
            other = "" if name == f"{NAME}.md" else f"{NAME}.md is not a demo's"
            return Place(path, "; ".join(filter(None, (why, other))))
    raise AssertionError("there is always another number")


def _names() -> Iterator[str]:
    yield f"{NAME}.md"
    for number in count(2):
        yield f"{NAME}-{number}.md"


def _checked(path: Path) -> Path:
    parent = path.parent.resolve()
    if not parent.is_dir():
        raise UsageError(f"--output {path}: there is no folder {parent}")
    if path.is_dir():
        raise UsageError(f"--output {path}: a folder; name a file in it")
    if os.path.lexists(path) and not is_report(path):
        raise UsageError(
            f"--output {path}: this file is there already, and no demo wrote it;"
            " name another one"
        )
    if not takes_files(parent):
        raise UsageError(f"--output {path}: nothing can be written in {parent}")
    return parent / path.name
