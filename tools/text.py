"""Bytes and text from outside, made safe to send to a model and to log."""

import codecs
import re

from msgspec import Struct

SAMPLE_BYTES = 8192
"""How much of a file decides whether it is binary; git looks at about as much."""

_BOMS = (
    # UTF-32 first: its little-endian mark begins with UTF-16's.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "zip archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"\x7fELF", "ELF program"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\x00asm", "WebAssembly module"),
)

# Escape sequences as in ECMA-48. A string (OSC, DCS, …) that nobody ends is
# not one, else it would swallow the rest of the text. No branch can begin
# inside another, so the scan is linear.
_ANSI = re.compile(
    r"\x1b\[[0-?]*+[ -/]*+[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}+(?:\x07|\x1b\\)"
    r"|\x1b[ -/]++[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]"
)
_C0 = [chr(code) for code in (*range(9), 11, 12, *range(14, 32), 127)]
_C1 = re.compile("[\x80-\x9f]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_C0_BYTES = "".join([*_C0, "\r"]).encode()


class Cleaned(Struct, frozen=True):
    """Text that is safe to send and to log; *notes* says what was changed, or ""."""

    text: str
    notes: str = ""


def bom_of(data: bytes) -> tuple[bytes, str]:
    """Return the byte order mark *data* begins with and its codec, or b"", "utf-8"."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return bom, encoding
    return b"", "utf-8"


def decode(data: bytes) -> str:
    """Decode UTF-8, or what a byte order mark says; the mark itself is dropped.

    What is invalid becomes U+FFFD.
    """
    bom, encoding = bom_of(data)
    return data[len(bom) :].decode(encoding, "replace")


def is_binary(data: bytes) -> bool:
    """Tell from the beginning of a file whether it is something else than text."""
    sample = data[:SAMPLE_BYTES]
    bom, _ = bom_of(sample)
    if bom:
        return False
    if b"\0" in sample or binary_kind(sample) != "binary":
        return True
    # \x1b and \f occur in text (colours, page breaks); many others mean it is none.
    odd = len(sample) - len(sample.translate(None, _C0_BYTES))
    usual = sum(sample.count(byte) for byte in (b"\r", b"\x1b", b"\f"))
    return (odd - usual) * 10 > len(sample)


def binary_kind(data: bytes) -> str:
    """Name what a binary file is by its first bytes: "PDF", …, or just "binary"."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP image"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "binary")


def clean(text: str) -> Cleaned:
    r"""Make *text* safe to send and to log.

    Escape sequences are taken out; C0 controls but \n and \t are shown as
    pictures (NUL as ␀); \r\n and a lone \r become \n; C1 controls and lone
    surrogates become U+FFFD. Linear, and fast where there is nothing to do.
    """
    notes = []
    if "\x1b" in text:
        text, count = _ANSI.subn("", text)
        if count:
            notes.append("escape sequences taken out")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    found = [char for char in _C0 if char in text]
    for char in found:
        code = ord(char)
        text = text.replace(char, "\u2421" if code == 127 else chr(0x2400 + code))
    if found:
        notes.append("control characters shown as ␀-like pictures")
    if not text.isascii():
        text, count = _replace_invalid(text)
        if count:
            notes.append("invalid characters replaced by \ufffd")
    return Cleaned(text, "; ".join(notes))


def counted(number: int, noun: str) -> str:
    """Return *number* with its noun, which takes an s unless there is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def one_line(text: str) -> str:
    """Make a name (of a file, say) safe to show inside a line."""
    return clean(text).text.replace("\n", "␊").replace("\t", "␉")


def short_line(text: str, width: int) -> str:
    """Return *text* as one clean line of at most *width* characters."""
    line = " ".join(clean(text[: 8 * width]).text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _replace_invalid(text: str) -> tuple[str, int]:
    surrogates = 0
    try:
        # Encoding is many times as fast as looking with a regular expression.
        encoded = text.encode()
    except UnicodeEncodeError:
        text, surrogates = _SURROGATES.subn("\ufffd", text)
        encoded = text.encode()
    if b"\xc2" not in encoded:
        return text, surrogates
    text, controls = _C1.subn("\ufffd", text)
    return text, surrogates + controls
