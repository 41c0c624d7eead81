"""Durable events out of a session log, while its Pod goes on writing to it."""

import os
import re
from collections import deque
from pathlib import Path
from typing import NamedTuple

from pod.codec import BadLine, decode
from pod.disk import failed, open_reading
from pod.entries import AnyEntry
from pod.events import line, type_of

BLOCK = 256 * 1024
"""Bytes of the log that are read at once."""
_STEP = 16 * 1024
"""Bytes that are read at once while a line is looked for."""
_HEAD = 128
"""Bytes that hold the beginning of a line, its number included."""
_SEQ = re.compile(rb'\{"type":"[^"\\]{1,64}","seq":(\d{1,18}),')


class Replayed(NamedTuple):
    """One durable event: its number, its name, and its line."""

    seq: int
    name: str
    line: bytes


class LogReader:
    """Reads a log from the entry *first* on, a block at a time.

    It is looked for by bisection: who comes back near the end of a long log, or
    asks for it page by page, does not have it read from its beginning. Only what lies before the end that the caller names is read: the writer has
    told of it, so its line is whole. Raises LogFailed.
    """

    def __init__(self, path: Path, session: str, first: int) -> None:
        self._path = path
        self._session = session
        self.next_seq = max(first, 1)
        """The number of the next event."""
        self._fd = open_reading(path)
        self._offset = line_near(self._fd, self.next_seq)
        self._lines: deque[bytes] = deque()
        self._begun: list[bytes] = []

    def read(self, last: int, *, most: int = BLOCK) -> list[Replayed]:
        """Return the next events up to the number *last*, *most* bytes or so of them.

        At least one where there is one.
        """
        found: list[Replayed] = []
        size = 0
        while size < most and (next := self._next(last)) is not None:
            entry, _ = next
            text = line(entry, session=self._session)
            found.append(Replayed(entry.seq, type_of(entry), text))
            size += len(text)
        return found

    def entries(self, last: int, *, most: int = BLOCK) -> list[AnyEntry]:
        """Return the entries of the next events, as ``read`` does their lines."""
        found: list[AnyEntry] = []
        size = 0
        while size < most and (next := self._next(last)) is not None:
            entry, length = next
            found.append(entry)
            size += length
        return found

    def close(self) -> None:
        os.close(self._fd)

    def _next(self, last: int) -> tuple[AnyEntry, int] | None:
        """Return the next entry up to the number *last*, and its length in bytes."""
        while self.next_seq <= last and (text := self._line()) is not None:
            entry = self._entry(text)
            if entry is not None:
                self.next_seq = entry.seq + 1
                return entry, len(text)
        return None

    def _line(self) -> bytes | None:
        """Return the next whole line; None at the end of what is written."""
        while not self._lines:
            try:
                block = os.pread(self._fd, BLOCK, self._offset)
            except OSError as error:
                raise failed("cannot read", self._path, error) from error
            if not block:
                return None
            self._offset += len(block)
            head, *lines = block.split(b"\n")
            self._begun.append(head)
            if lines:
                self._lines.append(b"".join(self._begun))
                self._lines.extend(lines[:-1])
                self._begun = [lines[-1]]
        return self._lines.popleft()

    def _entry(self, text: bytes) -> AnyEntry | None:
        """Return the entry of a line; None where it lies before those wanted."""
        quick = _SEQ.match(text)
        if quick and int(quick[1]) < self.next_seq:
            return None
        try:
            entry = decode(text)
        except BadLine:
            return None  # the header, or a blank line
        return entry if entry.seq >= self.next_seq else None


def line_near(fd: int, seq: int) -> int:
    """Return where a line begins, at or before that of the entry *seq*.

    Not further before it than BLOCK bytes and a line, where all lines between
    tell their number as ours do. Entries are numbered in their order.
    """
    low, high = 0, os.fstat(fd).st_size
    while high - low > BLOCK:
        middle = (low + high) // 2
        found = _line_behind(fd, middle)
        if found is None or found[0] >= high:
            high = middle
        elif found[1] < seq:
            low = found[0]
        else:
            high = middle
    return low


def _line_behind(fd: int, offset: int) -> tuple[int, int] | None:
    """Return where the next line behind *offset* begins, and its entry's number.

    None where there is none, or it does not tell.
    """
    try:
        while block := os.pread(fd, _STEP, offset):
            if (end := block.find(b"\n")) >= 0:
                start = offset + end + 1
                head = _SEQ.match(os.pread(fd, _HEAD, start))
                return None if head is None else (start, int(head[1]))
            offset += len(block)
    except OSError:
        return None  # whoever reads on is told
    return None
