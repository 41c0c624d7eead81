"""A TOML file: its values and where each stands, or one line on why not."""

import codecs
import re

import tomli
from msgspec import Struct

from pod.key_text import label
from pod.toml_positions import KeyPath, Position, positions, repetition
from pod.toml_text import printable


class Document(Struct, frozen=True):
    """What a TOML text says, and where it says it."""

    values: dict[str, object]
    positions: dict[KeyPath, Position]


START = Position(1, 1)


class TomlError(Exception):
    """A file that is no TOML, or no text; *position* is where it stops being any."""

    def __init__(self, text: str, position: Position = START) -> None:
        super().__init__(text)
        self.position = position


def parse_bytes(raw: bytes) -> Document:
    """Parse the bytes of a file. One byte order mark at the start is ignored.

    Raises TomlError.
    """
    return parse_text(decoded(raw))


def parse_text(text: str) -> Document:
    """Parse *text*. Raises TomlError."""
    try:
        values = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise _translated(error) from error
    except RecursionError as error:
        raise TomlError("arrays or tables are nested too deep") from error
    except ValueError as error:
        # Python refuses to read thousands of digits, and tomli lets that through.
        raise TomlError("a number is too long", _long_number(text)) from error
    return Document(values, positions(text))


def _translated(error: tomli.TOMLDecodeError) -> TomlError:
    at = Position(error.lineno, error.colno)
    if error.doc.startswith("\r", error.pos):
        text = "a carriage return alone ends no line: save with LF or CRLF line ends"
        return TomlError(text, at)
    if error.msg.startswith(("Cannot overwrite", "Cannot declare")):
        repeated = repetition(error.doc[: error.pos])
        if repeated is not None:
            text = (
                f"{label(repeated.path)} is set already, on line {repeated.first.line}"
            )
            return TomlError(text, repeated.again)
    character = error.doc[error.pos : error.pos + 1]
    odd = f" (U+{ord(character):04X})" if character > "~" else ""
    return TomlError(f"not TOML: {printable(error.msg)}{odd}", at)


_MARKS = (
    # The one of UTF-32 begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def decoded(raw: bytes) -> str:
    """Return the text of a UTF-8 file, without the mark at its start.

    Raises TomlError, which names the encoding where it can be told.
    """
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            raise TomlError(f"the file is {encoding}: save it as UTF-8")
    if 0 in raw[:2]:
        raise TomlError("the file looks like UTF-16, or is no text: save it as UTF-8")
    body = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        before = body[: error.start].decode()
        at = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
        text = f"byte 0x{body[error.start]:02x} is no UTF-8: save the file as UTF-8"
        raise TomlError(text, at) from error


def _long_number(text: str) -> Position:
    match = re.search(r"[0-9_]{4300,}", text)
    before = text[: match.start()] if match else ""
    return Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
