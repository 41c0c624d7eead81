"""Reads a foreign session twice: once for its shape, once for its text.

The first pass keeps of each record its place and ids (some hundred bytes), the
second reads the records again in the order in which they are written. So the
memory holds the shape of a file and never its text; only a file that is one
JSON document is held as a whole.
"""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from pod.clock import now
from pod.entries import FORMAT, Custom, Header, Notice
from pod.importing.blobs import Blobs
from pod.importing.decode import pieces, repaired
from pod.importing.detect import MOST_LINES, detect
from pod.importing.format import Format, NotImportable, Origin
from pod.importing.outline import outline
from pod.importing.plan import Planner
from pod.importing.records import (
    Answer,
    Called,
    Compacted,
    Header as FileHeader,
    Link,
    Parsed,
    Record,
    Result,
    Summarised,
    Thought,
    Unreadable,
    User,
    Where,
)
from pod.importing.source import (
    LARGEST_DOCUMENT,
    LONGEST_LINE,
    lines,
    read_at,
)
from pod.importing.tally import Tally
from pod.importing.windows import kept_parts
from pod.importing.write import Writer
from pod.path_text import path_text
from pod.store import Store

TORN = "a torn record at the end of the file: left out"
TOO_LONG = f"lines of more than {LONGEST_LINE // 2**20} MiB: passed over"
BROKEN = "lines that are no JSON object: passed over"
UNKNOWN = "records whose fields cannot be read: passed over"
BATCH = 256 * 1024
"""Bytes of log that are written at once."""


class Imported(Struct, frozen=True):
    """What came of an import."""

    session: str
    path: Path
    origin: Origin
    tally: Tally


class _Segment(Struct, frozen=True):
    """A piece of the file that holds records: a line, mostly."""

    offset: int
    length: int
    data: bytes


def import_file(
    file: Path, store: Store, *, cwd: str, system: str, pod: str
) -> Imported:
    """Read *file* into a new session of *store*; *cwd* and *system* are its header's.

    Raises NotImportable, OSError where the file cannot be read, and what
    writing a log raises; then no session is left behind.
    """
    fd = _open(file)
    try:
        detected = detect(islice(_heads(fd), MOST_LINES))
        tally = Tally()
        planner = _planned(fd, detected.format, detected.origin, tally)
        steps = planner.steps()
        if not steps.is_said:
            raise NotImportable(
                f"a file of {detected.origin.agent} without any message in it"
            )
        kept = kept_parts(steps.all, steps.start_of, tally)
        at = now()
        writer = Writer(
            steps, kept, _Loader(fd, detected.format), Blobs(file), tally, now=at
        )
        header = Header(
            format=FORMAT,
            id=store.new_id(),
            at=at,
            cwd=cwd,
            system=system,
            pod=pod,
            sandbox="",
        )
        notice = Notice(message=_told(detected.origin, file))

        def report() -> Custom:
            return _report(detected.origin, file, tally)

        path = store.add(header, _batches(writer.lines(notice, report)))
        return Imported(header.id, path, detected.origin, tally)
    finally:
        os.close(fd)


def _open(file: Path) -> int:
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotImportable("not a plain file")
    return fd


def _heads(fd: int) -> Iterator[bytes]:
    """Give what may show the format: the lines, or the document as a whole."""
    if (document := _document(fd)) is not None:
        yield document
        return
    for line in lines(fd):
        if line.data is not None and line.data.strip():
            yield line.data


