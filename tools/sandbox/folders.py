"""Folders that commands have for themselves, and what is left of killed Pods' ones."""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PREFIX = "pod-box-"
_YOUNG = 60.0
"""Seconds in which a folder may not be locked yet."""


class OwnFolders:
    """A /tmp and a home for commands, until it is closed."""

    def __init__(self) -> None:
        """Make them. Raises OSError."""
        _sweep()
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # For as long as we are there, whatever ends us.
        self._lock = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.tmp = self._folder / "tmp"
        self.home = self._folder / "home"
        self.tmp.mkdir(0o700)
        self.home.mkdir(0o700)

    def close(self) -> None:
        """Remove them. Blocks."""
        _remove(self._folder)
        os.close(self._lock)


def make_within(folder: str, path: str) -> None:
    """Make the folders of *path* below *folder*, through no link. Raises OSError.

    Commands write there.
    """
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(folder, flags)
    try:
        for part in filter(None, path.split("/")):
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=fd)
            inner = os.open(part, flags, dir_fd=fd)
            os.close(fd)
            fd = inner
    finally:
        os.close(fd)


def _sweep() -> None:
    """Remove folders of sandboxes whose process was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            is_old = time.time() - found.st_mtime > _YOUNG
            if found.st_uid != os.geteuid() or not is_old:
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
            finally:
                os.close(lock)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, onerror=_make_removable)


def _make_removable(function: Callable[..., object], path: str, error: object) -> None:
    """Remove what a command left read-only, or leave it where that fails, too."""
    with suppress(OSError):
        Path(path).parent.chmod(stat.S_IRWXU)
        if not Path(path).is_symlink():
            Path(path).chmod(stat.S_IRWXU)
        if Path(path).is_dir() and not Path(path).is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)
