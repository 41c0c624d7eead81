"""The user's words in a summary: what is quoted must have been said."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from msgspec import Struct

from worker.compact.escape import unescape
from worker.compact.summary import DIRECTIVES, is_heading
from worker.content import clean

_CLOSERS = {"“": "”", '"': '"', "「": "」"}
_MARKS = re.compile('[“”"「」]')
_ELLIPSIS = re.compile(r"\s*[\[(]?(?:…|\.\.\.+)[\])]?\s*")
_BULLET = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s")
_ALIKE = {ord(mark): '"' for mark in "“”„"} | {0x2018: "'", 0x2019: "'"}
_TRAILING = ".,;:!?。、"
_ENDINGS = ".,;!?)]…。"
"""What a straight quotation mark stands behind when it closes."""

MANY_MARKS = 60
"""Quotation marks of one line up to which every way to pair them is tried.

With more, each is paired with the next that fits, and the first with the last."""


class Checked(Struct, frozen=True):
    """A summary without the lines whose quotation nobody said, and those quotations."""

    summary: str
    dropped: tuple[str, ...]


class Sources:
    """Texts that may be quoted: the user's, the directives, the earlier summary."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(dict.fromkeys(fold(text) for text in texts))

    def holds(self, quote: str) -> bool:
        """Whether one text holds *quote*, or its parts between ellipses in order."""
        folded = fold(quote)
        whole = (folded, folded.rstrip(_TRAILING).rstrip())
        if any(form in text for form in whole for text in self._texts):
            return True
        parts = [part for part in _ELLIPSIS.split(folded) if part]
        if len(parts) == 1:
            parts = [parts[0].rstrip(_TRAILING)]
        return any(_in_order(parts, text) for text in self._texts)


def fold(text: str) -> str:
    """Return *text* as it is compared: NFC, white space as one blank each.

    Escapes are undone, and typographic quotation marks and apostrophes count
    as the plain ones, since models change one into the other.
    """
    composed = unicodedata.normalize("NFC", unescape(clean(text)))
    return " ".join(composed.translate(_ALIKE).split())


def check_quotes(summary: str, sources: Sequence[str]) -> Checked:
    """Drop from the User Directives those lines that quote what is in no source.

    A line means a list entry with the lines that continue it. Lines without a
    quotation stay: they are paraphrases.
    """
    said = Sources(sources)
    kept: list[str] = []
    dropped: list[str] = []
    for is_directive, entry in _entries(summary):
        false = first_false_quote("".join(entry), said) if is_directive else None
        if false is None:
            kept += entry
        else:
            dropped.append(false)
            kept += _blank_end(entry)
    return Checked("".join(kept), tuple(dropped))


def _blank_end(lines: Sequence[str]) -> Sequence[str]:
    """Return the blank lines at the end of *lines*."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[end:]


def _entries(summary: str) -> list[tuple[bool, list[str]]]:
    """Part *summary* into list entries of the directives, and all other lines."""
    entries: list[tuple[bool, list[str]]] = []
    is_inside = False
    for line in summary.splitlines(keepends=True):
        if is_heading(line):
            is_inside = line.strip().rstrip(":") == DIRECTIVES
            entries.append((False, [line]))
        elif not is_inside:
            entries.append((False, [line]))
        elif _BULLET.match(line) or not entries[-1][0]:
            entries.append((True, [line]))
        else:
            entries[-1][1].append(line)
    return entries


def quotable(summary: str) -> list[str]:
    """Return what of an earlier summary may be quoted: what it quotes as directives.

    Nothing else of it: a quotation in another section may be of a file, and a
    paraphrase that is quoted would put its words into the user's mouth.
    """
    entries = ("".join(lines) for inside, lines in _entries(summary) if inside)
    return [quote for entry in entries for quote in _quotations(entry)]


def _quotations(entry: str) -> Iterator[str]:
    """Give what stands between quotation marks; of marks inside others the outer."""
    marks = [match.start() for match in _MARKS.finditer(entry)]
    index = 0
    while index < len(marks):
        end = _end(entry, marks, index) if _opens(entry, marks[index]) else None
        if end is not None:
            yield entry[marks[index] + 1 : marks[end]]
        index = index + 1 if end is None else end + 1


def _end(entry: str, marks: Sequence[int], opener: int) -> int | None:
    """Return which mark closes the one at *opener*: the next, but those inside."""
    mark = entry[marks[opener]]
    depth = 0
    for index in range(opener, len(marks)):
        if index > opener and entry[marks[index]] == _CLOSERS[mark]:
            depth -= 1
            if depth == 0:
                return index
        elif entry[marks[index]] == mark:
            depth += 1
    return None


def first_false_quote(entry: str, said: Sources) -> str | None:
    """Return a quotation of *entry* that *said* does not hold, None if all are held.

    What is quoted may hold quotation marks itself, so marks are paired in
    every way that makes sense; one in which all is held is enough.
    """
    marks = [match.start() for match in _MARKS.finditer(entry)]
    false: list[str | None] = [None] * (len(marks) + 2)
    """For each mark: the false quotation found from it on."""
    for index in range(len(marks) - 1, -1, -1):
        if not _opens(entry, marks[index]):
            false[index] = false[index + 1]
            continue
        for end in _ends(entry, marks, index):
            quote = entry[marks[index] + 1 : (*marks, len(entry))[end]]
            false[index] = false[end + 1] if said.holds(quote) else quote
            if false[index] is None:
                break
    return false[0]


def _ends(entry: str, marks: Sequence[int], opener: int) -> list[int]:
    """Return which marks may close the one at *opener*, the last one first.

    Where none is of its kind, any may, and the end of the entry.
    """
    later = range(opener + 1, len(marks))
    closer = _CLOSERS[entry[marks[opener]]]
    if len(marks) > MANY_MARKS:
        following = (i for i in later if entry[marks[i]] == closer)
        ends = [next(following, len(marks))]
        return [len(marks) - 1, *ends] if opener == 0 else ends
    ends = [i for i in later if entry[marks[i]] == closer] or [*later, len(marks)]
    return ends[::-1]


def _opens(entry: str, at: int) -> bool:
    """Whether the mark at *at* may begin a quotation: no closer, no inch mark."""
    if entry[at] not in _CLOSERS:
        return False
    if entry[at] != '"' or at == 0:
        return True
    before, after = entry[at - 1], entry[at + 1 : at + 2]
    closes = before.isalnum() or before in _ENDINGS
    return not (before.isdecimal() or (closes and not after.isalnum()))


def _in_order(parts: Sequence[str], text: str) -> bool:
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True
