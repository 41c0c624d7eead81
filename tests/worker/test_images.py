from base64 import b64encode
from collections.abc import Callable
from struct import pack

import pytest
from hypothesis import given, strategies as st

from worker.images import LARGEST_IMAGE, UNKNOWN_IMAGE, image_size, image_tokens


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + pack(">I4sII", 13, b"IHDR", width, height)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + pack("<HH", width, height)


def jpeg(width: int, height: int) -> bytes:
    exif = b"\xff\xe1" + pack(">H", 12) + b"Exif\0\0\xff\xc0zz"
    frame = b"\xff\xff\xc2" + pack(">HBHH", 17, 8, height, width)
    return b"\xff\xd8" + exif + frame


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + pack("<I", len(body)) + body


def webp_lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + pack("<HH", width, height))


def webp_lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + pack("<I", (width - 1) | (height - 1) << 14))


def webp_extended(width: int, height: int) -> bytes:
    sizes = (n.to_bytes(3, "little") for n in (width - 1, height - 1))
    return webp(b"VP8X", b"\0\0\0\0" + b"".join(sizes))


FORMATS = [png, gif, jpeg, webp_lossy, webp_lossless, webp_extended]


@given(
    make=st.sampled_from(FORMATS),
    width=st.integers(1, 16_383),
    height=st.integers(1, 16_383),
)
def test_the_size_is_read_from_the_header_of_every_format(
    make: Callable[[int, int], bytes], width: int, height: int
) -> None:
    assert image_size(make(width, height)) == (width, height)


@pytest.mark.parametrize(
    ("size", "tokens"),
    [
        ((200, 200), 54),
        ((1_000, 1_000), 1_334),
        ((1_920, 1_080), 2_765),
        ((8_000, 8_000), LARGEST_IMAGE),
        ((1, 1), 1),
    ],
)
def test_an_image_costs_its_pixels(size: tuple[int, int], tokens: int) -> None:
    assert image_tokens(b64encode(png(*size)).decode()) == tokens


@pytest.mark.parametrize("data", ["", "AAAA", "not base64!", "é" * 40, "iVBORw0KGgo"])
def test_an_image_nobody_can_read_costs_a_full_one(data: str) -> None:
    assert image_tokens(data) == UNKNOWN_IMAGE


@given(make=st.sampled_from(FORMATS), cut=st.integers(0, 40), tail=st.binary())
def test_no_header_is_too_strange(
    make: Callable[[int, int], bytes], cut: int, tail: bytes
) -> None:
    size = image_size(make(640, 480)[:cut] + tail)

    assert size is None or min(size) > 0
