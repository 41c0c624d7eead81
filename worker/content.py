"""One item as the blocks of a request: well-formed, and always the same bytes."""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections import deque
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from prompts import load
from tools.base import Image
from worker import api
from worker.images import image_size
from worker.items import (
    AssistantText,
    FromModel,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)

IMAGE_BYTES = 5 * 1024 * 1024
"""Most base64 bytes of one image. The API refuses more than 5 MB an image."""
IMAGE_SIDE = 8000
"""Most pixels of one side of an image (vision guide)."""


class Media(Struct, frozen=True):
    """How much media one request may carry.

    20 images: with more the API allows only 2000 pixels a side, and one that
    is larger fails the whole request. 20 MB of base64: a request may have
    32 MB (less on other platforms), and the text needs room too.
    """

    images: int = 20
    bytes: int = 20 * 1024 * 1024


def clean(text: str) -> str:
    """Return *text* as JSON can carry it: no NULs and no lone surrogates."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            units = text.encode("utf-16-le", "surrogatepass")
            text = units.decode("utf-16-le", "replace")
    return text.replace("\0", "\ufffd")


def clean_json(json: str) -> str | None:
    """Return the JSON object *json* cleaned in the same way, escapes included.

    Everything else stays byte for byte. None where it is no JSON object.
    """
    cleaned = clean(json)
    if "\\u" in cleaned:
        cleaned = _ESCAPE.sub(_well_formed, cleaned)
    try:
        value = msgspec.json.decode(cleaned)
    except (msgspec.DecodeError, RecursionError):
        return None
    return cleaned if isinstance(value, dict) else None


def user_blocks(
    item: SystemText | UserText, kept: frozenset[int]
) -> list[api.Text | api.Image]:
    """Return a text's blocks; *kept* are the images that are sent, by position."""
    images = item.images if isinstance(item, UserText) else ()
    return [*_text(item.text), *_images(images, kept)]


def result_block(item: ToolResult, kept: frozenset[int]) -> api.ToolResult:
    """Return a result's block: its text, then its images.

    Images of an error are never sent: the API takes text alone there.
    """
    shown = item.content if item.content is not None else item.summary
    content = [
        *_text(shown),
        *_images(item.images, frozenset() if item.is_error else kept),
    ]
    return api.ToolResult(
        tool_use_id=item.call_id,
        content=tuple(content or _text(load("empty_result"))),
        is_error=item.is_error,
    )


def response_block(item: FromModel) -> api.Block | None:
    """Return the block of what a model said, None where there is nothing to send."""
    match item:
        case AssistantText():
            text = clean(item.text)
            return _with_extra(api.Text(text), item.extra) if text.strip() else None
        case Reasoning():
            return _reasoning(item)
        case ToolCall():
            arguments = None if item.incomplete else clean_json(item.arguments)
            block = api.ToolUse(
                id=item.call_id,
                name=tool_name(item.name),
                input=Raw((arguments or "{}").encode()),
            )
            return _with_extra(block, item.extra)
        case Opaque():
            json = clean_json(item.json)
            return None if json is None else api.Opaque(Raw(json.encode()))


def tool_name(name: str) -> str:
    """Return *name* as the API takes it: a model may call what cannot exist."""
    return _NOT_IN_NAME.sub("_", name)[:128] or "_"


def kept_images(items: Sequence[Item], media: Media) -> dict[int, frozenset[int]]:
    """Choose the images to send: which positions of which item, by its index.

    The newest are kept. Once there are too many, a quarter of the room is
    freed at once: so the choice, and with it the cached prefix, holds for a
    while. More items at the end change nothing before that.
    """
    kept: deque[tuple[int, int, int]] = deque()
    total = 0
    for index, item in enumerate(items):
        for position, image in enumerate(_candidates(item)):
            size = len(image.data)
            if not media.images or size > media.bytes or not _is_accepted(image):
                continue
            kept.append((index, position, size))
            total += size
            if len(kept) <= media.images and total <= media.bytes:
                continue
            while len(kept) > 1 and (
                4 * len(kept) > 3 * media.images or 4 * total > 3 * media.bytes
            ):
                total -= kept.popleft()[2]
    chosen: dict[int, set[int]] = {}
    for index, position, _ in kept:
        chosen.setdefault(index, set()).add(position)
    return {index: frozenset(positions) for index, positions in chosen.items()}


def count_images(request: api.Request) -> int:
    """Count the images that *request* carries."""
    return sum(
        isinstance(part, api.Image)
        for message in request.messages
        for block in message.content
        for part in (block.content if isinstance(block, api.ToolResult) else (block,))
    )


_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"  # half of one
    r"|\\u0000"
    r"|\\."
)
_STARTS = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGODdh": "image/gif",
    "R0lGODlh": "image/gif",
    "UklGR": "image/webp",
}
"""The first bytes of the images the API takes, as base64."""
_HEAD = 64 * 1024
"""Base64 characters in which an image tells its size."""
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def _well_formed(escape: re.Match[str]) -> str:
    found = escape.group()
    is_bad = len(found) == 6 and (found[2] in "dD" or found == "\\u0000")
    return "\\ufffd" if is_bad else found


def _text(text: str) -> list[api.Text]:
    text = clean(text)
    return [api.Text(text)] if text.strip() else []


def _images(
    images: Sequence[Image], kept: frozenset[int]
) -> list[api.Text | api.Image]:
    return [
        api.Image(api.Base64(_media_type(image.data) or image.media_type, image.data))
        if position in kept
        else api.Text(load("image_left_out"))
        for position, image in enumerate(images)
    ]


def _candidates(item: Item) -> Sequence[Image]:
    match item:
        case UserText():
            return item.images
        case ToolResult():
            return () if item.is_error else item.images
        case SystemText() | AssistantText() | Reasoning() | ToolCall() | Opaque():
            return ()


def _is_accepted(image: Image) -> bool:
    data = image.data
    if not data.isascii() or len(data) % 4 or len(data) > IMAGE_BYTES:
        return False
    if _media_type(data) is None:
        return False
    try:
        size = image_size(b64decode(data[:_HEAD]))
    except Base64Error:
        return False
    return size is None or max(size) <= IMAGE_SIDE


def _media_type(data: str) -> str | None:
    """Return what an image is by its first bytes, as the API does."""
    for start, media_type in _STARTS.items():
        if data.startswith(start):
            return media_type
    return None


def _reasoning(item: Reasoning) -> api.Block | None:
    """Byte for byte or not at all, for the provider checks its signature."""
    fields = (item.text, item.signature, item.redacted)
    if any(clean(field) != field for field in fields):
        return None
    if item.redacted:
        return _with_extra(api.RedactedThinking(item.redacted), item.extra)
    if item.signature:
        return _with_extra(api.Thinking(item.text, item.signature), item.extra)
    return None


def _with_extra(block: api.Block, extra: str) -> api.Block:
    """Put the block's other fields back, behind its own."""
    json = clean_json(extra) if extra else None
    if json is None:
        return block
    fields = msgspec.json.decode(msgspec.json.encode(block), type=dict[str, Raw])
    others = msgspec.json.decode(json, type=dict[str, Raw])
    new = {
        name: value
        for name, value in others.items()
        if name not in fields and name != "cache_control"
    }
    return api.Opaque(Raw(msgspec.json.encode(fields | new))) if new else block
