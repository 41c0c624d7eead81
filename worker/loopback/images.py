"""What a picture is, from its first bytes: the API looks at them, so this does."""

from base64 import b64decode
from binascii import Error

from msgspec import Struct


class Picture(Struct, frozen=True):
    """A picture's real media type and its size in pixels."""

    media_type: str
    width: int
    height: int


def look_at(data: str) -> Picture | None:
    """Read type and size out of base64 *data*; None where it is no picture.

    Raises ValueError where it is no base64.
    """
    try:
        raw = b64decode(data, validate=True)
    except Error as error:
        raise ValueError(str(error)) from None
    if raw.startswith(b"\x89PNG\r\n\x1a\n") and len(raw) >= 24:
        return Picture("image/png", _big(raw[16:20]), _big(raw[20:24]))
    if raw.startswith((b"GIF87a", b"GIF89a")) and len(raw) >= 10:
        return Picture("image/gif", _little(raw[6:8]), _little(raw[8:10]))
    if raw.startswith(b"\xff\xd8"):
        return _jpeg(raw)
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return _webp(raw)
    return None


def _jpeg(raw: bytes) -> Picture | None:
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker = raw[at + 1]
        # The frame headers; C4, C8 and CC are tables that sit between them.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _big(raw[at + 5 : at + 7]), _big(raw[at + 7 : at + 9])
            return Picture("image/jpeg", width, height)
        at += 2 + _big(raw[at + 2 : at + 4])
    return None


def _webp(raw: bytes) -> Picture | None:
    kind = raw[12:16]
    if kind == b"VP8X" and len(raw) >= 30:
        width, height = _little(raw[24:27]) + 1, _little(raw[27:30]) + 1
    elif kind == b"VP8L" and len(raw) >= 25:
        bits = _little(raw[21:25])
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif kind == b"VP8 " and len(raw) >= 30:
        width, height = _little(raw[26:28]) & 0x3FFF, _little(raw[28:30]) & 0x3FFF
    else:
        return None
    return Picture("image/webp", width, height)


def _big(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _little(raw: bytes) -> int:
    return int.from_bytes(raw, "little")
