"""What the Messages API rejects in a request's blocks, numbers and tools.

The other half of validate.py, which is about the order of things.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from worker.api import (
    CacheControl,
    Image,
    Message,
    Opaque,
    RedactedThinking,
    Request,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from worker.model import Model

MAX_BREAKPOINTS = 4
"""Blocks with cache_control in one request (prompt caching guide)."""
MAX_IMAGES = 100
"""Images in one request to a model with a window of 200 000 tokens (vision guide)."""
MAX_IMAGES_LARGE = 600
"""Images in one request to a model with a larger window (vision guide)."""
MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""Base64 bytes of one image ("image exceeds 5 MB maximum")."""
MAX_MEDIA_BYTES = 32 * 1024 * 1024
"""Bytes of a whole request (request size limits), so of its media too."""
MIN_BUDGET = 1024
"""Tokens of the smallest thinking budget (extended thinking guide)."""


_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MEDIA_TYPES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_SURROGATE_ESCAPE = re.compile(
    rb"(?:\\\\)+|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<bad>\\u[dD][89a-fA-F]..|\\u0000)"
)


class Seen(Struct, frozen=True):
    """A block as the API reads it, whichever class it has here."""

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    tool_use_id: str = ""
    cache_control: CacheControl | UnsetType = UNSET


Turn = tuple[str, Sequence[Seen]]
"""A message: its role, and its blocks."""
REASONING = {"thinking", "redacted_thinking"}


def request_problems(request: Request, model: Model) -> Iterator[str]:
    """Give what is wrong with *request* apart from its messages."""
    for at, block in enumerate(request.system):
        if not block.text.strip():
            yield f"system.{at}: text must contain more than white space"
        if _is_broken(block.text):
            yield f"system.{at}: a lone surrogate or a NUL"
    yield from _limits(request, model)
    yield from _tools(request)


def message_problems(at: int, message: Message, turn: Turn) -> Iterator[str]:
    """Give what is wrong with message number *at* by itself, whatever its place."""
    for number, (block, as_read) in enumerate(
        zip(message.content, turn[1], strict=True)
    ):
        where = f"messages.{at}.content.{number}"
        yield from _text(where, block, as_read)
        yield from _names(where, as_read)
        yield from _pictures(where, block)
        if isinstance(block, ToolUse) and not _is_object(block.input):
            yield f"{where}: input is no JSON object"
        if any(map(_is_broken, _strings(block))) or any(
            map(_has_bad_escape, _raws(block))
        ):
            yield f"{where}: a lone surrogate or a NUL"


def seen(block: object) -> Seen:
    match block:
        case Text():
            return Seen("text", text=block.text, cache_control=block.cache_control)
        case Image():
            return Seen("image", cache_control=block.cache_control)
        case Thinking():
            # What the API checks of it is that there is a signature.
            return Seen("thinking", text=block.signature)
        case RedactedThinking():
            return Seen("redacted_thinking", text=block.data)
        case ToolUse():
            return Seen(
                "tool_use",
                id=block.id,
                name=block.name,
                cache_control=block.cache_control,
            )
        case ToolResult():
            return Seen(
                "tool_result",
                tool_use_id=block.tool_use_id,
                cache_control=block.cache_control,
            )
        case Opaque():
            return _seen_opaque(block)
        case _:
            raise AssertionError(f"no block of a request: {block!r}")


class _Thinking(Struct, frozen=True):
    signature: str = ""
    data: str = ""


def _seen_opaque(block: Opaque) -> Seen:
    try:
        seen = msgspec.json.decode(block.raw, type=Seen)
        if seen.type in ("thinking", "redacted_thinking"):
            secret = msgspec.json.decode(block.raw, type=_Thinking)
            return replace(seen, text=secret.signature or secret.data)
        return seen
    except (msgspec.DecodeError, RecursionError):
        return Seen("")


def _text(where: str, block: object, as_read: Seen) -> Iterator[str]:
    if as_read.type == "text" and not as_read.text.strip():
        yield f"{where}: text must contain more than white space"
    if isinstance(block, ToolResult):
        for inner, part in enumerate(block.content):
            if isinstance(part, Text) and not part.text.strip():
                yield f"{where}.content.{inner}: text must contain more than white space"


def _limits(request: Request, model: Model) -> Iterator[str]:
    if request.max_tokens < 1:
        yield f"max_tokens: {request.max_tokens} is less than 1"
    elif model.window is not None and request.max_tokens > model.window:
        yield f"max_tokens: {request.max_tokens} exceeds the window of {model.window}"
    budget = request.thinking
    if not isinstance(budget, int):
        return
    if budget < MIN_BUDGET:
        yield f"thinking: the budget {budget} is less than {MIN_BUDGET}"
    if budget >= request.max_tokens:
        yield f"thinking: the budget {budget} must be below max_tokens"
    if request.temperature not in (None, 1.0):
        yield "temperature: must be 1 while thinking is on"


