"""The survey's compact worker: reads, marks and writes as a model would.

It knows no more than it is given: the record, the earlier summary, the
directives, and what it reads. What it writes of them is true.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from pod.survey.markdown import code
from pod.survey.transcript import Made, Transcript, arguments
from worker.api import Request, Text
from worker.policy import Reply, assistant_turns, call, say

TOOL = "write_summary"
"""Only compact workers are offered it: for worker.policy.Route."""

READ_LINES = 40
"""Lines read of a file, and marked of the one that is worked on."""

MOST_NAMED = 40
"""Files that a summary names; of more it tells how many."""


class Compact:
    """Writes the summary of a survey, or of any session, from its record.

    First it looks into the files used last, then it marks the end of the one that
    is being written, then it writes. Every step follows from the request alone.
    """

    def reply(self, request: Request) -> Reply:
        """Decide the next step from *request* alone."""
        given = _given(request)
        match assistant_turns(request):
            case 0 if given.files:
                return _look(given)
            case 1 if given.files:
                return _mark(given, Transcript(request).made)
            case _ if any(m.call.name == TOOL for m in Transcript(request).made):
                return say("The summary is written.")
            case turn:
                text = arguments(text=summary_of(given))
                return call((f"toolu_compact_{turn}_0", TOOL, text))


class _Given(Struct, frozen=True):
    """What the task says; *files*: the one that is worked on first."""

    record: Sequence[tuple[str, str]]
    previous: str
    directives: Sequence[str]
    files: Sequence[str]


def _given(request: Request) -> _Given:
    text = "".join(b.text for b in request.messages[0].content if isinstance(b, Text))
    found = [_FILE.fullmatch(line) for line in _between(text, "default-references")]
    entries = [_ENTRY.fullmatch(line) for line in _between(text, "record")]
    record = [(match[1], match[2]) for match in entries if match]
    said = [line for line in _between(text, "user-directives") if line[:2] == "- "]
    files = [*_written(record)[-1:], *(match[1] for match in found if match)]
    return _Given(
        record=record,
        previous="\n".join(_between(text, "previous-summary")),
        directives=[line[2:] for line in said],
        files=list(dict.fromkeys(files)),
    )


def _written(record: Sequence[tuple[str, str]]) -> list[str]:
    """Return the files that were written, once for each time."""
    found = (_WROTE.match(text) for kind, text in record if kind.startswith("tool "))
    return [match[1] for match in found if match]


def _between(text: str, tag: str) -> list[str]:
    """Return the lines of *text* between the tags *tag*."""
    inside = text.partition(f"<{tag}>\n")[2]
    return inside.partition(f"\n</{tag}>")[0].split("\n")


def _look(given: _Given) -> Reply:
    """Read the beginning of the files: it says how long they are."""
    asked = [arguments(path=path, limit=READ_LINES) for path in given.files]
    return call(
        *((f"toolu_compact_0_{n}", "read_file", a) for n, a in enumerate(asked))
    )


def _mark(given: _Given, read: Sequence[Made]) -> Reply:
    """Mark the end of the first file that could be read."""
    for path, made in zip(given.files, read, strict=False):
        if made.result is None or made.result.is_error:
            continue
        # A line of the file has its number before it; the last may be a note.
        told = _TOTAL.search(made.result.text.rpartition("\n[")[2])
        first = max(int(told[1]) - READ_LINES + 1, 1) if told else 1
        marked = arguments(path=path, offset=first, limit=READ_LINES)
        return call(("toolu_compact_1_0", "mark_read_required", marked))
    text = arguments(text=summary_of(given))
    return call(("toolu_compact_1_0", TOOL, text))


def summary_of(given: _Given) -> str:
    """Return a summary that says what the record and the earlier summary say."""
    results = [text for kind, text in given.record if kind.startswith("tool ")]
    read = list(dict.fromkeys(m[1] for t in results if (m := _READ.match(t))))
    wrote = _written(given.record)
    before = _number(_BEFORE, given.previous)
    done = [f"- Read {_count(before + len(read), 'file')}; read again counts again."]
    if read:
        names = ", ".join(map(code, read[:MOST_NAMED]))
        more = len(read) - MOST_NAMED
        also = f" and {more} more" if more > 0 else ""
        done.append(f"- Read since the summary before this one: {names}{also}.")
    writes = _number(_WRITES, given.previous) + len(wrote)
    where = f"; the last one into {code(wrote[-1])}" if wrote else ""
    done.append(f"- Written {_count(writes, 'time')}{where}.")
    quoted = [f"- “{line}” — still holds" for line in given.directives]
    said = [text for kind, text in given.record if kind == "assistant"]
    last = code(said[-1]) if said else "Nothing was said in the record."
    return "\n".join(
        [
            "## Completed Tasks",
            "### looking at files",
            *done,
            "",
            "## Active Task",
            "### what the user asked for",
            "- Goal: the user's own words stand behind this summary.",
            "- Not done: whatever is not in the file that was written last.",
            "- Next: list the files again, and read back what is written.",
            "",
            "## Key Decisions",
            "- What is on the disk is what counts: it is read back, not remembered.",
            "",
            "## User Directives",
            *quoted,
            "",
            "## Current Work",
            f"The last thing said before the cut: {last}",
        ]
    )


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return int(found[1]) if found else 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_FILE = re.compile(r"- (.*) \(\d+ bytes, about \d+ tokens; .*\)")
_ENTRY = re.compile(r"\[\d+\] (user|assistant|system|tool [^:]*): (.*)")
_READ = re.compile(r"read (.*) lines \d+-\d+ of ")
_WROTE = re.compile(r"(?:edited|created|overwrote) (.*) \(\d+ (?:replacement|line)")
_TOTAL = re.compile(r"lines \d+-\d+ of (\d+)")
_BEFORE = re.compile(r"^- Read (\d+) files?; read again", re.MULTILINE)
_WRITES = re.compile(r"^- Written (\d+) times?", re.MULTILINE)
