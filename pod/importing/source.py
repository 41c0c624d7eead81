"""The file that is imported, read in lines that never fill the memory."""

import os
from collections.abc import Iterator
from typing import NamedTuple

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of a line that are read; a longer one is passed over and counted. The
largest records known (a screenshot in base64) have some ten million."""
LARGEST_DOCUMENT = 256 * 1024 * 1024
"""Bytes of a file that is one JSON document: such a file is held as a whole."""
CHUNK = 1 << 20


class Line(NamedTuple):
    """A line: where it stands, its bytes (None: too long), whether LF ends it."""

    offset: int
    length: int
    data: bytes | None
    ended: bool


def lines(fd: int, *, longest: int = LONGEST_LINE) -> Iterator[Line]:
    """Give the lines of a file, without their line ends; at most *longest* bytes of one.

    Raises OSError.
    """
    held: list[bytes] = []
    size = start = at = 0
    while chunk := os.pread(fd, CHUNK, at):
        at += len(chunk)
        first, *rest = chunk.split(b"\n")
        for piece in [first, *rest][:-1]:
            size += len(piece)
            whole = size <= longest
            yield Line(start, size, b"".join([*held, piece]) if whole else None, True)
            start += size + 1
            held, size = [], 0
        last = rest[-1] if rest else first
        size += len(last)
        if size <= longest:
            held.append(last)
        else:
            held = []
    if size:
        yield Line(start, size, b"".join(held) if size <= longest else None, False)


def read_at(fd: int, offset: int, length: int) -> bytes:
    """Return bytes of the file, fewer where it was cut off meanwhile."""
    found: list[bytes] = []
    while length > 0:
        piece = os.pread(fd, length, offset)
        if not piece:
            break
        found.append(piece)
        offset += len(piece)
        length -= len(piece)
    return b"".join(found)
