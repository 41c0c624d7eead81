"""Where sessions live, and how they are found again."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from random import Random

from msgspec import Struct
from msgspec.structs import replace
from platformdirs import user_state_path

from pod.clock import now
from pod.codec import BadLine, decode, decode_header
from pod.disk import chunks, failed, open_reading, sync_folder
from pod.entries import AnyEntry, Custom, Header, ItemEntry, RunEnd, SessionInfo
from pod.errors import (
    AmbiguousSession,
    NewerFormat,
    NotASession,
    SessionDamaged,
    SessionError,
    SessionNotFound,
)
from pod.log import SessionLog, read_log
from pod.scan import Record, read
from pod.session import Clock, Session
from pod.tree import Tree, fork_lines
from worker.items import UserText

HEAD = 64 * 1024
TAIL = 64 * 1024
"""Bytes that a listing reads of each end of a log: a few entries."""
LONGEST_HEADER = 4 * 1024 * 1024
"""Bytes; a header carries the system prompt."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.jsonl")


class Listed(Struct, frozen=True):
    """What a listing tells of a session, from its first and last entries alone.

    *entries* is the seq of the last one, *outcome* that of the last run, "" while
    one goes on (or was cut off), "imported" where none began since an import,
    "forked" where none began in a copy that ends in the middle of one. *prompt* is
    the first line of the first prompt. *damaged* is set where one of the entries
    read is damaged; damage between the two ends is not seen. *broken* says why
    nothing else is known. *modified* is in seconds since 1970, *size* in bytes.
    """

    id: str
    path: Path
    size: int
    modified: float
    broken: str = ""
    damaged: bool = False
    header: Header | None = None
    entries: int = 0
    outcome: str = ""
    name: str = ""
    prompt: str = ""


class Store:
    """The folder that the sessions of one user, or one project, are in."""

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        clock: Clock = now,
        random: Random | None = None,
    ) -> None:
        """Use the platform's state folder unless one is given (~ is the home)."""
        self.folder = Path(folder).expanduser() if folder else default_folder()
        self._clock = clock
        self._random = random or Random()

    def path(self, id: str) -> Path:
        """Return where the log of a session is."""
        return self.folder / f"{id}.jsonl"

    def new_id(self) -> str:
        """Return an id that is free: YYYYMMDD-HHMMSS-xxxx, in UTC."""
        day, _, time = self._clock().partition("T")
        stamp = f"{day.replace('-', '')}-{time[:8].replace(':', '')}"
        while True:
            id = f"{stamp}-{self._random.getrandbits(16):04x}"
            taken = (self.path(id), self.part(id))
            if not any(map(os.path.lexists, taken)):
                return id

    def part(self, id: str) -> Path:
        """Return where a log is while it is copied: no session by its name yet."""
        return self.folder / f".{id}.jsonl"

    def find(self, wanted: str) -> Path:
        """Return the log of the session with this id, or the only one it is part of.

        What an id begins with goes before what is in the middle of one. A path to
        a log is taken too. Raises SessionNotFound (with near ids),
        AmbiguousSession (with those it could be).
        """
        if os.sep in wanted or wanted.endswith(".jsonl"):
            if Path(wanted).is_file():
                return Path(wanted)
            raise SessionNotFound(f"no session at {wanted}")
        ids = sorted(path.stem for path in self._logs())
        if wanted in ids:
            return self.path(wanted)
        found = [id for id in ids if wanted and id.startswith(wanted)]
        how = "begin with"
        if not found:
            found = [id for id in ids if wanted and wanted in id]
            how = "have in their id"
        if len(found) == 1:
            return self.path(found[0])
        if found:
            raise AmbiguousSession(
                f"{len(found)} sessions {how} {wanted}: {_some(found)}"
            )
        near = get_close_matches(wanted, ids, n=3)
        hint = f"; near it: {_some(near)}" if near else ""
        raise SessionNotFound(f"no session {wanted} in {self.folder}{hint}")

    def sessions(self) -> list[Listed]:
        """Return all sessions, the one written last first; broken ones too."""
        return [look(path) for path in self._newest_first()]

    def latest(self, cwd: str) -> Listed | None:
        """Return the session of this working directory that was written last."""
        for path in self._newest_first():
            found = look(path)
            if found.header and found.header.cwd == cwd:
                return found
        return None

    def fork(self, source: Path, leaf: str | None) -> Path:
        """Copy the path to *leaf* into a new session; return its log.

        The source is only read. Raises KeyError if it has no such entry,
        SessionDamaged if it must be repaired first, and what reading and
        writing raise.
        """
        found = read_log(source)
        if found.header is None or found.damage:
            raise SessionDamaged(
                f"{source} is damaged: run pod session repair {source.stem} first"
            )
        tree = Tree(found.entries)
        tree.path(leaf)
        header = replace(
            found.header,
            id=self.new_id(),
            at=self._clock(),
            parent_session=found.header.id,
        )
        fd = open_reading(source)
        try:
            lines = (
                (record.entry, record.raw)
                for record in read(chunks(fd))
                if isinstance(record, Record)
            )
            ids = _ids(self._random, taken=tree)
            path = self.add(header, fork_lines(lines, tree, leaf, lambda: next(ids)))
        finally:
            os.close(fd)
        try:
            Session.open(path, cause="forked", clock=self._clock).close()
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def add(self, header: Header, lines: Iterable[bytes]) -> Path:
        """Put a whole log in its place: *header*, and *lines* with their line ends.

        It is a session by its name once it is whole and on the disk. Raises what
        *lines* and writing raise; then nothing is left.
        """
        path, part = self.path(header.id), self.part(header.id)
        try:
            with SessionLog.create(part, header) as log:
                log.append_lines(lines)
                part.rename(path)
            sync_folder(self.folder)
        except BaseException:
            part.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            raise
        return path

    def _logs(self) -> Iterator[Path]:
        """Give the logs; none where there is no folder yet. Raises LogFailed."""
        try:
            with os.scandir(self.folder) as names:
                for name in names:
                    if _NAME.fullmatch(name.name) and _is_file(name):
                        yield Path(name.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise failed("cannot list the sessions in", self.folder, error) from error

    def _newest_first(self) -> list[Path]:
        dated = []
        for path in self._logs():
            with suppress(FileNotFoundError):
                dated.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(dated, reverse=True)]


