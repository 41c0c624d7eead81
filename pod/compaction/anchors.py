"""Facts that prose loses, picked out of a history by their shape."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from worker.items import AssistantText, Item, ToolResult

PIECE = 8_000
"""Characters looked at from each end of a text."""

MOST_ITEMS = 300
"""Texts looked at, newest first."""

LINE = 200
"""Characters of an error line that are kept."""


class Anchors(Struct, frozen=True):
    """Facts word for word, the most recent first, none twice.

    *places* are files with lines, *ids* hashes and numbers of issues, *figures*
    numbers with units, *errors* lines of tool output that tell of one.
    """

    places: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def anchors_of(items: Sequence[Item], *, most: int = 20) -> Anchors:
    """Return up to *most* facts of each kind out of answers and tool results."""
    places: dict[str, None] = {}
    ids: dict[str, None] = {}
    figures: dict[str, None] = {}
    errors: dict[str, None] = {}
    for item, text in _texts(items):
        for word in _WORD.findall(text):
            word = word.rstrip(".:")
            if _PLACE.fullmatch(word):
                places[word] = None
            elif _is_id(word):
                ids[word] = None
        figures |= dict.fromkeys(_FIGURE.findall(text))
        if isinstance(item, ToolResult) and len(errors) < most:
            errors |= dict.fromkeys(_error_lines(text))
    return Anchors(
        places=tuple(places)[:most],
        ids=tuple(ids)[:most],
        figures=tuple(figures)[:most],
        errors=tuple(errors)[:most],
    )


def _texts(items: Sequence[Item]) -> Iterator[tuple[Item, str]]:
    """Give texts, newest first, of each no more than its two ends."""
    found = 0
    for item in reversed(items):
        if isinstance(item, AssistantText):
            text = item.text
        elif isinstance(item, ToolResult):
            text = item.summary if item.content is None else item.content
        else:
            continue
        if len(text) > 2 * PIECE:
            text = f"{text[:PIECE]}\n{text[-PIECE:]}"
        yield item, text
        found += 1
        if found == MOST_ITEMS:
            return


def _is_id(word: str) -> bool:
    if _ISSUE.fullmatch(word) or _UUID.fullmatch(word):
        return True
    # A hash has both; a number or a word has one of them.
    return bool(
        _HASH.fullmatch(word)
        and any(map(str.isdigit, word))
        and any(map(str.isalpha, word))
    )


def _error_lines(text: str) -> Iterator[str]:
    """Give the lines that tell of an error, the last first: it is most often why."""
    for line in reversed(text.split("\n")):
        if _ERROR.search(line[:LINE]) and not _NO_ERROR.search(line[:LINE]):
            yield " ".join(line[:LINE].split())


_WORD = re.compile(r"[^\s,;()\[\]{}\"'`<>=|]{3,200}")
_PLACE = re.compile(r"[\w.@~+/-]*\w\.\w{1,8}:\d{1,7}(?:[-:]\d{1,7})?")
_HASH = re.compile(r"[0-9a-f]{7,40}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ISSUE = re.compile(r"#\d{1,7}|[A-Z][A-Z0-9]{1,9}-\d{1,6}")
_FIGURE = re.compile(
    r"(?<![\w.])\d[\d_,.]{0,14}\s?(?:ms|s|min|h|%|[kKMG]i?B|bytes|tokens|lines|MHz|GHz)"
    r"(?!\w)"
)
_ERROR = re.compile(
    r"\b(?:\w*error|\w*exception|failed|failure|fatal|panic|traceback|denied)\b",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(r"\b(?:0|no) (?:errors?|failures?|failed)\b", re.IGNORECASE)
