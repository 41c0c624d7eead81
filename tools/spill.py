"""The folder where outputs too long for the model are kept in full."""

import os
import re
from pathlib import Path
from typing import IO

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_MOST_NAME_CHARS = 64
_MOST_OF_A_NAME = 1000

# Neither the folder nor a file in it may be a link that somebody put there.
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class SpillFolder:
    """A `tools.base.Spill` over one folder, made when the first file is.

    The folder is for its owner alone (0700), and so are its files (0600).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, name: str) -> tuple[Path, IO[bytes]]:
        """Create a new file whose name contains *name*, made safe; give its path.

        The caller closes it. Raises OSError.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(self._folder, _FOLDER)
        try:
            return self._create(folder, name)
        finally:
            os.close(folder)

    def _create(self, folder: int, name: str) -> tuple[Path, IO[bytes]]:
        safe = _UNSAFE.sub("_", name)[:_MOST_NAME_CHARS] or "output"
        for number in range(1, _MOST_OF_A_NAME):
            suffix = "" if number == 1 else f"-{number}"
            name = f"{safe}{suffix}.txt"
            try:
                fd = os.open(name, _NEW, 0o600, dir_fd=folder)
                return self._folder / name, os.fdopen(fd, "wb")
            except FileExistsError:
                continue
        raise FileExistsError(f"too many files named {safe} in {self._folder}")
