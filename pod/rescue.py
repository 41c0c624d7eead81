"""What becomes of a log that somebody takes away, or writes to, while it is in use."""

import os
from pathlib import Path

from pod.disk import RealDisk, chunks, make_folder, sync_folder, write_all


def trouble(fd: int, size: int, path: Path) -> str:
    """Say what happened to an open log of *size* bytes; "" where nothing did.

    Of one that was deleted, or that another file took the place of, all that it
    held is put back: at *path* where nothing is there, else beside it.
    """
    found = os.fstat(fd)
    if found.st_nlink == 0 and not _is_at(found, path):
        return (
            f"{path} was deleted, or replaced, while it was in use: {_saved(fd, path)}"
        )
    if found.st_size != size:
        return (
            f"{path} was changed by another program while it was in use: it has"
            f" {found.st_size:,} bytes instead of {size:,}"
        )
    return ""


def _is_at(found: os.stat_result, path: Path) -> bool:
    """Whether the name still leads to the file: some file systems count no names."""
    try:
        return os.path.samestat(found, path.stat())
    except OSError:
        return False


def _saved(fd: int, path: Path) -> str:
    try:
        place = _put_back(fd, path)
    except OSError as error:
        return f"what it held is lost, it cannot be written again ({error.strerror})"
    return f"what it held was written to {place}"


def _put_back(fd: int, path: Path) -> Path:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    make_folder(path.parent)
    out = os.open(part, flags, 0o600)
    try:
        for chunk in chunks(fd):
            write_all(RealDisk(), out, chunk)
        os.fsync(out)
        place = _named(part, path)
    finally:
        os.close(out)
        part.unlink(missing_ok=True)
    sync_folder(path.parent)
    return place


def _named(part: Path, path: Path) -> Path:
    """Give *part* a name that is free: *path*, or one beside it."""
    number = 0
    while True:
        suffix = ("", ".rescued")[number] if number < 2 else f".rescued-{number}"
        place = path.with_name(path.name + suffix)
        try:
            place.hardlink_to(part)
        except FileExistsError:
            number += 1
        except OSError:  # a file system without hard links
            if not os.path.lexists(place):
                part.rename(place)
                return place
            number += 1
        else:
            return place
