"""The words in an error body: its type, its message, its request id."""

import re
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

LONGEST_MESSAGE = 600
"""Characters of a provider's text that are shown to a person."""

LONGEST_PAGE = 8_192
"""Characters of a page that its words are looked for in."""

T = TypeVar("T")


class ErrorText(Struct, frozen=True):
    """What an error body says; *text* is one line, never empty."""

    text: str
    type: str | None = None
    status: int | None = None
    request_id: str | None = None


class _Inner(Struct):
    type: Raw = Raw(b"null")
    code: Raw = Raw(b"null")
    message: Raw = Raw(b"null")
    metadata: Raw = Raw(b"null")


class _Body(Struct):
    type: Raw = Raw(b"null")
    error: Raw = Raw(b"null")
    message: Raw = Raw(b"null")
    detail: Raw = Raw(b"null")
    error_type: Raw = Raw(b"null")
    code: Raw = Raw(b"null")
    request_id: Raw = Raw(b"null")


class _Metadata(Struct):
    raw: Raw = Raw(b"null")


def read_error(body: str) -> ErrorText:
    """Read an error *body* of whatever shape.

    Takes Anthropic's ``{"type": "error", "error": {…}}``, what other servers
    make of it (an array around it, a bare string, ``detail``), HTML and text.
    """
    outer = _as(body.encode("utf-8", "replace"), _Body)
    if outer is None:
        several = _as(body.encode("utf-8", "replace"), list[_Body])
        outer = several[0] if several else None
    if outer is None:
        return ErrorText(text=one_line(_without_tags(body)))
    inner = _as(bytes(outer.error), _Inner) or _Inner()
    text = (
        _text(inner.message)
        or _text(outer.error)
        or _text(outer.message)
        or _text(outer.detail)
        or body
    )
    if (metadata := _as(bytes(inner.metadata), _Metadata)) is not None:
        passed_on = _text(metadata.raw)
        text = f"{text}: {read_error(passed_on).text}" if passed_on else text
    code = _as(bytes(inner.code), int) or _as(bytes(outer.code), int)
    return ErrorText(
        text=one_line(text),
        type=_text(inner.type) or _text(outer.error_type) or _text(inner.code),
        status=code if code is not None and 400 <= code < 600 else None,
        request_id=_text(outer.request_id),
    )


def one_line(text: str) -> str:
    """Fold *text* into one line of bounded length that a terminal can show."""
    line = " ".join(text.split())
    line = "".join(c if c.isprintable() else "�" for c in line)
    if len(line) > LONGEST_MESSAGE:
        line = f"{line[:LONGEST_MESSAGE].rstrip()} …"
    return line or "no explanation given"


def _without_tags(body: str) -> str:
    body = body[:LONGEST_PAGE]
    if "<" not in body[:200]:
        return body
    body = re.sub(r"(?is)<(script|style)\b.*?</\1>", " ", body)
    return re.sub(r"<[^<>]{0,2000}>", " ", body)


def _text(raw: Raw) -> str | None:
    return _as(bytes(raw), str) or None


def _as(data: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None
