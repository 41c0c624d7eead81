"""File name patterns: ``*``, ``?``, ``[…]``, ``**``, ``{a,b}``."""

import re
from collections.abc import Iterator
from itertools import count

from tools.pattern_set import read_set

MOST_ALTERNATIVES = 200

_WILD = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def expand(pattern: str) -> list[str]:
    """Write a pattern with ``{a,b}`` as several without.

    Raises ValueError where that gives more than 200.
    """
    done, todo = [], [pattern]
    while todo:
        braces = _BRACES.search(current := todo.pop())
        if braces is None:
            done.append(current)
            continue
        before, after = current[: braces.start()], current[braces.end() :]
        todo += [before + inner + after for inner in reversed(braces[1].split(","))]
        if len(done) + len(todo) > MOST_ALTERNATIVES:
            raise ValueError(f"over {MOST_ALTERNATIVES} alternatives in {{…}}")
    return list(dict.fromkeys(done))


def split_base(pattern: str) -> tuple[str, str]:
    """Split the folders without wildcards off the beginning of a pattern."""
    parts = pattern.split("/")
    plain = 0
    while plain < len(parts) - 1 and not _WILD.search(parts[plain]):
        plain += 1
    base = "/".join(parts[:plain])
    if plain and not base and pattern.startswith("/"):
        base = "/"
    return base, "/".join(parts[plain:])


def depth_of(pattern: str) -> int | None:
    """Return how many folders deep a match lies at most; None where any deep."""
    parts = _parts(pattern)
    return None if "**" in parts else len(parts)


def to_regex(pattern: str) -> re.Pattern[str]:
    """Translate a pattern (without braces) for paths relative to where it begins.

    ``**`` stands for any number of folders, also none; ``*``, ``?`` and
    ``[…]`` stay within a name. Match with ``fullmatch``.
    """
    parts = _parts(pattern)
    if pattern.endswith("/") and parts[-1:] != ["**"]:
        parts.append("**")
    number = count()
    runs: list[str] = [""]
    for index, part in enumerate(parts):
        if part == "**":
            runs.append("")
        else:
            is_last = index == len(parts) - 1
            runs[-1] += _segment(part, number) + ("" if is_last else "/")
    first, *middle, last = runs if len(runs) > 1 else [*runs, ""]
    pieces = [first, *(_first_of(f"(?:[^/]+/)*?{run}", number) for run in middle)]
    if len(runs) > 1:
        pieces.append(f"(?:[^/]+/)*{last}" if last else ".+")
    return re.compile("".join(pieces), re.DOTALL)


def _parts(pattern: str) -> list[str]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    # "**/**" says no more than "**" and would make the search slow.
    return [p for i, p in enumerate(parts) if p != "**" or parts[i - 1 : i] != ["**"]]


def _segment(part: str, number: Iterator[int]) -> str:
    """Translate one name; *number* numbers groups."""
    runs: list[str] = [""]  # between the stars
    has_sets = True
    index = 0
    while index < len(part):
        char = part[index]
        index += 1
        if char == "*":
            runs += [""] if runs[-1] or len(runs) == 1 else []
        elif char == "?":
            runs[-1] += "[^/]"
        elif char == "[" and has_sets and (found := read_set(part, index)):
            regex, index = found
            runs[-1] += regex
        elif char == "\\" and index < len(part):
            runs[-1] += re.escape(part[index])
            index += 1
        else:
            has_sets = has_sets and char != "["  # no "]" behind this one is its own
            runs[-1] += re.escape(char)
    if len(runs) == 1:
        return runs[0]
    first, *middle, last = runs
    shortest = (_first_of(f"[^/]*?{run}", number) for run in middle)
    return "".join([first, *shortest, f"[^/]*{last}"])


def _first_of(regex: str, number: Iterator[int]) -> str:
    """Match *regex* in the first way there is, and in no other.

    What comes later can only gain by it, and five stars need not be tried in all
    ways: a long name would take for ever. (As an atomic group it would be shorter,
    see tests/test_patterns.py.)
    """
    name = f"g{next(number)}"
    return f"(?=(?P<{name}>{regex}))(?P={name})"
