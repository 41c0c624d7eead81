"""What a search is asked and answers, and how it is done.

It runs in a process of its own (`tools.search_process`): patterns come from
a model or from files of others, and Python's `re` can take years over some,
without letting any other thread run.
"""

import os
import re
import signal
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from msgspec import Struct

from tools.ignore import IgnoreFile, Rules
from tools.openat import is_secret
from tools.patterns import depth_of, expand, to_regex
from tools.prefilter import loosened, worth_a_look
from tools.text import bom_of, clean, decode, is_binary, one_line
from tools.walk import open_found, walk

FILE_BYTES = 50 * 1024 * 1024
"""Larger files are not searched."""

FILE_SECONDS = 2.0
"""How long a pattern may take over one file; most take a thousandth."""

LINE_CHARS = 400
"""What is shown of a line, around the match."""

SHOWN_CHARS = 40 * 1024
"""What one search shows; then it ends, as if max_matches were reached."""


class Grep(Struct, frozen=True, tag="grep"):
    """Search a folder, or one file, that is open as descriptor *start*."""

    start: int
    is_folder: bool
    name: str
    """The file's name, where it is one; shown as it is."""
    above: tuple[IgnoreFile, ...]
    pattern: str
    ignore_case: bool
    glob: str | None
    context: int
    max_matches: int
    rg: str | None


class Glob(Struct, frozen=True, tag="glob"):
    """List what lies below the folder that is open as descriptor *start*."""

    start: int
    above: tuple[IgnoreFile, ...]
    pattern: str
    max_paths: int


Request = Grep | Glob


class Line(Struct, frozen=True):
    number: int
    text: str
    is_match: bool


class FileMatches(Struct, frozen=True, tag="file"):
    """The matching lines of one file, with those around them."""

    path: str
    lines: tuple[Line, ...]


class Listed(Struct, frozen=True, tag="path"):
    """One file, or a folder (ends in "/")."""

    path: str


class Refused(Struct, frozen=True, tag="refused"):
    """The request cannot be carried out; *message* is for the model."""

    message: str


class End(Struct, frozen=True, tag="end"):
    """The last frame: how many files were looked at (by a grep) or found (by a glob)."""

    files: int
    is_cut: bool = False
    """Whether the search ended early because there was enough to show."""
    too_large: int = 0
    """How many of the files were not searched for their size."""
    too_slow: int = 0
    """How many of the files were given up, since the pattern took too long."""


Frame = FileMatches | Listed | Refused | End


def search(request: Request) -> Iterator[Frame]:
    """Carry out *request*; the last frame is a Refused or an End."""
    match request:
        case Grep():
            yield from _grep(request)
        case Glob():
            yield from _glob(request)


def _glob(request: Glob) -> Iterator[Frame]:
    try:
        patterns = expand(request.pattern)
    except ValueError as error:
        yield Refused(f"pattern: {error}")
        return
    depths = [depth_of(pattern) for pattern in patterns]
    deepest = None if None in depths else max(d for d in depths if d is not None)
    matches = _matcher(patterns)
    count = 0
    for found in walk(request.start, Rules.above(request.above), depth=deepest):
        # Folders are for looking around ("src/*"); "**" asks for files.
        if (found.is_folder and deepest is None) or not matches(found.path.rstrip("/")):
            continue
        count += 1
        if count <= request.max_paths:
            yield Listed(one_line(found.path))
    yield End(count, is_cut=count > request.max_paths)


def _matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    regexes = [to_regex(pattern) for pattern in patterns]
    return lambda path: any(regex.fullmatch(path) for regex in regexes)


def _grep(request: Grep) -> Iterator[Frame]:
    try:
        flags = re.IGNORECASE if request.ignore_case else 0
        regex = re.compile(request.pattern, flags)
        paths = _Paths(request)
    except (re.error, OverflowError, RecursionError) as error:
        yield Refused(
            f"pattern: no valid regular expression in Python's syntax: {error}. "
            "To look for the text itself, put a backslash before each of .^$*+?{}[]\\|()"
        )
        return
    except ValueError as error:
        yield Refused(f"glob: {error}")
        return
    left, room, too_slow = request.max_matches, SHOWN_CHARS, 0
    for path in paths:
        text = _read(request, path)
        try:
            with _limit():
                lines, found = search_text(text, regex, request.context, left, room)
        except _TooSlowError:
            too_slow += 1
            continue
        if lines:
            yield FileMatches(one_line(path), tuple(lines))
        left -= found
        room -= sum(len(line.text) + 8 for line in lines)
        if left < 0 or room < 0:
            break
    yield End(paths.files, left < 0 or room < 0, paths.too_large, too_slow)


