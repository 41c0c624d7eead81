"""Finding the programs that a Pod starts for itself: never one of the workspace's."""

import os
from collections.abc import Sequence
from pathlib import Path


def find_program(
    name: str, *, outside: Sequence[str], path: str | None = None
) -> str | None:
    """Find *name* on *path* (PATH), with symbolic links resolved.

    Folders that are not absolute are passed over: they would mean another one
    in each working folder. So is what lies below one of the folders *outside*,
    by its name or where its links lead: a model may have put it there.
    """
    folders = os.get_exec_path() if path is None else path.split(os.pathsep)
    for folder in folders:
        if not folder.startswith("/"):
            continue
        named = f"{folder}/{name}"
        real = os.path.realpath(named)
        is_program = Path(real).is_file() and os.access(real, os.X_OK)
        if is_program and not any(
            _is_below(each, root) for each in (named, real) for root in outside
        ):
            return real
    return None


def _is_below(path: str, folder: str) -> bool:
    return os.path.normpath(path).startswith(folder.rstrip("/") + "/")
