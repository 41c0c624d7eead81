"""What a summary must be, and what is wrong with one."""

from collections.abc import Callable

from msgspec import Struct

HEADINGS = (
    "## Completed Tasks",
    "## Active Task",
    "## Key Decisions",
    "## User Directives",
    "## Current Work",
)
DIRECTIVES = "## User Directives"


class Judged(Struct, frozen=True):
    """A summary as it was written, its tokens and their cap, and what is wrong.

    *problems* are for the model; being too large is not among them.
    """

    text: str
    tokens: int
    cap: int
    problems: tuple[str, ...]

    @property
    def is_too_large(self) -> bool:
        return self.tokens > self.cap

    @property
    def is_valid(self) -> bool:
        return not self.problems and not self.is_too_large


def judge(text: str, *, cap: int, count: Callable[[str], int]) -> Judged:
    """Judge a summary; *cap* is the most tokens it may have.

    Each of HEADINGS is a line of its own, once, in their order, and the last
    section says something: one that was cut off has lost it.
    """
    return Judged(text, tokens=count(text), cap=cap, problems=tuple(_problems(text)))


def sections(text: str) -> dict[str, str]:
    """Return the lines below each of HEADINGS, up to the next one.

    Where a heading stands twice, the last one counts.
    """
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if (heading := _heading(line)) is not None:
            current = found[heading] = []
        else:
            current.append(line)
    return {heading: "\n".join(lines) for heading, lines in found.items()}


def is_heading(line: str) -> bool:
    """Whether *line* is one of HEADINGS."""
    return _heading(line) is not None


def _heading(line: str) -> str | None:
    stripped = line.rstrip().rstrip(":")
    return stripped if stripped in HEADINGS else None


def _problems(text: str) -> list[str]:
    if not text.strip():
        return ["it is empty"]
    there = [h for line in text.splitlines() if (h := _heading(line)) is not None]
    missing = [heading for heading in HEADINGS if heading not in there]
    problems = []
    if missing:
        problems.append(f"these headings are missing: {', '.join(missing)}")
    twice = sorted({h for h in there if there.count(h) > 1}, key=HEADINGS.index)
    if twice:
        problems.append(f"these headings stand more than once: {', '.join(twice)}")
    if not twice and there != sorted(there, key=HEADINGS.index):
        problems.append(f"the headings are out of order; it is {', '.join(HEADINGS)}")
    found = sections(text)
    if not missing and not found[HEADINGS[-1]].strip():
        problems.append(f"nothing stands below {HEADINGS[-1]}; was it cut off?")
    return problems
