"""JSON from elsewhere: whatever bytes, to the type that is asked for."""

import json
import re
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from pod.importing.records import Unreadable

T = TypeVar("T")

LONE_SURROGATES = "lone surrogates, replaced by U+FFFD"
BAD_UTF8 = "bytes that are no UTF-8, replaced by U+FFFD"

_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
    rb"|\\."
)
_json = json.JSONDecoder(strict=False)


def repaired(line: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return *line* as JSON that can be decoded, and by name what was replaced."""
    losses: list[str] = []
    if not line.isascii():
        try:
            line.decode()
        except UnicodeDecodeError:
            line = line.decode("utf-8", "replace").encode()
            losses.append(BAD_UTF8)
    if b"\\ud" in line or b"\\uD" in line:
        mended = _ESCAPE.sub(_whole, line)
        if mended != line:
            line = mended
            losses.append(LONE_SURROGATES)
    return line, tuple(losses)


def _whole(match: re.Match[bytes]) -> bytes:
    found = match.group()
    return b"\\ufffd" if len(found) == 6 else found


def decoded(line: bytes | msgspec.Raw, decoder: "msgspec.json.Decoder[T]") -> T:
    """Return what is in *line*. Raises Unreadable."""
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def pieces(line: bytes) -> Iterator[tuple[int, int]]:
    """Give offset and length of each JSON object in a line that holds several.

    A crash glues records together: the line end of the first is missing.
    """
    # Latin-1 makes a character of each byte, so that offsets are the same.
    text = line.decode("latin-1")
    at = 0
    while (at := text.find("{", at)) >= 0:
        try:
            _, end = _json.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield at, end - at
        at = end
