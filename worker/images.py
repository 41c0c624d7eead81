"""What an image costs in tokens, read from the first bytes of its file."""

from base64 import b64decode
from binascii import Error as Base64Error
from math import ceil

PIXELS_PER_TOKEN = 750
"""Anthropic's rule: tokens = width * height / 750."""

LARGEST_IMAGE = 4_784
"""Larger images are scaled down before they are counted: to this many tokens
by models since Opus 4.7, to about 1 600 by older ones. The larger is safe."""

UNKNOWN_IMAGE = 1_600
"""For an image whose size cannot be read: a full one of the older models."""

_HEAD = 64 * 1024
"""Base64 characters looked at. A JPEG may carry a preview before its size."""


def image_tokens(data: str) -> int:
    """Return the tokens of an image, given as base64."""
    size = image_size(_decode(data[:_HEAD]))
    if size is None:
        return UNKNOWN_IMAGE
    width, height = size
    return min(max(ceil(width * height / PIXELS_PER_TOKEN), 1), LARGEST_IMAGE)


def image_size(head: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels of a PNG, JPEG, GIF or WebP file.

    *head* is the start of the file. None for anything else, and for a header
    that ends too early or makes no sense.
    """
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        size = _big(head[16:20]), _big(head[20:24])
    elif head[:6] in {b"GIF87a", b"GIF89a"}:
        size = _little(head[6:8]), _little(head[8:10])
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        size = _webp_size(head)
    elif head.startswith(b"\xff\xd8"):
        size = _jpeg_size(head)
    else:
        return None
    return size if size[0] > 0 and size[1] > 0 else None


def _webp_size(head: bytes) -> tuple[int, int]:
    match head[12:16]:
        case b"VP8 ":  # 14 bits each, behind the start code
            return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
        case b"VP8L":  # 14 bits each, minus one
            bits = _little(head[21:25])
            if len(head) < 25:
                return 0, 0
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":  # 24 bits each, minus one
            if len(head) < 30:
                return 0, 0
            return _little(head[24:27]) + 1, _little(head[27:30]) + 1
        case _:
            return 0, 0


def _jpeg_size(head: bytes) -> tuple[int, int]:
    """Walk the segments to the frame header (SOF0…SOF15)."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return _big(head[at + 7 : at + 9]), _big(head[at + 5 : at + 7])
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # no length follows
            at += 2
        else:
            at += 2 + max(_big(head[at + 2 : at + 4]), 2)
    return 0, 0


def _decode(text: str) -> bytes:
    text = text[: len(text) // 4 * 4]
    try:
        return b64decode(text)
    except (Base64Error, ValueError):
        return b""


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
