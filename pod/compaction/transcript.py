"""What a compact worker saw and did, beside the session's log: for inspection alone."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from pod.disk import make_folder
from pod.path_text import path_text
from tools.confined import Reading
from worker.items import Item


class Confinement(Struct, frozen=True, tag="confinement"):
    """What holds a compact worker to the roots it may read below.

    *by* is "landlock" where the thread that opens its files can open nothing
    else, "none" where the scope alone holds it, and *detail* says why. It has
    no shell, no network and no tool that writes.
    """

    by: str
    detail: str
    roots: tuple[str, ...]


@contextmanager
def open_transcript(
    folder: Path, id: str, reading: Reading | None
) -> Iterator[Callable[[Item], None]]:
    """Give what writes items to ``compact-<id>.jsonl`` in *folder*, one a line.

    With *reading* the first line is a Confinement. Where the file cannot be
    written, nothing is, and nothing is raised: it is not worth a compaction.
    """
    with ExitStack() as stack:
        file: IO[bytes] | None = None
        with suppress(OSError):
            make_folder(folder)
            file = _open(folder / f"compact-{id}.jsonl")
            stack.callback(_close, file)

        def write(line: Item | Confinement) -> None:
            with suppress(OSError, ValueError):
                if file is not None:
                    file.write(msgspec.json.encode(line) + b"\n")

        if reading is not None:
            write(_confinement(reading))
        yield write


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # what is buffered may find no room either
        file.close()


def _open(path: Path) -> IO[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def _confinement(reading: Reading) -> Confinement:
    return Confinement(
        by=reading.confinement,
        detail=reading.detail,
        roots=tuple(path_text(Path(root)) for root in reading.scope.read_roots),
    )
