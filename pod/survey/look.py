"""Looking at one file: the calls for it, and what is seen in their answers."""

import re

from msgspec import Struct

from pod.survey.kinds import kind_by_name, kind_of
from pod.survey.languages import search_pattern
from pod.survey.listing import LONG_BYTES, Listed
from pod.survey.transcript import Call, Result, arguments
from tools.text import one_line

WHOLE_BYTES = 6_000
"""Files up to this size are read whole; of longer ones about so much."""

LEAST_LINES = 3
MOST_LINES = 80
UNKNOWN_LINES = 40
"""How much is read of a file whose lines nobody has counted."""

MOST_MATCHES = 200
MATCH_BYTES = 400
"""What grep shows of a line at most."""
NUMBER_BYTES = 5
"""A line's number and what stands behind it."""


class Seen(Struct, frozen=True):
    """What is known of a file: some or all of its lines, by number.

    *problem* says why nothing is; *is_partial* that a part was not looked at.
    """

    kind: str
    lines: tuple[tuple[int, str], ...] = ()
    total: int = 0
    problem: str = ""
    is_partial: bool = False


def read_call(file: Listed) -> Call:
    """Return the call that reads *file*, or its beginning."""
    if file.size is not None and file.size <= WHOLE_BYTES:
        return Call("read_file", arguments(path=file.path))
    limit = UNKNOWN_LINES
    if file.size is not None and file.lines is not None:
        line = max(file.size // (file.lines + 1), 1)
        limit = min(max(WHOLE_BYTES // line, LEAST_LINES), MOST_LINES)
    return Call("read_file", arguments(path=file.path, limit=limit))


def search_call(file: Listed) -> Call | None:
    """Return the call that searches the rest of *file*; None: there is none."""
    size = file.size
    if size is None or size <= WHOLE_BYTES or size > LONG_BYTES:
        return None
    kind = kind_by_name(file.path)
    more = {"ignore_case": True} if kind == "SQL" else {}
    pattern = search_pattern(kind)
    return Call(
        "grep",
        arguments(path=file.path, pattern=pattern, max_matches=MOST_MATCHES, **more),
    )


def calls_for(file: Listed) -> list[Call]:
    """Return all calls that a look at *file* takes."""
    search = search_call(file)
    return [read_call(file)] if search is None else [read_call(file), search]


def cost_of(file: Listed) -> int:
    """Return how many bytes the answers to these calls have, about."""
    if file.size is None:
        return WHOLE_BYTES // 2
    if search_call(file) is None:
        return min(file.size, WHOLE_BYTES)
    line = MATCH_BYTES
    if file.lines is not None:
        line = min(file.size // (file.lines + 1) + NUMBER_BYTES, MATCH_BYTES)
    return WHOLE_BYTES + min(file.size - WHOLE_BYTES, MOST_MATCHES * line)


def seen_in(file: Listed, read: Result, search: Result | None) -> Seen:
    """Return what the answers tell of *file*."""
    if problem := _problem(file, read):
        return Seen(kind_by_name(file.path), problem=problem)
    lines = dict(_numbered(read.text))
    total = max(lines, default=0)
    is_partial = False
    if told := _TOTAL.search(_notes(read.text)):
        total = int(told[1])
        is_partial = search is None
    if search is not None:
        found = dict(_matches(search))
        lines = found | lines
        is_partial = search.is_error or "[there are more matches" in search.text
    kind = kind_of(file.path, lines.get(1, ""))
    return Seen(kind, tuple(sorted(lines.items())), total, "", is_partial)


_NUMBERED = re.compile(r" *(\d+)\t(.*)", re.DOTALL)
_MATCH = re.compile(r"(\d+):(.*)", re.DOTALL)
_TOTAL = re.compile(r"lines \d+-\d+ of (?:more than )?(\d+)")
_NO_TEXT = re.compile(r"is no text \((.+?), \d+ bytes\)")


def _numbered(text: str) -> list[tuple[int, str]]:
    r"""Return the lines in read_file's answer.

    Each line of the file has its number before it, so that nothing inside a
    file can pass for another line or for a note.
    """
    found = [_NUMBERED.fullmatch(line) for line in text.split("\n")]
    return [(int(m[1]), m[2]) for m in found if m]


def _notes(text: str) -> str:
    last = text.rpartition("\n")[2]
    return last if last.startswith("[") else ""


def _matches(result: Result) -> list[tuple[int, str]]:
    if result.is_error:
        return []
    found = [_MATCH.fullmatch(line) for line in result.text.split("\n")[1:]]
    return [(int(m[1]), m[2]) for m in found if m]


def _problem(file: Listed, read: Result) -> str:
    if read.has_image:
        return "a picture"
    if not read.is_error:
        return ""
    if told := _NO_TEXT.search(read.text):
        return "binary" if told[1] == "binary" else f"binary ({told[1]})"
    if read.text.startswith("no such file"):
        return "there is no such file any more, or its name cannot be told to a tool"
    text = read.text.removeprefix(f"{one_line(file.path)}: ")
    return " ".join(text.split())[:150]
