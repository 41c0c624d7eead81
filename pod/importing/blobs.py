"""Images that oh-my-pi keeps beside its sessions, by the hash of their bytes."""

import os
import re
import stat
from base64 import b64encode
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from pod.importing.source import read_at
from tools.base import Image

LARGEST = 32 * 1024 * 1024
"""Bytes of a blob that is read: no API takes images that large."""

_NAME = re.compile(r"blob:sha256:([0-9a-f]{64})")


class Blobs:
    """The blob store of the agent folder that a session lies in.

    A session is ``<agent>/sessions/<folder>/<name>.jsonl``, a blob
    ``<agent>/blobs/<sha256>``. Only a file with that very hash is taken, so
    that a session cannot name any other file.
    """

    def __init__(self, session: Path) -> None:
        agent = session.absolute().parents
        self._folder = agent[2] / "blobs" if len(agent) > 2 else None

    def __call__(self, image: Image) -> Image | None:
        """Return the image with its data; None where they are not to be had."""
        if not image.data:
            return None
        name = _NAME.fullmatch(image.data)
        if name is None:
            return None if image.data.startswith("blob:") else image
        data = self._read(name[1])
        if data is None or sha256(data).hexdigest() != name[1]:
            return None
        return replace(image, data=b64encode(data).decode())

    def _read(self, name: str) -> bytes | None:
        if self._folder is None:
            return None
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            fd = os.open(self._folder / name, flags)
            try:
                status = os.fstat(fd)
                if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST:
                    return read_at(fd, 0, status.st_size)
            finally:
                os.close(fd)
        return None
