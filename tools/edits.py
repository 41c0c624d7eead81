"""Replacing pieces of a text, all or none."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct

from tools.base import ToolError
from tools.closest import closest

MOST_PLACES = 10
"""Places an error lists."""
MOST_REPLACED = 100_000
"""Places that one edit replaces: of more not even the list has room."""
LARGEST = 20 * 1024 * 1024
"""Characters a text may have once it is edited: what replaces a letter may be long."""


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    old_text: Annotated[
        str, Meta(description="The text to replace, exactly as it is in the file.")
    ]
    new_text: Annotated[str, Meta(description="What to put in its place.")]
    replace_all: Annotated[
        bool, Meta(description="Replace every occurrence, not just a single one.")
    ] = False


def apply_edits(text: str, edits: Sequence[Edit]) -> tuple[str, int]:
    r"""Apply *edits* in order; return the new text and the number of replacements.

    A line break in an edit stands for ``\n`` and for ``\r\n``; what is put in
    has the line ends of what it replaces. Raises ToolError, which says which
    edit is wrong, where it would fit, and that nothing was changed.
    """
    original = text
    places = 0
    for number, edit in enumerate(edits, start=1):
        which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        try:
            text, replaced = _apply(text, edit, original)
        except ToolError as error:
            raise ToolError(f"nothing was changed: {which}{error}") from None
        places += replaced
    return text, places


def _apply(text: str, edit: Edit, original: str) -> tuple[str, int]:
    old = edit.old_text.replace("\r\n", "\n")
    new = edit.new_text.replace("\r\n", "\n") if "\n" in text else edit.new_text
    if not old:
        raise ToolError("old_text is empty; to write a whole file use write_file")
    if old == new:
        raise ToolError("old_text and new_text are the same")
    spans = list(islice(_find(text, old), MOST_REPLACED + 1))
    if not spans:
        raise ToolError(_not_found(text, old, original))
    if len(spans) > 1 and not edit.replace_all:
        raise ToolError(_ambiguous(text, spans))
    if len(spans) > MOST_REPLACED:
        raise ToolError(
            f"old_text is in the file more than {MOST_REPLACED:,} times: that is a"
            " change for a program"
        )
    parts, end, size = [], 0, len(text)
    crlf = text.count("\r\n") * 2 > text.count("\n")
    for start, stop in spans:
        if start < end:
            continue  # overlaps the one before, as "aa" does in "aaa"
        old_here = text[start:stop]
        ends_crlf = "\r\n" in old_here if "\n" in old_here else crlf
        put = new.replace("\n", "\r\n") if ends_crlf else new
        size += len(put) - (stop - start)
        if size > LARGEST:
            raise ToolError(
                f"the file would become too large, more than {LARGEST:,} characters"
            )
        parts += [text[end:start], put]
        end = stop
    parts.append(text[end:])
    return "".join(parts), len(parts) // 2


def _find(text: str, old: str) -> Iterator[tuple[int, int]]:
    """Give every place of *old*, overlapping ones too."""
    if "\r\n" in text and "\n" in old:
        pattern = re.escape(old).replace("\\\n", "\r?\n")
        regex = re.compile(pattern)
        found = regex.search(text)
        while found:
            yield found.span()
            found = regex.search(text, found.start() + 1)
        return
    start = text.find(old)
    while start >= 0:
        yield start, start + len(old)
        start = text.find(old, start + 1)


def _not_found(text: str, old: str, original: str) -> str:
    if text != original and next(_find(original, old), None) is not None:
        return (
            "old_text was in the file until an edit before it changed that place "
            "(they overlap): make one edit of the two"
        )
    return f"old_text is not in the file. {closest(text, old)}"


def _ambiguous(text: str, spans: list[tuple[int, int]]) -> str:
    lines, line, end = [], 1, 0
    for start, _ in spans[:MOST_PLACES]:
        line += text.count("\n", end, start)
        end = start
        lines.append(str(line))
    more = ", …" if len(spans) > MOST_PLACES else ""
    often = f"more than {MOST_REPLACED:,}" if len(spans) > MOST_REPLACED else len(spans)
    return (
        f"old_text is in the file {often} times, at lines {', '.join(lines)}{more}: "
        "take in more of the text around the one you mean, or set replace_all"
    )
