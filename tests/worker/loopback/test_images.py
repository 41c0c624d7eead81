import pytest

from tests.worker.loopback.pictures import gif, jpeg, png, webp
from worker.loopback.images import Picture, look_at


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (png(3, 700), "image/png"),
        (gif(3, 700), "image/gif"),
        (jpeg(3, 700), "image/jpeg"),
        (webp(3, 700), "image/webp"),
    ],
)
def test_a_picture_tells_its_type_and_size(data: str, media_type: str) -> None:
    assert look_at(data) == Picture(media_type, 3, 700)


@pytest.mark.parametrize("data", ["", "aGVsbG8=", png(1, 1)[:12], jpeg(1, 1)[:12]])
def test_half_a_picture_is_none(data: str) -> None:
    assert look_at(data) is None


def test_what_is_no_base64_is_an_error() -> None:
    with pytest.raises(ValueError, match="base64"):
        look_at("a")
