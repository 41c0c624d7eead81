"""Makes a whole log out of a damaged one, and keeps the damaged one."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

from msgspec import Struct

from pod.clock import now
from pod.disk import (
    Disk,
    RealDisk,
    chunks,
    failed,
    open_locked,
    sync_folder,
    write_all,
)
from pod.log import read_log
from pod.mend import Mend
from pod.scan import read


class Repaired(Struct, frozen=True):
    """What a repair did. *damaged* is where the old log went; None: all was well."""

    path: Path
    damaged: Path | None
    report: tuple[str, ...]


def repair(
    path: Path,
    *,
    at: str | None = None,
    id: str | None = None,
    disk: Disk | None = None,
) -> Repaired:
    """Mend a log: a new file in its place, the old one kept as <name>.damaged.

    *at* and *id* are those of the entry that tells of it. Raises SessionLocked,
    NotASession, NewerFormat, DiskFull, LogFailed; then the log is as it was.
    """
    fd = open_locked(path)
    try:
        found = read_log(path)
        if found.header and found.ended and not found.damage and not found.torn:
            return Repaired(path, None, ())
        mend = Mend(path.stem)
        fresh = path.with_name(path.name + ".repaired")
        notice_id = id or f"{Random().getrandbits(32):08x}"
        try:
            with contextlib.ExitStack() as undo:
                undo.callback(fresh.unlink, missing_ok=True)
                _write(disk or RealDisk(), fresh, _lines(mend, fd, at, notice_id))
                damaged = _keep(path)
                fresh.replace(path)
                undo.pop_all()
        except OSError as error:
            raise failed("cannot repair", path, error) from error
        sync_folder(path.parent)
        return Repaired(path, damaged, tuple(mend.report))
    finally:
        os.close(fd)


def _lines(mend: Mend, fd: int, at: str | None, id: str) -> Iterator[bytes]:
    yield from mend.lines(read(chunks(fd)))
    yield mend.notice(at or now(), id)


def _write(disk: Disk, path: Path, lines: Iterator[bytes]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        for line in lines:
            write_all(disk, fd, line)
        disk.sync(fd)
    finally:
        os.close(fd)


def _keep(path: Path) -> Path:
    """Give the damaged log a second name, one that is free."""
    number = 1
    while True:
        suffix = ".damaged" if number == 1 else f".damaged-{number}"
        damaged = path.with_name(path.name + suffix)
        try:
            damaged.hardlink_to(path)
        except FileExistsError:
            number += 1
        except OSError:  # a file system without hard links
            if not os.path.lexists(damaged):
                path.rename(damaged)
                return damaged
            number += 1
        else:
            return damaged
