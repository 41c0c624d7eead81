"""The folder beside a log for what is too long for it: full outputs of tools."""

import os
import re
from pathlib import Path
from typing import IO

from pod.disk import make_folder


class SpillFolder:
    """Gives tools files to spill into; the folder is made with the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, name: str) -> tuple[Path, IO[bytes]]:
        """Create a new file whose name contains *name*, as tools.base.Spill says."""
        make_folder(self._folder)
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:80] or "output"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        number = 1
        while True:
            suffix = "" if number == 1 else f"-{number}"
            path = self._folder / f"{plain}{suffix}.txt"
            try:
                fd = os.open(path, flags, 0o600)
            except FileExistsError:
                number += 1
                continue
            return path, os.fdopen(fd, "wb")
