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
_SEQ = re.compile(rb'\{"type":"[^"\\]{1,64}","seq":(\d{1,18}),')


class Replayed(NamedTuple):
    """One durable event: its number, its name, and its line."""

    seq: int
    name: str
    line: bytes


class LogReader:
    """Reads a log from the entry *first* on, a block at a time.

    Only what lies before the end that the caller names is read: the writer has
    told of it, so its line is whole. Raises LogFailed.
    """

    def __init__(self, path: Path, session: str, first: int) -> None:
        self._path = path
        self._session = session
        self.next_seq = max(first, 1)
        """The number of the next event."""
        self._fd = open_reading(path)
        self._offset = 0
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