def _is_file(name: os.DirEntry[str]) -> bool:
    try:
        return name.is_file()
    except OSError:  # a link to itself
        return False


def default_folder() -> Path:
    """Return the sessions' folder under the platform's state folder."""
    return user_state_path("pod", appauthor=False) / "sessions"


def look(path: Path) -> Listed:
    """Return what a listing tells of one log; reads its two ends alone."""
    try:
        fd = open_reading(path)
    except SessionError as error:
        return Listed(path.stem, path, 0, 0.0, broken=str(error))
    try:
        status = os.fstat(fd)
        listed = Listed(path.stem, path, status.st_size, status.st_mtime)
        try:
            header, behind = _header(fd)
        except (NotASession, NewerFormat) as error:
            return replace(listed, broken=str(error))
        head = _entries(os.pread(fd, HEAD, behind), whole=True)
        start = max(behind, status.st_size - TAIL)
        tail = _entries(os.pread(fd, TAIL, start), whole=start == behind)
        listed = replace(
            listed, header=header, damaged=head.is_damaged or tail.is_damaged
        )
        return _described(listed, head.entries, tail.entries)
    except OSError as error:
        broken = str(failed("cannot read", path, error))
        return Listed(path.stem, path, 0, 0.0, broken=broken)
    finally:
        os.close(fd)


def _header(fd: int) -> tuple[Header, int]:
    """Return the header and the offset behind it."""
    data = b""
    while len(data) < LONGEST_HEADER:
        more = os.pread(fd, HEAD, len(data))
        data += more
        if b"\n" in more or not more:
            break
    line = data.partition(b"\n")[0]
    if not line:
        raise NotASession("the file is empty" if not data else "no session header")
    try:
        return decode_header(line.removeprefix(b"\xef\xbb\xbf")), len(line) + 1
    except BadLine as error:
        raise NotASession(str(error)) from None


class _Piece(Struct, frozen=True):
    """What is in a piece of a log."""

    entries: list[AnyEntry]
    is_damaged: bool


def _entries(data: bytes, *, whole: bool) -> _Piece:
    """Return the entries in a piece of a log; *whole*: it begins with a line.

    That its last line is cut off is no damage: the piece, or a crash, ends there.
    """
    found: list[AnyEntry] = []
    is_damaged = False
    *lines, last = data.split(b"\n")
    for line in lines[0 if whole else 1 :]:
        if not line.strip():
            continue
        try:
            found.append(decode(line))
        except BadLine:
            is_damaged = True
    if whole or lines:
        with suppress(BadLine):
            found.append(decode(last))
    in_order = all(after.seq == before.seq + 1 for before, after in pairwise(found))
    return _Piece(found, is_damaged or not in_order)


def _described(listed: Listed, head: list[AnyEntry], tail: list[AnyEntry]) -> Listed:
    prompt = name = outcome = ""
    said = [
        entry.item
        for entry in head
        if isinstance(entry, ItemEntry) and isinstance(entry.item, UserText)
    ]
    # What a person wrote, before what a program wrote in his place.
    for item in sorted(said, key=lambda item: item.synthetic)[:1]:
        prompt = item.text.strip().partition("\n")[0][:200]
    for entry in [*head, *tail]:
        if isinstance(entry, Custom) and entry.kind == "import":
            outcome = "imported"
        elif isinstance(entry, SessionInfo):
            name = entry.name
        elif isinstance(entry, RunEnd):
            outcome = "forked" if entry.reason == "forked" else entry.outcome
        elif entry.run:
            outcome = ""
    last = max((entry.seq for entry in [*head, *tail]), default=0)
    return replace(listed, entries=last, outcome=outcome, name=name, prompt=prompt)


def _ids(random: Random, taken: Tree) -> Iterator[str]:
    """Give ids that are neither given before nor in *taken*.

    An id of the source that stays (a branch summary's from_id) means nothing else.
    """
    given: set[str] = set()
    while True:
        id = f"{random.getrandbits(32):08x}"
        if id not in given and id not in taken:
            given.add(id)
            yield id


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:10]) + (", …" if len(ids) > 10 else "")
