"""Server-Sent Events, byte by byte.

The bytes may be cut anywhere: inside a character, between CR and LF, inside
the byte order mark. The events are the same for every cut.
"""

from msgspec import Struct

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""Largest event taken. The longest answer of a model is some megabytes; more
than this is a server gone wrong, and would fill the memory."""

_BOM = b"\xef\xbb\xbf"


class SseEvent(Struct, frozen=True):
    """One event: its name ("message" where none was given) and its data.

    Several data lines are joined by a newline. *data* is as it came, not
    checked to be UTF-8.
    """

    event: str
    data: bytes


class SseError(ValueError):
    """An event is larger than the limit."""


class Sse:
    """Turns the bytes of an event stream into events.

    Lines end with LF, CRLF or CR. Comments, ``id`` and ``retry`` are ignored,
    and an event without data is none, as the standard says.
    """

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._head: bytes | None = b""
        self._line = bytearray()
        self._after_cr = False
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        self._too_large = False
        self.has_fields = False
        """Whether any line so far belongs into an event stream."""

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take the next bytes and return the events they complete.

        Raises SseError when an event grows beyond the limit; the events before
        it have been returned by then.
        """
        self._check_size()
        if self._head is not None:
            self._head += data
            if len(self._head) < len(_BOM) and _BOM.startswith(self._head):
                return []
            data, self._head = self._head.removeprefix(_BOM), None
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if not data:
            return []
        events: list[SseEvent] = []
        lines = data.splitlines()
        unfinished = b"" if data.endswith((b"\n", b"\r")) else lines.pop()
        self._after_cr = data.endswith(b"\r")
        for line in lines:
            if self._line:
                self._line += line
                line = bytes(self._line)
                self._line.clear()
            self._take(line, events)
        self._line += unfinished
        self._too_large = self._too_large or self._exceeds(self._line)
        if not events:
            self._check_size()
        return events

    def end(self) -> SseEvent | None:
        """Return what was left of an event that no blank line finished.

        The standard drops it; the caller may look whether it is whole, since
        some servers leave the last blank line out. Raises SseError as `feed`.
        """
        self._check_size()
        events: list[SseEvent] = []
        self._take(bytes(self._line) or self._head or b"", events)
        self._take(b"", events)
        self._line.clear()
        self._check_size()
        return events[-1] if events else None

    def _take(self, line: bytes, events: list[SseEvent]) -> None:
        if self._too_large or self._exceeds(line):
            self._too_large = True
        elif not line:
            if self._data:
                data = b"\n".join(self._data)
                events.append(SseEvent(self._name or "message", data))
            self._name = ""
            self._data = []
            self._size = 0
        else:
            self._take_field(line)

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(line)
            case b"event":
                self._name = value.decode(errors="replace")
            case b"" | b"id" | b"retry":
                pass
            case _:
                return
        self.has_fields = True

    def _exceeds(self, line: bytes | bytearray) -> bool:
        return self._size + len(line) > self._limit

    def _check_size(self) -> None:
        if self._too_large:
            self._line.clear()
            self._data = []
            raise SseError(f"an event is larger than {self._limit} bytes")