class _TooSlowError(Exception):
    pass


@contextmanager
def _limit() -> Iterator[None]:
    """Raise _TooSlowError in the block after some time; `re` lets signals through."""

    def give_up(signum: int, frame: FrameType | None) -> None:
        raise _TooSlowError

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, FILE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _Paths:
    """The files to search, in order, without most of those that hold no match.

    They are counted as they come from the walk, so that the figures do not
    depend on ripgrep.
    """

    def __init__(self, request: Grep) -> None:
        self.files = 0
        self.too_large = 0
        self._request = request
        self._wanted = _glob_filter(request.glob)

    def __iter__(self) -> Iterator[str]:
        request = self._request
        if not request.is_folder:
            self.files = 1
            yield request.name
            return
        loose = loosened(request.pattern, ignore_case=request.ignore_case)
        if request.rg is None or loose is None:
            yield from self._walk()
            return
        # ripgrep is given paths from here.
        os.fchdir(request.start)
        yield from worth_a_look(
            self._walk(), request.rg, loose, ignore_case=request.ignore_case
        )

    def _walk(self) -> Iterator[str]:
        for found in walk(self._request.start, Rules.above(self._request.above)):
            if found.is_folder or not self._wanted(found.path):
                continue
            self.files += 1
            if found.size > FILE_BYTES:
                self.too_large += 1
            else:
                yield found.path


def _glob_filter(glob: str | None) -> Callable[[str], bool]:
    """Match like ripgrep's --glob: a name at any depth, or a path; "!" excludes."""
    if glob is None:
        return lambda path: True
    is_not = glob.startswith("!")
    patterns = expand(glob.removeprefix("!"))
    matches = _matcher(p if "/" in p.rstrip("/") else f"**/{p}" for p in patterns)
    return lambda path: matches(path) is not is_not


def _read(request: Grep, path: str) -> str:
    """Read a file as text; "" for one that is binary or cannot be read."""
    try:
        fd = request.start if not request.is_folder else open_found(request.start, path)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode) or is_secret(fd):
                return ""
            data = file.read(FILE_BYTES)
    except OSError:
        return ""
    # ripgrep does not know UTF-32, so nobody looks into it.
    if is_binary(data) or bom_of(data)[1].startswith("utf-32"):
        return ""
    return decode(data)


def search_text(
    text: str, regex: re.Pattern[str], context: int, most: int, room: int
) -> tuple[list[Line], int]:
    r"""Search *text* line by line; return lines to show and the number of matches.

    One match more than *most* may be counted, but is not shown. Lines end at
    ``\n``; a ``\r`` before it does not belong to the line. Ends when *room*
    characters are to be shown.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    shown: list[Line] = []
    found = 0
    follow = 0
    for index, raw in enumerate(lines):
        line = raw.removesuffix("\r")
        match = regex.search(line)
        if match is not None:
            found += 1
            if found > most or room < 0:
                break
            last = shown[-1].number if shown else 0
            shown += [
                _line(before, lines[before], 0, is_match=False)
                for before in range(max(index - context, last), index)
            ]
            shown.append(_line(index, line, match.start(), is_match=True))
            follow = context
        elif follow:
            follow -= 1
            shown.append(_line(index, line, 0, is_match=False))
        else:
            continue
        room -= len(shown[-1].text)
    return shown, found


def _line(index: int, line: str, match: int, *, is_match: bool) -> Line:
    line = line.removesuffix("\r")
    if len(line) > LINE_CHARS:
        start = max(0, min(match - LINE_CHARS // 4, len(line) - LINE_CHARS))
        end = start + LINE_CHARS
        clipped = line[start:end]
        line = f"{'…' if start else ''}{clipped}{'…' if end < len(line) else ''}"
    return Line(index + 1, clean(line.replace("\r", "␍")).text, is_match)