def _document(fd: int) -> bytes | None:
    """Return the file where it is one JSON value over several lines, else None.

    Only where none of the first lines is a record by itself is it read as a whole.
    """
    some = islice((line for line in lines(fd) if (line.data or b"").strip()), 5)
    heads = [line.data or b"" for line in some]
    if not heads or heads[0].lstrip(b"\xef\xbb\xbf \t\r")[:1] not in {b"{", b"["}:
        return None
    size = os.fstat(fd).st_size
    if size > LARGEST_DOCUMENT or any(map(_is_object, heads)):
        return None
    data = read_at(fd, 0, size)
    try:
        msgspec.json.decode(repaired(data)[0], type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return data


def _planned(fd: int, format: Format, origin: Origin, tally: Tally) -> Planner:
    planner = Planner(tally)
    planner.lead(origin.session)
    linker = format.linker()
    for segment, parsed in _parsed(fd, format, tally):
        for part, record in enumerate(parsed.records):
            record = linker.link(record)
            _count(record, tally)
            where = Where(segment.offset, segment.length, part)
            planner.add(outline(record, where))
        for name in parsed.losses:
            tally.lose(name)
    return planner


def _parsed(fd: int, format: Format, tally: Tally) -> Iterator[tuple[_Segment, Parsed]]:
    if (document := _document(fd)) is not None:
        segment = _Segment(0, len(document), document)
        try:
            yield segment, _records(format, document, tally)
        except Unreadable as error:
            raise NotImportable(f"it cannot be read: {error}") from None
        return
    for line in lines(fd):
        if line.data is None:
            tally.bad_lines += 1
            tally.lose(TOO_LONG)
            continue
        if not line.data.strip():
            continue
        segment = _Segment(line.offset, line.length, line.data)
        try:
            parsed = _records(format, line.data, tally)
        except Unreadable:
            found = [*_glued(segment, format, tally)]
            tally.bad_lines += 1
            if found:
                yield from found
            elif line.ended:
                is_object = _is_object(line.data)
                tally.lose(UNKNOWN if is_object else BROKEN)
            else:
                tally.lose(TORN)
        else:
            yield segment, parsed


def _glued(
    segment: _Segment, format: Format, tally: Tally
) -> Iterator[tuple[_Segment, Parsed]]:
    """Give the records of a line that holds several, or one behind NULs and the like.

    What follows a record that is torn goes with it: nobody can tell where it ends.
    """
    for at, length in pieces(segment.data):
        piece = _Segment(segment.offset + at, length, segment.data[at : at + length])
        if length == len(segment.data.strip()):
            return
        try:
            yield piece, _records(format, piece.data, tally)
        except Unreadable:
            continue


def _records(format: Format, data: bytes, tally: Tally) -> Parsed:
    mended, losses = repaired(data)
    parsed = format.records(mended)
    tally.lines += 1
    for name in losses:
        tally.lose(name)
    return parsed


def _is_object(data: bytes) -> bool:
    try:
        msgspec.json.decode(repaired(data)[0], type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _count(record: Record, tally: Tally) -> None:
    if record.side and not isinstance(record, FileHeader | Link):
        tally.side += 1
    match record:
        case User(synthetic=synthetic, images=images):
            tally.user_messages += not synthetic
            tally.images += len(images)
        case Answer(parts=parts):
            tally.answers += 1
            tally.thinking += sum(isinstance(part, Thought) for part in parts)
            tally.tool_calls += _calls(record)
        case Result(is_error=is_error, images=images):
            tally.tool_results += 1
            tally.tool_errors += is_error
            tally.images += len(images)
        case Compacted(summary=summary, first_kept=first):
            tally.compactions += bool(summary or first)
        case Summarised():
            tally.branch_summaries += 1
        case _:
            pass


def _calls(answer: Answer) -> int:
    return sum(isinstance(part, Called) for part in answer.parts)


class _Loader:
    """Reads single records again; of one line with several, once."""

    def __init__(self, fd: int, format: Format) -> None:
        self._fd = fd
        self._format = format
        self._at = (-1, -1)
        self._found: tuple[Record, ...] = ()

    def __call__(self, where: Where) -> Record:
        if (where.offset, where.length) != self._at:
            data = read_at(self._fd, where.offset, where.length)
            try:
                self._found = self._format.records(repaired(data)[0]).records
            except Unreadable as error:
                raise NotImportable(
                    f"the file was changed meanwhile: {error}"
                ) from None
            self._at = where.offset, where.length
        if where.part >= len(self._found):
            raise NotImportable("the file was changed meanwhile")
        return self._found[where.part]


def _batches(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Join lines, so that the log is written in few calls."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= BATCH:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _name(file: Path) -> str:
    return path_text(Path(file.name))


def _told(origin: Origin, file: Path) -> str:
    format = f" (format {origin.format})" if origin.format else ""
    session = f", session {origin.session}" if origin.session else ""
    where = f", in {origin.cwd}" if origin.cwd else ""
    return f"Imported from {origin.agent}{format}: {_name(file)}{session}{where}."


class _Report(Struct, frozen=True, omit_defaults=True):
    """What the log says of an import, as JSON."""

    file: str
    origin: Origin
    counts: Tally


def _report(origin: Origin, file: Path, tally: Tally) -> Custom:
    text = msgspec.json.encode(_Report(_name(file), origin, tally)).decode()
    return Custom(kind="import", json=text)
