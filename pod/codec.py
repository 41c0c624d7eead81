"""Entries to lines of the log and back.

A line is one JSON object in ASCII with a newline at its end: no text in it can
be taken for a line end, by whatever reader. "type" comes first, then "seq".
"""

import re
from collections.abc import Mapping
from typing import get_args

import msgspec
from msgspec import Raw, Struct

from pod.entries import FORMAT, REFERENCES, AnyEntry, Header, Known, Unknown
from pod.errors import NewerFormat

_encoder = msgspec.json.Encoder()
_known = msgspec.json.Decoder(Known)
_header = msgspec.json.Decoder(Header)
_fields = msgspec.json.Decoder(dict[str, Raw])
_ids = msgspec.json.Decoder(str | list[str])
_NOT_ASCII = re.compile("[^\x00-\x7f]+")


class BadLine(ValueError):
    """A line that is no entry; the message says why."""


class _Type(Struct):
    type: str = ""


class _Version(Struct):
    format: int
    type: str = ""


class _Stem(Struct):
    type: str
    seq: int
    id: str
    at: str
    parent: str | None = None
    run: str | None = None


_type = msgspec.json.Decoder(_Type)
_version = msgspec.json.Decoder(_Version)
_stem = msgspec.json.Decoder(_Stem)


def encode(entry: AnyEntry | Header) -> bytes:
    """Return the entry's line, its newline included.

    An Unknown gives the very line it was read from. Raises ValueError for text
    that no reader could take back (a lone surrogate).
    """
    if isinstance(entry, Unknown):
        return entry.json.encode() + b"\n"
    return to_ascii(_encoder.encode(entry)) + b"\n"


def decode(line: bytes) -> AnyEntry:
    """Return the entry in *line*, which may end in blanks or a line end.

    Raises BadLine if it holds none, or more than one.
    """
    if not line.isascii():
        _check_utf8(line)  # the decoder does not look at fields it skips
    try:
        entry: AnyEntry = _known.decode(line)
    except msgspec.ValidationError as error:
        return _unknown(line, error)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadLine(_why(line, error)) from None
    if entry.seq < 1 or not entry.id or not entry.at:
        raise BadLine("an entry without seq, id or at")
    return entry


def decode_header(line: bytes) -> Header:
    """Return the log's header.

    Raises NewerFormat if its format is higher than ours, BadLine if the line is
    no header.
    """
    try:
        version = _version.decode(line)
    except (msgspec.DecodeError, RecursionError):
        raise BadLine("no session header") from None
    if version.type != "session":
        raise BadLine("no session header")
    if version.format > FORMAT:
        raise NewerFormat(
            f"the session has log format {version.format}, this Pod knows up to"
            f" {FORMAT}: use the version that wrote it, or a newer one"
        )
    try:
        return _header.decode(line)
    except msgspec.DecodeError as error:
        raise BadLine(f"a session header that cannot be read: {error}") from None


def is_header(line: bytes) -> bool:
    """Whether the line is, or was meant to be, a session header."""
    try:
        return _type.decode(line).type == "session"
    except (msgspec.DecodeError, RecursionError):
        return False


def rewrite(line: bytes, ids: Mapping[str, str], **fields: object) -> bytes:
    """Return the line with its ids mapped and *fields* set.

    It ends in a newline. Everything else stays byte for byte, fields that this
    version does not know included. Of a known kind, REFERENCES are mapped; of an
    unknown one every field at the top that is exactly an id (or a list of them),
    since only its own version knows which ones refer.
    Raises BadLine if the line is no JSON object.
    """
    try:
        record = _fields.decode(line)
    except msgspec.DecodeError as error:
        raise BadLine(str(error)) from None
    names = list(record) if _is_unknown(record) else ["id", *REFERENCES]
    for name in names:
        if name in record and (mapped := _mapped(bytes(record[name]), ids)):
            record[name] = Raw(mapped)
    for name, value in fields.items():
        if value is not None or name in record:
            record[name] = Raw(_encoder.encode(value))
    return to_ascii(_encoder.encode(record)) + b"\n"


def _is_unknown(record: Mapping[str, Raw]) -> bool:
    return msgspec.json.decode(record["type"]) not in _TAGS


def _mapped(value: bytes, ids: Mapping[str, str]) -> bytes | None:
    try:
        old = _ids.decode(value)
    except msgspec.DecodeError:
        return None
    new = (
        ids.get(old, old)
        if isinstance(old, str)
        else [ids.get(each, each) for each in old]
    )
    return None if new == old else _encoder.encode(new)


def _unknown(line: bytes, error: msgspec.ValidationError) -> Unknown:
    """Keep a line of another kind; of a known kind it is broken."""
    try:
        stem = _stem.decode(line)
    except (msgspec.DecodeError, RecursionError) as worse:
        raise BadLine(_why(line, worse)) from None
    if stem.type == "session":
        raise BadLine("a second session header")
    if stem.type in _TAGS or stem.seq < 1 or not stem.id or not stem.at:
        raise BadLine(_why(line, error))
    return Unknown(
        seq=stem.seq,
        id=stem.id,
        parent=stem.parent,
        at=stem.at,
        type=stem.type,
        json=line.rstrip(b" \t\r\n").decode(),
        run=stem.run,
    )


def _check_utf8(line: bytes) -> None:
    try:
        line.decode()
    except UnicodeDecodeError:
        raise BadLine("bytes that are not UTF-8") from None


def _why(line: bytes, error: Exception) -> str:
    if is_header(line):
        return "a second session header"
    if not line.strip(b"\0 \t\r\n"):
        return "NUL bytes"
    if b"\0" in line:
        return "NUL bytes in a line"
    if isinstance(error, RecursionError):
        return "JSON that is nested too deep"
    return str(error)


def to_ascii(line: bytes) -> bytes:
    """Return JSON with everything but ASCII as escapes, so that no reader splits it."""
    if line.isascii():
        return line
    return _NOT_ASCII.sub(_escape, line.decode()).encode()


def _escape(match: re.Match[str]) -> str:
    """Escape a run of characters as JSON does; they stand only inside strings."""
    units = match.group().encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


_TAGS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Known))
