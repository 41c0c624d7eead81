"""What a change did to a text, in few lines."""

import difflib
from collections.abc import Iterable
from itertools import takewhile

CONTEXT_LINES = 2
MOST_LINES = 80
MOST_CHARS = 300
_MOST_COMPARED = 500
"""Lines that changed as a whole; beyond, comparing them would take seconds."""


def diff(old: str, new: str) -> str:
    """Return the changed lines with their numbers, old ones "-", new ones "+".

    Bounded: a large change is shown in part, or only told.
    """
    if old.endswith("\n") and new.endswith("\n"):
        old, new = old[:-1], new[:-1]
    before, after = old.split("\n"), new.split("\n")
    same = _common(before, after)
    rest = min(len(before), len(after)) - same
    end = min(_common(reversed(before), reversed(after)), rest)
    start = max(same - CONTEXT_LINES, 0)
    before = before[start : len(before) - max(end - CONTEXT_LINES, 0)]
    after = after[start : len(after) - max(end - CONTEXT_LINES, 0)]
    if max(len(before), len(after)) > _MOST_COMPARED:
        return f"{len(before)} lines from line {start + 1} on are now {len(after)}"
    shown = _changes(before, after, start + 1)
    if len(shown) > MOST_LINES:
        shown = [*shown[:MOST_LINES], f"… and {len(shown) - MOST_LINES} more lines"]
    return "\n".join(shown)


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    """Return how many lines are the same at the beginning of both."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _changes(before: list[str], after: list[str], first: int) -> list[str]:
    shown: list[str] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        if shown:
            shown.append("   …")
        for tag, a, a_end, b, b_end in group:
            if tag == "equal":
                shown += _lines(" ", after[b:b_end], first + b)
            else:
                shown += _lines("-", before[a:a_end], first + a)
                shown += _lines("+", after[b:b_end], first + b)
    return shown


def _lines(sign: str, lines: list[str], first: int) -> list[str]:
    return [
        f"{sign}{number:>6}\t{line.removesuffix(chr(13))[:MOST_CHARS]}"
        for number, line in enumerate(lines, start=first)
    ]
