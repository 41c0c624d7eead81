"""The folder that sessions are kept in."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pod.doctor.finding import Finding, error, ok, warning
from pod.path_text import path_text

LEAST_FREE = 1024 * 1024 * 1024
"""Bytes below which a long run may well fill the disk."""
NO_ROOM = 1024 * 1024
"""Bytes below which a session cannot even begin."""


def sessions(folder: Path) -> Iterator[Finding]:
    """Look at the folder for sessions, or at where it would be made."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    shown = path_text(folder)
    if not there.is_dir():
        text = f"{shown}: {path_text(there)} is no folder"
        yield error("sessions", text, shown, fix="set [session] dir")
        return
    if not os.access(there, os.W_OK | os.X_OK):
        text = f"{shown}: {path_text(there)} cannot be written in"
        yield error("sessions", text, shown, fix="set [session] dir")
        return
    if there != folder:
        yield ok("sessions", f"{shown}, to be made", shown)
    else:
        yield _kept(folder, shown)
    yield from _room(there)


def _kept(folder: Path, shown: str) -> Finding:
    mode = stat.S_IMODE(folder.stat().st_mode)
    count = sum(1 for name in folder.iterdir() if name.suffix == ".jsonl")
    text = f"{shown}, {count} in it"
    if mode & 0o077:
        return warning(
            "sessions",
            f"{text}; others may look into it (mode {mode:04o})",
            shown,
            fix=f"chmod 700 {shown}",
        )
    return ok("sessions", text, shown)


def _room(folder: Path) -> Iterator[Finding]:
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    text = f"{free / 1e9:,.1f} GB free"
    if free < NO_ROOM or (found.f_files and not found.f_favail):
        yield error("disk", f"{text}: no session can begin", free, fix="make room")
    elif free < LEAST_FREE:
        yield warning("disk", f"{text}: a long run may fill it", free, fix="make room")
    else:
        yield ok("disk", text, free)
