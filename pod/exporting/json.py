"""A session as one JSON document: docs/import-export.md has its schema."""

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from pod.codec import encode, to_ascii
from pod.context import context
from pod.exporting.source import Exported
from worker.items import Item

FORMAT = "pod-session/1"

_encoder = msgspec.json.Encoder()


class _Head(Struct):
    format: str
    header: Raw
    name: str
    leaf: str | None


def lines(session: Exported) -> Iterator[str]:
    """Give the document, an entry a line, so that two of them can be compared.

    *entries* are all of the log's, branches included, *context* the items that
    the model sees at the leaf.
    """
    header = Raw(encode(session.header).rstrip())
    head = _Head(FORMAT, header, session.name, session.leaf)
    yield _ascii(_encoder.encode(head))[:-1] + ',"entries":[\n'
    for number, entry in enumerate(session.entries):
        line = encode(entry).decode().rstrip()
        yield f"{',' if number else ''}{line}\n"
    yield '],"context":[\n'
    for number, item in enumerate(_context(session)):
        line = _ascii(_encoder.encode(item))
        yield f"{',' if number else ''}{line}\n"
    yield "]}\n"


def _context(session: Exported) -> list[Item]:
    return context(session.path)


def _ascii(data: bytes) -> str:
    return to_ascii(data).decode()
