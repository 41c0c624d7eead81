"""Where a text that is not in a file would nearly fit, and what is different."""

import difflib
import re

SEARCHED_CHARS = 2_000_000
"""In longer texts nothing is looked for: it would take seconds."""

SEARCHED_LINES = 20_000
MOST_LINES = 20
MOST_CHARS = 300

_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
_BLANKS = re.compile(r"[^\S\n]+")
_INDENT = re.compile(r"^[^\S\n]+|[^\S\n]+$", re.MULTILINE)
_TYPOGRAPHIC = str.maketrans(
    "\u2018\u2019\u201a\u201b\u2032\u201c\u201d\u201e\u201f\u2033"
    "\u2010\u2011\u2012\u2013\u2014\u2212\u00a0",
    "'" * 5 + '"' * 5 + "-" * 6 + " ",
)
"""Typographic quotes, primes, hyphens, dashes and the fixed blank."""


def closest(text: str, old: str) -> str:
    """Say where *old* would fit in *text* but for small things, and show the lines.

    In words for the model; *old* is known not to be there as it is.
    """
    if len(text) > SEARCHED_CHARS:
        return "Read the place again with read_file"
    text = text.replace("\r\n", "\n")
    unnumbered = _NUMBERED.sub("", old)
    if unnumbered != old and unnumbered in text:
        return "It is there without the line numbers: leave them out"
    unescaped = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    if unescaped != old and unescaped in text:
        return 'It is there with \\n, \\t or \\" unescaped: it was escaped twice'
    for difference, folded_text, folded_old in _foldings(text, old):
        index = folded_text.find(folded_old) if folded_old.strip() else -1
        if index >= 0:
            line = folded_text.count("\n", 0, index)
            count = folded_old.count("\n") + 1
            return f"{_place(line, count)} differs in {difference} only:\n" + _show(
                text.split("\n"), line, count
            )
    return _likest(text.split("\n"), old.strip("\n").split("\n"))


def _foldings(text: str, old: str) -> list[tuple[str, str, str]]:
    """Return both texts with more and more differences taken away; no line moves."""
    steps = []
    differences = []
    for difference, fold in (
        ("indentation or trailing blanks", lambda s: _INDENT.sub("", s)),
        ("blanks", lambda s: _BLANKS.sub(" ", s)),
        ("quotes, dashes or blanks", lambda s: s.translate(_TYPOGRAPHIC)),
        ("upper and lower case", str.casefold),
    ):
        text, old = fold(text), fold(old)
        differences.append(difference)
        steps.append((difference, text, old))
    return steps


def _likest(lines: list[str], wanted: list[str]) -> str:
    """Find the line most like the longest one that is wanted."""
    longest = max(wanted, key=lambda line: len(line.strip()))
    stripped = [line.strip()[:MOST_CHARS] for line in lines[:SEARCHED_LINES]]
    found = difflib.get_close_matches(longest.strip()[:MOST_CHARS], stripped, n=1)
    if not found or not found[0]:
        return "Nothing in it is like it: read the file again"
    start = max(stripped.index(found[0]) - wanted.index(longest), 0)
    return f"{_place(start, len(wanted))} is most like it:\n" + _show(
        lines, start, len(wanted)
    )


def _place(line: int, count: int) -> str:
    return f"Line {line + 1}" if count == 1 else f"What begins at line {line + 1}"


def _show(lines: list[str], start: int, count: int) -> str:
    shown = lines[start : start + min(count, MOST_LINES)]
    return "\n".join(
        f"{number:>6}\t{line[:MOST_CHARS]}"
        for number, line in enumerate(shown, start=start + 1)
    )
