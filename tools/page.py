"""Some lines out of a stream of bytes, however long it or one of its lines is."""

from msgspec import Struct

from tools.text import clean

NUMBER_BYTES = 8
"""What a line's number and its tab and line break take up, about."""


class Line(Struct, frozen=True):
    """One line, without its line break.

    *text* is cut at the limit for a line; *size* is what the line has, in bytes.
    """

    number: int
    text: bytes
    size: int


class Page:
    r"""Collects lines *offset* to *offset* + *limit* - 1 (counted from 1).

    It is fed UTF-8 in chunks of any size and holds at most *max_bytes*, and
    of one line *max_line_bytes*. Lines end at ``\n`` alone, as in grep.
    """

    def __init__(
        self, offset: int, limit: int, *, max_bytes: int, max_line_bytes: int
    ) -> None:
        self.lines: list[Line] = []
        self.is_full = False
        """Whether the page takes no more, because of *limit* or *max_bytes*."""
        self._offset = offset
        self._limit = limit
        self._room = max_bytes
        self._max_line_bytes = min(max_line_bytes, max_bytes)
        self._breaks = 0
        self._in_line = False
        self._text = b""
        self._size = 0

    @property
    def total(self) -> int:
        """The lines fed so far, the one without a line break included."""
        return self._breaks + self._in_line

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        start = 0
        while start < len(chunk) and not self.is_full:
            before = self._offset - 1 - self._breaks
            if before > 0:
                start = self._skip(chunk, start, before)
            else:
                start = self._take(chunk, start)
        self._breaks += chunk.count(b"\n", start)
        if chunk:
            self._in_line = not chunk.endswith(b"\n")

    def finish(self) -> None:
        """Take note that the stream has ended."""
        if self._in_line and self._breaks >= self._offset - 1 and not self.is_full:
            self._end_line()

    def _skip(self, chunk: bytes, start: int, breaks: int) -> int:
        """Go past *breaks* line breaks; return where that is."""
        there = chunk.count(b"\n", start)
        if there < breaks:
            self._breaks += there
            return len(chunk)
        for _ in range(breaks):
            start = chunk.index(b"\n", start) + 1
        self._breaks += breaks
        return start

    def _take(self, chunk: bytes, start: int) -> int:
        end = chunk.find(b"\n", start)
        until = end if end >= 0 else len(chunk)
        self._size += until - start
        if (room := self._max_line_bytes - len(self._text)) > 0:
            self._text += chunk[start : min(until, start + room)]
        if end < 0:
            return len(chunk)
        self._end_line()
        self._breaks += 1
        return end + 1

    def _end_line(self) -> None:
        line = Line(self._breaks + 1, self._text, self._size)
        self._text, self._size = b"", 0
        self._room -= len(line.text) + NUMBER_BYTES
        if self.lines and self._room < 0:
            self.is_full = True
            return
        self.lines.append(line)
        self.is_full = len(self.lines) >= self._limit


def numbered(lines: list[Line]) -> tuple[str, str]:
    """Return *lines* with their numbers, safe to send, and notes on what that changed."""
    notes: dict[str, None] = {}
    shown = []
    for line in lines:
        raw = line.text
        if line.size > len(raw):
            raw = _whole_characters(raw)
        text = raw.decode("utf-8", "replace")
        if "\ufffd" in text and "\ufffd".encode() not in raw:
            notes["bytes that are no UTF-8 are shown as \ufffd"] = None
        cleaned = clean(text.removesuffix("\r").replace("\r", "␍"))
        if cleaned.notes:
            notes[cleaned.notes] = None
        clipped = f" [… line clipped, it has {line.size} bytes]"
        tail = clipped if line.size > len(line.text) else ""
        shown.append(f"{line.number:>6}\t{cleaned.text}{tail}\n")
    return "".join(shown), "; ".join(notes)


def _whole_characters(data: bytes) -> bytes:
    """Drop the beginning of a character from the end of *data*."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return data[:-back] if length > back else data
    return data
