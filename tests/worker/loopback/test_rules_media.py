"""The rules about pictures, each by a request that breaks only it."""

import pytest

from tests.worker.loopback.judging import image, refused
from tests.worker.loopback.pictures import png
from tests.worker.loopback.requests import (
    LOOP,
    Json,
    message,
    request,
    tool_result,
)

B64 = "messages.0.content.0.image.source.base64"


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        pytest.param(
            [image(png(8001, 1))],
            f"{B64}.data: At least one of the image dimensions exceed max allowed "
            "size: 8000 pixels",
            id="too wide",
        ),
        pytest.param(
            [image(png(1, 1))] * 20 + [image(png(1, 2001))],
            "messages.0.content.20.image.source.base64.data: At least one of the image "
            "dimensions exceed max allowed size for many-image requests: 2000 pixels",
            id="too high among many",
        ),
        pytest.param(
            [image(png(1, 1))] * 101,
            "Too much media: 0 document pages + 101 images > 100",
            id="too many",
        ),
        pytest.param(
            [image(png(1, 1, size=4_000_000))],
            f"{B64}: image exceeds 5 MB maximum: 5333336 bytes > 5242880 bytes",
            id="too large",
        ),
        pytest.param(
            [image(png(1, 1), "image/jpeg")],
            f"{B64}: The image was specified using the image/jpeg media type, but the "
            "image appears to be a image/png image",
            id="of another type",
        ),
        pytest.param(
            [image(png(1, 1), "image/bmp")],
            f"{B64}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' "
            "or 'image/webp'",
            id="of a type nobody takes",
        ),
        pytest.param([image("?!")], f"{B64}: invalid base64 data", id="no base64"),
        pytest.param([image("aGVsbG8=")], "Could not process image", id="no picture"),
    ],
)
def test_pictures_are_pictures(blocks: list[Json], expected: str) -> None:
    assert refused(request(message("user", *blocks))) == expected


def test_a_picture_in_a_result_is_looked_at_too() -> None:
    result = tool_result("a", [image("aGVsbG8=")])
    data = request(*LOOP[:2], message("user", result, tool_result("b")))

    assert refused(data) == "Could not process image"
