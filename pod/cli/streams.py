"""stdout and stderr of the command, when the other end may be gone."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TextIO

from pod.pipe import write_all
from tools.text import clean


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


def fill_gaps() -> None:
    """Put /dev/null where a standard stream was closed (`>&-`).

    The next file that is opened, the session log say, would get its number,
    and what is printed would land in it.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, so this one
        if getattr(sys, name) is None:
            stream = open(  # noqa: SIM115  for as long as the process lives
                fd, "w" if fd else "r", encoding="utf-8", closefd=False
            )
            setattr(sys, name, stream)


@contextmanager
def kept_for_results() -> Iterator[int]:
    """Keep stdout for results: yield a descriptor of it, and let nothing else on it.

    Whatever prints meanwhile, a user's function or a library, prints to stderr.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield kept
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def write_result(fd: int, text: str) -> bool:
    """Write a result to *fd*; say so and return False where it cannot be written.

    A gone reader is no error.
    """
    try:
        write_all(fd, text.encode("utf-8", "replace"))
    except BrokenPipeError:
        return True
    except OSError as error:
        say(f"pod: standard output cannot be written: {error.strerror}")
        return False
    return True


def say(text: str) -> None:
    """Tell a person something, on stderr, in lines of its own."""
    stream = Forgiving(sys.stderr)
    stream.write(clean(text).text.rstrip("\n") + "\n")
    stream.flush()


def give(text: str) -> None:
    """Write a result to stdout, whatever is in it; a gone reader is no error.

    Raises OSError for anything else, a full disk say.
    """
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        write_all(sys.stdout.fileno(), text.encode("utf-8", "replace"))


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
