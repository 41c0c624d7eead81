"""The tool that reads a file: some of its lines, or a picture."""

import base64
import codecs
from collections.abc import Callable, Iterator
from typing import Annotated

import trio
from msgspec import Meta, Struct

from tools.arguments import parse, schema_of
from tools.base import Call, Image, ToolError, ToolOutput
from tools.descriptions import description_of
from tools.page import Line, Page, numbered
from tools.scope import Opened, Scope, read_up_to
from tools.text import binary_kind, bom_of, is_binary

PAGE_BYTES = 48 * 1024
"""The most one call shows: below the cap on tool output (64 KiB), so that a
page ends between lines and says how to go on."""

LINES = 2000
LINE_BYTES = 2000
"""Longer lines are clipped; source code hardly has any."""

IMAGE_BYTES = 5 * 1024 * 1024
"""The Anthropic API's limit for one picture."""

COUNTED_BYTES = 256 * 1024 * 1024
"""How far beyond the page lines are still counted, to say how many there are."""

READ_BYTES = 256 * 1024 * 1024
"""How much is read until a page is full: a sparse file may claim to have exabytes."""

_CHUNK_BYTES = 1024 * 1024
_UNSIZED_BYTES = 16 * 1024 * 1024
"""How much is read of a file that says it is empty (as those in /proc do)."""

_MEDIA_TYPES = {
    "PNG image": "image/png",
    "JPEG image": "image/jpeg",
    "GIF image": "image/gif",
    "WebP image": "image/webp",
}


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file; relative to the working folder.")]
    offset: Annotated[
        int, Meta(ge=1, description="The first line to show, counted from 1.")
    ] = 1
    limit: Annotated[int, Meta(ge=1, description="How many lines to show.")] = LINES


class ReadFile:
    """read_file: lines with their numbers; *max_bytes* bounds what one call shows."""

    name = "read_file"
    has_effects = False

    def __init__(self, scope: Scope, *, max_bytes: int = PAGE_BYTES) -> None:
        self._scope = scope
        self._max_bytes = max_bytes
        self.description = description_of(self.name)
        self.parameters = schema_of(Arguments)

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        """Read what *arguments* say. Raises ToolError."""
        wanted = parse(Arguments, arguments)
        return await trio.to_thread.run_sync(
            self._read,
            wanted,
            trio.from_thread.check_cancelled,
            abandon_on_cancel=True,
        )

    def _read(self, wanted: Arguments, check: Callable[[], None]) -> ToolOutput:
        opened = self._scope.open_read(wanted.path)
        shown = self._scope.shown(wanted.path)
        try:
            with opened.file:
                start = read_up_to(opened.file, _CHUNK_BYTES)
                kind = binary_kind(start)
                if kind in _MEDIA_TYPES:
                    return _picture(opened, start, kind, shown)
                if is_binary(start):
                    raise ToolError(
                        f"{shown} is no text ({kind}, {opened.size} bytes); "
                        "it can't be read with this tool"
                    )
                page = Page(
                    wanted.offset,
                    wanted.limit,
                    max_bytes=self._max_bytes,
                    max_line_bytes=LINE_BYTES,
                )
                pieces = checked(chunks(opened, start), check)
                is_whole = fill(page, as_utf_8(pieces), shown)
        except OSError as error:
            raise ToolError(f"{shown}: {error.strerror}") from error
        return _answer(page, shown, opened, is_whole=is_whole, offset=wanted.offset)


def chunks(opened: Opened, start: bytes) -> Iterator[bytes]:
    """Yield a file's bytes up to the size it had when it was opened.

    *start* is what was read of it already. A file that grows as fast as it is
    read would never end.
    """
    yield start
    left = (opened.size or _UNSIZED_BYTES) - len(start)
    while left > 0 and (chunk := opened.file.read(min(left, _CHUNK_BYTES))):
        yield chunk
        left -= len(chunk)


def checked(pieces: Iterator[bytes], check: Callable[[], None]) -> Iterator[bytes]:
    """Yield *pieces*; *check* is called before each, and may raise to stop it."""
    for piece in pieces:
        check()
        yield piece


def as_utf_8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Drop a byte order mark; turn UTF-16 and UTF-32 into UTF-8."""
    start = next(pieces)
    bom, encoding = bom_of(start)
    start = start[len(bom) :]
    if encoding == "utf-8":
        yield start
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(start).encode("utf-8", "replace")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def fill(page: Page, chunks: Iterator[bytes], shown: str) -> bool:
    """Feed *page*; return whether all was read, so that its total is right.

    Raises ToolError where the page does not begin within READ_BYTES.
    """
    before = beyond = 0
    for chunk in chunks:
        page.feed(chunk)
        if page.is_full:
            beyond += len(chunk)
            if beyond > COUNTED_BYTES:
                return False
            continue
        before += len(chunk)
        if before > READ_BYTES:
            if page.lines:
                return False
            raise ToolError(
                f"{shown}: these lines do not begin within the first"
                f" {READ_BYTES // 2**20} MiB, and no more is read"
            )
    page.finish()
    return True


def _answer(
    page: Page, shown: str, opened: Opened, *, is_whole: bool, offset: int
) -> ToolOutput:
    total = f"{page.total}" if is_whole else f"more than {page.total}"
    if not page.lines:
        if page.total:
            raise ToolError(
                f"offset {offset} is beyond the end: {shown} has {total} lines"
            )
        text = f"{shown} is empty"
        return ToolOutput(text, referenced_files=(opened.path,))
    text, changed = numbered(page.lines)
    last = page.lines[-1].number
    place = f"lines {page.lines[0].number}-{last} of {total}"
    notes = []
    if last < page.total:
        notes.append(f"{place}; go on with offset={last + 1}")
    if any(line.size > len(line.text) for line in page.lines):
        notes.append("grep finds things in clipped lines")
    if _has_crlf(page.lines):
        notes.append("lines end in CRLF")
    notes.extend([changed] if changed else [])
    end = f"\n[{'; '.join(notes)}]" if notes else ""
    return ToolOutput(
        summary=f"read {shown} {place}",
        content=text.removesuffix("\n") + end,
        referenced_files=(opened.path,),
    )


def _has_crlf(lines: list[Line]) -> bool:
    return any(line.text.endswith(b"\r") for line in lines)


def _picture(opened: Opened, start: bytes, kind: str, shown: str) -> ToolOutput:
    data = start + read_up_to(opened.file, IMAGE_BYTES + 1 - len(start))
    if len(data) > IMAGE_BYTES:
        raise ToolError(
            f"{shown} is a {kind} of {opened.size} bytes; "
            f"pictures are shown up to {IMAGE_BYTES} bytes"
        )
    image = Image(_MEDIA_TYPES[kind], base64.b64encode(data).decode("ascii"))
    return ToolOutput(
        summary=f"read {shown}: {kind}, {len(data)} bytes",
        referenced_files=(opened.path,),
        images=(image,),
    )
