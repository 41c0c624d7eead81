"""Finding the programs that a Pod starts for itself: never one of the workspace's."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

SYSTEM = ("/usr/bin", "/bin")
"""Where the system's own programs are, also for somebody who lets a model write
everywhere."""


def find_program(
    name: str, *, outside: Sequence[str], path: str | None = None
) -> str | None:
    """Find *name* on *path* (PATH).

    Folders that are not absolute are passed over: they would mean another one
    in each working folder. So is what lies below one of the folders *outside*,
    by its name or where its links lead: a model may have put it there. Where
    some were passed over and none is left it is looked for in SYSTEM.
    """
    folders = os.get_exec_path() if path is None else path.split(os.pathsep)
    was_passed_over = False
    for folder in folders:
        named = f"{folder or '.'}/{name}"
        if not _is_program(named):
            continue
        real = os.path.realpath(named)
        if folder.startswith("/") and not any(
            _is_below(each, root) for each in (named, real) for root in outside
        ):
            return named
        was_passed_over = True
    if not was_passed_over:
        return None
    found = (f"{folder}/{name}" for folder in SYSTEM)
    return next((named for named in found if _is_program(named)), None)


def _is_program(path: str) -> bool:
    try:
        mode = Path(path).stat().st_mode
    except OSError:  # not there, or in a folder that is not ours to look into
        return False
    return stat.S_ISREG(mode) and os.access(path, os.X_OK)


def _is_below(path: str, folder: str) -> bool:
    return os.path.normpath(path).startswith(folder.rstrip("/") + "/")
