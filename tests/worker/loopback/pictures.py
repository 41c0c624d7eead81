"""The first bytes of pictures: enough for those who only look at the size."""

from base64 import b64encode


def png(width: int, height: int, *, size: int = 0) -> str:
    head = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR"
    return _b64(head + width.to_bytes(4, "big") + height.to_bytes(4, "big"), size)


def gif(width: int, height: int) -> str:
    return _b64(b"GIF89a" + width.to_bytes(2, "little") + height.to_bytes(2, "little"))


def jpeg(width: int, height: int) -> str:
    table = b"\xff\xc4\x00\x04\x00\x00"
    frame = b"\xff\xc0\x00\x0b\x08"
    size = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return _b64(b"\xff\xd8" + table + frame + size + b"\0\0")


def webp(width: int, height: int) -> str:
    head = b"RIFF\0\0\0\0WEBPVP8X" + b"\x0a\0\0\0" + b"\0\0\0\0"
    edges = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return _b64(head + edges)


def _b64(data: bytes, size: int = 0) -> str:
    return b64encode(data.ljust(size, b"\0")).decode()