def _tools(request: Request) -> Iterator[str]:
    for at, tool in enumerate(request.tools):
        if not _NAME.fullmatch(tool.name):
            yield f"tools.{at}: the name {tool.name!r} does not match {_NAME.pattern}"
        if not _is_object(tool.input_schema):
            yield f"tools.{at}: input_schema is no JSON object"
        if _is_broken(tool.description):
            yield f"tools: a lone surrogate or a NUL in what {tool.name} says"
    for name, count in Counter(tool.name for tool in request.tools).items():
        if count > 1:
            yield f"tools: names must be unique, but {name!r} is not"


def _is_object(raw: msgspec.Raw) -> bool:
    try:
        return isinstance(msgspec.json.decode(raw), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def _names(where: str, block: Seen) -> Iterator[str]:
    if block.type != "tool_use":
        return
    if not _ID.fullmatch(block.id):
        yield f"{where}: the id {block.id!r} does not match {_ID.pattern}"
    if not _NAME.fullmatch(block.name):
        yield f"{where}: the name {block.name!r} does not match {_NAME.pattern}"


def is_marked(message: Message) -> bool:
    """Whether a cache breakpoint stands in *message*."""
    return any(seen(block).cache_control is not UNSET for block in message.content)


def mark_problems(
    system: Sequence[Text], turns: Sequence[Turn], first: int
) -> Iterator[str]:
    """Give what is wrong with the cache breakpoints.

    *turns* are messages from number *first* on; there is none in those before.
    """
    marks = [
        (f"system.{at}", "text", block.text, block.cache_control)
        for at, block in enumerate(system)
    ]
    marks += [
        (f"messages.{at}.content.{number}", block.type, block.text, block.cache_control)
        for at, (_, blocks) in enumerate(turns, first)
        for number, block in enumerate(blocks)
    ]
    short = False
    count = 0
    for where, kind, text, control in marks:
        if isinstance(control, UnsetType):
            continue
        count += 1
        if kind in REASONING:
            yield f"{where}: cache_control cannot be set for {kind}"
        if kind == "text" and not text.strip():
            yield f"{where}: cache_control cannot be set for empty text"
        if control.ttl == "1h" and short:
            yield f"{where}: a ttl of 1h must not come behind one of 5m"
        short = short or control.ttl == "5m"
    if count > MAX_BREAKPOINTS:
        yield f"cache_control: {count} blocks have it, {MAX_BREAKPOINTS} may"


def images_of(block: object) -> list[Image]:
    """Return the images in *block*."""
    inner = block.content if isinstance(block, ToolResult) else (block,)
    return [part for part in inner if isinstance(part, Image)]


def media_problems(count: int, size: int, model: Model) -> Iterator[str]:
    """Give what is wrong with *count* images of *size* base64 bytes together."""
    is_large = model.window is not None and model.window > 200_000
    most = MAX_IMAGES_LARGE if is_large else MAX_IMAGES
    if count > most:
        yield f"messages: {count} images, {most} may be sent"
    if size > MAX_MEDIA_BYTES:
        yield f"messages: {size} bytes of images, {MAX_MEDIA_BYTES} may be sent"


def _pictures(where: str, block: object) -> Iterator[str]:
    images = images_of(block)
    if isinstance(block, ToolResult) and block.is_error:
        if images:
            yield f"{where}: all content must be text if is_error is true"
        if not block.content:
            yield f"{where}: content cannot be empty if is_error is true"
    for image in images:
        if image.source.media_type not in _MEDIA_TYPES:
            yield f"{where}: media type {image.source.media_type!r}"
        if not 0 < len(image.source.data) <= MAX_IMAGE_BYTES:
            yield f"{where}: an image of {len(image.source.data)} bytes"


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return "\0" in text


def _strings(block: object) -> Iterator[str]:
    match block:
        case Text():
            yield block.text
        case Thinking():
            yield block.thinking
        case ToolResult():
            for part in block.content:
                yield from _strings(part)
        case _:
            pass


def _raws(block: object) -> Iterator[bytes]:
    match block:
        case ToolUse():
            yield bytes(block.input)
        case Opaque():
            yield bytes(block.raw)
        case _:
            pass


def _has_bad_escape(json: bytes) -> bool:
    if b"\\u" not in json:
        return False
    return any(found["bad"] for found in _SURROGATE_ESCAPE.finditer(json))
