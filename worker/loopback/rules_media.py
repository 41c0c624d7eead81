"""Rules about pictures: that they are some, how large, and how many.

All limits are from the vision page of the API.
"""

from collections.abc import Iterator

from worker.loopback.body import Base64, Image, Prompt, ToolResult
from worker.loopback.images import look_at

MAX_BYTES = 5 * 1024 * 1024  # of base64
MAX_PIXELS = 8000  # a side
MAX_PIXELS_OF_MANY = 2000
MANY = 20
MAX_PICTURES = 100

_MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def pictures(prompt: Prompt) -> Iterator[str]:
    """Each picture is one, of the type it says, and within the limits."""
    found = list(_pictures(prompt))
    if len(found) > MAX_PICTURES:
        yield (
            f"Too much media: 0 document pages + {len(found)} images > {MAX_PICTURES}"
        )
    for path, source in found:
        yield from _picture(path, source, is_one_of_many=len(found) > MANY)


def _pictures(prompt: Prompt) -> Iterator[tuple[str, Base64]]:
    for i, message in enumerate(prompt.messages):
        for j, block in enumerate(message.blocks):
            path = f"messages.{i}.content.{j}"
            if isinstance(block, Image) and isinstance(block.source, Base64):
                yield f"{path}.image.source.base64", block.source
            if not isinstance(block, ToolResult) or not isinstance(block.content, list):
                continue
            for k, part in enumerate(block.content):
                if isinstance(part, Image) and isinstance(part.source, Base64):
                    inner = f"{path}.tool_result.content.{k}"
                    yield f"{inner}.image.source.base64", part.source


def _picture(path: str, source: Base64, *, is_one_of_many: bool) -> Iterator[str]:
    if source.media_type not in _MEDIA_TYPES:
        yield (
            f"{path}.media_type: Input should be 'image/jpeg', 'image/png', "
            "'image/gif' or 'image/webp'"
        )
    if len(source.data) > MAX_BYTES:
        yield (
            f"{path}: image exceeds 5 MB maximum: {len(source.data)} bytes > "
            f"{MAX_BYTES} bytes"
        )
    try:
        picture = look_at(source.data)
    except ValueError:
        yield f"{path}: invalid base64 data"
        return
    if picture is None:
        yield "Could not process image"
        return
    if picture.media_type != source.media_type:
        yield (
            f"{path}: The image was specified using the {source.media_type} media "
            f"type, but the image appears to be a {picture.media_type} image"
        )
    side = max(picture.width, picture.height)
    if side > MAX_PIXELS:
        yield (
            f"{path}.data: At least one of the image dimensions exceed max allowed "
            f"size: {MAX_PIXELS} pixels"
        )
    if is_one_of_many and side > MAX_PIXELS_OF_MANY:
        yield (
            f"{path}.data: At least one of the image dimensions exceed max allowed "
            f"size for many-image requests: {MAX_PIXELS_OF_MANY} pixels"
        )
