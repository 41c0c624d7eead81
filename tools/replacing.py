"""Putting a new file in the place of an old one, in one step."""

import os
import secrets
from contextlib import suppress
from typing import BinaryIO

from tools.openat import Walk


def replace_file(walk: Walk, data: bytes, before: os.stat_result | None) -> None:
    """Write *data* to a new file beside that of *walk* and rename it over.

    It gets the mode and, where that is allowed, the owner of *before*. Raises
    OSError; then nothing is left behind.
    """
    temporary = f".pod-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o666, dir_fd=walk.folder)
    try:
        with os.fdopen(fd, "wb", buffering=0) as file:
            _write_all(file, data)
            if before is not None:
                _keep_owner(fd, before)
                os.fchmod(fd, before.st_mode & 0o777)
        os.rename(temporary, walk.name, src_dir_fd=walk.folder, dst_dir_fd=walk.folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=walk.folder)
        raise


def _write_all(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _keep_owner(fd: int, before: os.stat_result) -> None:
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        # Only root may give files away; for others the file becomes theirs.
        with suppress(PermissionError):
            os.fchown(fd, before.st_uid, before.st_gid)
