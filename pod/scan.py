"""Reads a log as it lies on the disk: what is whole, what is torn, what is damaged.

Only LF ends a line, and a line end commits the line. What does not parse at the
end is a torn tail, as a crash leaves it. What does not parse before a whole
entry, or does not fit the others, is damage.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from pod.codec import BadLine, decode, decode_header
from pod.entries import AnyEntry, Header, Label, Leaf

Kind = Literal[
    "header", "unreadable", "glued", "seq", "repeated", "parent", "order", "target"
]


class Damage(Struct, frozen=True):
    """One thing that is wrong with the log.

    Where it is: *line* (the first is 1), *offset* and *length* in bytes. *kind*:
    no header; bytes that are no entry; several entries on one line; a gap or a
    step back in seq; an id used twice; a parent that is not there, or that comes
    later (a cycle, then); a target that is not there.
    """

    line: int
    offset: int
    length: int
    kind: Kind
    reason: str


class Record(Struct, frozen=True):
    """An entry as it lies in the log; *raw* are its bytes, without line end."""

    line: int
    offset: int
    raw: bytes
    entry: AnyEntry


class Scan(Struct, frozen=True):
    """A log that was read.

    *entries* are all that are whole, those on damaged lines included. *good_end*
    is the offset behind the last of them and its line end, *torn* the offset
    and length of what lies behind that. *ended* is False where the last line is
    whole but its line end is missing.
    """

    header: Header | None
    entries: list[AnyEntry]
    good_end: int
    torn: tuple[int, int] | None
    damage: tuple[Damage, ...]
    ended: bool = True


_BOM = b"\xef\xbb\xbf"


def scan(chunks: Iterable[bytes]) -> Scan:
    """Read a log, given in pieces of any size, in one pass.

    Raises NewerFormat. A file that is no log has no header and no entries.
    """
    header: Header | None = None
    entries: list[AnyEntry] = []
    damage: list[Damage] = []
    tail: list[Damage] = []
    checks = Checks()
    good_end = 0
    ended = True
    torn: tuple[int, int] | None = None
    last_line = 0
    for part in read(chunks):
        match part:
            case Header():
                header = part
            case Record():
                damage += [*tail, *checks.add(part)]
                tail.clear()
                entries.append(part.entry)
                last_line = part.line
            case Damage(kind="unreadable"):
                _extend(tail, part)
            case Damage():
                damage.append(part)
            case End():
                good_end, ended = part.size, part.ended
    if tail:
        torn = (tail[0].offset, good_end - tail[0].offset)
        good_end = tail[0].offset
        ended = tail[0].line != last_line
    damage += checks.finish()
    return Scan(header, entries, good_end, torn, tuple(damage), ended)


class End(Struct, frozen=True):
    """The end of the log: its size, and whether its last line was ended."""

    size: int
    ended: bool


def read(chunks: Iterable[bytes]) -> Iterator[Header | Record | Damage | End]:
    """Give the parts of a log in their order; raises NewerFormat.

    Whole entries on a damaged line are given too: those behind NUL bytes,
    behind a torn one, or glued to another.
    """
    begun = False
    size = 0
    ended = True
    for number, offset, line, ended in lines(chunks):
        size = offset + len(line) + ended
        if not begun:
            line = line.removeprefix(_BOM)
            offset = size - ended - len(line)
        if not line.strip():
            if line and not ended:
                yield Damage(number, offset, len(line), "unreadable", "blanks")
        elif not begun:
            begun = True
            yield from _first(number, offset, line)
        else:
            try:
                yield Record(number, offset, line, decode(line))
            except BadLine as error:
                yield from _recover(number, offset, line, str(error))
    yield End(size, ended)


def _first(number: int, offset: int, line: bytes) -> Iterator[Header | Record | Damage]:
    try:
        yield decode_header(line)
    except BadLine as error:
        yield Damage(number, offset, len(line), "header", str(error))
        with suppress(BadLine):
            yield Record(number, offset, line, decode(line))


_json = json.JSONDecoder(strict=False)


def lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, int, bytes, bool]]:
    """Give each line: its number, its offset, its bytes, whether LF ends it."""
    number, offset = 1, 0
    held: list[bytes] = []
    for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        held.append(first)
        for piece in rest:
            line = held[0] if len(held) == 1 else b"".join(held)
            yield number, offset, line, True
            number += 1
            offset += len(line) + 1
            held = [piece]
    line = b"".join(held)
    if line:
        yield number, offset, line, False


_START = re.compile(rb'\{"type":"[^"\\]{1,64}","seq":')
"""How the lines that we write begin. Nothing inside an entry looks like it: in a
string the quotes are escaped, and items have no seq."""


def _recover(
    number: int, offset: int, line: bytes, reason: str
) -> Iterator[Record | Damage]:
    """Give the whole entries of a broken line, and what is broken around them."""
    starts = [match.start() for match in _START.finditer(line)]
    if not starts or starts[0] > 0:
        starts.insert(0, 0)
    found = False
    for start, stop in zip(starts, [*starts[1:], len(line)], strict=True):
        at, why = start, reason
        end = start + _object_size(line[start:stop])
        if end > start:
            try:
                entry = decode(line[start:end])
            except BadLine as error:
                why = str(error)
            else:
                record = Record(number, offset + start, line[start:end], entry)
                if found:
                    yield _at(record, "glued", "another entry before it on its line")
                found, at = True, end
                yield record
        rest = line[at:stop]
        if rest.strip(b" \t\r"):
            if not rest.strip(b"\0 \t\r"):
                why = "NUL bytes"
            yield Damage(number, offset + at, len(rest), "unreadable", why)


def _object_size(data: bytes) -> int:
    """Return how many bytes the JSON object at the beginning has, 0 for none."""
    try:
        # Latin-1 makes a character of each byte, so that offsets are the same.
        return _json.raw_decode(data.decode("latin-1"))[1]
    except (ValueError, RecursionError):
        return 0


def _extend(tail: list[Damage], part: Damage) -> None:
    """Add a broken line to those before it; a run of them is one damage."""
    if tail and tail[-1].offset + tail[-1].length + 1 == part.offset:
        first = tail.pop()
        part = Damage(
            first.line,
            first.offset,
            part.offset + part.length - first.offset,
            first.kind,
            first.reason,
        )
    tail.append(part)


class Checks:
    """Whether the entries of a log fit each other; one pass, in the log's order."""

    def __init__(self) -> None:
        self._seq = 0
        self._parents: dict[str, str | None] = {}
        self._open: list[Record] = []

    def add(self, record: Record) -> Iterator[Damage]:
        """Take the next entry, and say what is wrong with it so far."""
        entry = record.entry
        if entry.seq != self._seq + 1:
            yield _at(record, "seq", f"seq {entry.seq} after {self._seq}")
        self._seq = entry.seq
        if entry.parent is not None and entry.parent not in self._parents:
            self._open.append(record)
        if entry.id in self._parents:
            yield _at(record, "repeated", f"id {entry.id} for the second time")
        else:
            self._parents[entry.id] = entry.parent
        if isinstance(entry, (Leaf, Label)):
            target = entry.target
            if target is not None and target not in self._parents:
                yield _at(record, "target", f"its target {target} is not in the log")

    def finish(self) -> Iterator[Damage]:
        """Say what is wrong with parents that no earlier entry is."""
        cycles = self._cycles()
        for record in self._open:
            parent = record.entry.parent
            if parent not in self._parents:
                why = f"its parent {parent} is not in the log"
                yield _at(record, "parent", why)
            elif record.entry.id in cycles:
                why = f"its parent {parent} descends from it: a cycle"
                yield _at(record, "order", why)
            else:
                yield _at(record, "order", f"its parent {parent} comes later")

    def _cycles(self) -> set[str]:
        """Return the ids that lie on cycles; each entry is walked over once."""
        done: set[str] = set()
        found: set[str] = set()
        for record in self._open:
            trail: dict[str, int] = {}
            at: str | None = record.entry.id
            while at is not None and at not in done and at not in trail:
                trail[at] = len(trail)
                at = self._parents.get(at)
            if at in trail:
                found.update(id for id, n in trail.items() if n >= trail[at])
            done.update(trail)
        return found


def _at(record: Record, kind: Kind, reason: str) -> Damage:
    return Damage(record.line, record.offset, len(record.raw), kind, reason)
