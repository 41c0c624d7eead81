"""Lines of a file as they are put in front of the model after a compaction."""

import hashlib
from collections.abc import Callable, Iterator

from msgspec import Struct

from tools.base import ToolError
from tools.page import Page
from tools.read_file import as_utf_8, chunks, fill
from tools.scope import Scope, read_up_to
from tools.text import binary_kind, clean, is_binary

BYTES_PER_TOKEN = 16
"""Most bytes read per token of a budget: text has 3 to 5, blanks have more."""

_START_BYTES = 1024 * 1024
_ALL_LINES = 2**62


class FileLines(Struct, frozen=True):
    """A file's lines as they are now, in UTF-8, without their numbers.

    *path* is absolute, *shown* as a model is told it. *start* and *end* are the
    lines there are (1-based, both included), None for the whole file. *is_cut*:
    there was more than was asked for at most, and *text* is only its beginning.
    *sha256* is of the whole file's bytes, "" where that is too large to read.
    """

    path: str
    shown: str
    start: int | None
    end: int | None
    text: str
    sha256: str
    is_cut: bool


def read_lines(
    scope: Scope,
    path: str,
    start: int | None,
    end: int | None,
    *,
    max_bytes: int,
    check: Callable[[], None],
) -> FileLines:
    """Read lines *start* to *end* of *path*, to its ends where they are None.

    Blocks; *check* is called again and again meanwhile, and may raise to stop
    it. Raises ToolError for what is no text file in scope, has no such lines,
    or is empty.
    """
    opened = scope.open_read(path)
    shown = scope.shown(opened.path)
    first = start or 1
    limit = _ALL_LINES if end is None else max(end - first + 1, 1)
    page = Page(first, limit, max_bytes=max_bytes, max_line_bytes=max_bytes)
    digest = hashlib.sha256()

    def hashed(pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            check()
            digest.update(piece)
            yield piece

    try:
        with opened.file:
            head = read_up_to(opened.file, _START_BYTES)
            if is_binary(head):
                raise ToolError(
                    f"{shown} is no text ({binary_kind(head)}, {opened.size} bytes):"
                    " it cannot be put in front of the model. Name it with"
                    " add_reference instead."
                )
            is_whole = fill(page, as_utf_8(hashed(chunks(opened, head))), shown)
    except OSError as error:
        raise ToolError(f"{shown}: {error.strerror}") from error
    if not page.lines:
        raise ToolError(_nothing(page, shown, first))
    last = page.lines[-1].number
    is_clipped = any(line.size > len(line.text) for line in page.lines)
    raw = b"\n".join(line.text for line in page.lines)
    is_all = first == 1 and (end is None or (is_whole and last == page.total))
    return FileLines(
        path=opened.path,
        shown=shown,
        start=None if is_all else first,
        end=None if is_all else last,
        text=clean(raw.decode("utf-8", "replace")).text,
        sha256=digest.hexdigest() if is_whole else "",
        is_cut=is_clipped or last < min(page.total, first + limit - 1),
    )


def _nothing(page: Page, shown: str, first: int) -> str:
    if page.total:
        return f"offset {first} is beyond the end: {shown} has {page.total} lines"
    return f"{shown} is empty: there is nothing to mark. add_reference names it."
