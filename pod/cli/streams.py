"""stdout and stderr of the command, when the other end may be gone."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TextIO


class Forgiving:
    """A text stream that goes quiet when nobody reads it any more.

    What is told to a person must never be what ends a run.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


@contextmanager
def kept_for_results() -> Iterator[int]:
    """Keep stdout for results: yield a descriptor of it, and let nothing else on it.

    Whatever prints meanwhile, a user's function or a library, prints to stderr.
    """
    sys.stdout.flush()
    kept = _duplicate(1)
    with suppress(OSError):
        os.dup2(2, 1)
    try:
        yield kept
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _duplicate(fd: int) -> int:
    try:
        return os.dup(fd)
    except OSError:  # closed before we began (`>&-`)
        return os.open(os.devnull, os.O_WRONLY)


def write_result(fd: int, text: str) -> None:
    """Write a result to *fd*, whatever is in it; a gone reader is no error."""
    view = memoryview(text.encode("utf-8", "replace"))
    with suppress(OSError):
        while view:
            view = view[os.write(fd, view) :]


def say(text: str) -> None:
    """Tell a person something, on stderr, in lines of its own."""
    stream = Forgiving(sys.stderr)
    stream.write(text.rstrip("\n") + "\n")
    stream.flush()


def give(text: str) -> None:
    """Write a result to stdout, whatever is in it; gone readers are no error."""
    with suppress(OSError, ValueError):
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.flush()


def release() -> None:
    """Flush both streams; one whose reader is gone is put on /dev/null.

    Otherwise the interpreter flushes it once more at its end, complains, and
    exits with 120 in place of the code that was meant.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _to_nowhere(stream)


def _to_nowhere(stream: IO[str]) -> None:
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
