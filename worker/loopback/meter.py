"""Tokens and the prompt cache, played: small, and the same on every run.

A token is four bytes of UTF-8; each block and each tool costs four more for
its frame; a picture costs what the API's rule says (pixels / 750, at most
1600). That is not how a real model counts, and need not be: what matters is
that the figures grow with the prompt and that two runs agree.

The cache knows prefixes. A request writes the prefix that ends at each of its
breakpoints, if it is long enough; a later request reads the longest prefix
written before that ends at one of its own breakpoints or up to twenty blocks
before one (the API's look-back). Nothing expires: there is no clock here.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Literal

from msgspec import Raw, Struct

from worker.loopback.body import (
    Base64,
    Block,
    CacheControl,
    Image,
    Prompt,
    RedactedThinking,
    Text,
    Thinking,
    Tool,
    ToolResult,
    ToolUse,
)
from worker.loopback.images import look_at
from worker.usage import Usage

# From the prompt caching page of the API: shorter prefixes are not cached
# (1024 for most models), and a breakpoint looks back over this many blocks.
MINIMUM = 1024
LOOK_BACK = 20
# The server's memory, not the API's: prefixes kept before the oldest goes.
KEPT = 10_000

_FRAME = 4
_PICTURE = 1600


class Segment(Struct, frozen=True):
    """A piece of the prompt: a tool, a block of the system prompt, a block."""

    payload: bytes
    tokens: int
    ttl: Literal["5m", "1h"] | None = None
    """Set where a cache breakpoint stands behind it."""


def tokens_of(text: str | bytes) -> int:
    """Count *text* alone, without a frame."""
    data = text.encode() if isinstance(text, str) else text
    return -(-len(data) // 4)


def prompt_tokens(prompt: Prompt) -> int:
    """Count the whole prompt."""
    return sum(segment.tokens for segment in segments(prompt))


def segments(prompt: Prompt) -> list[Segment]:
    """Take a prompt apart in the order the cache sees: tools, system, messages."""
    found = [_tool(tool) for tool in prompt.tools]
    found += [_block("system", block) for block in prompt.system_blocks]
    for message in prompt.messages:
        found += [_block(message.role, block) for block in message.blocks]
    if prompt.cache_control is not None and found:
        last = found[-1]
        found[-1] = Segment(last.payload, last.tokens, prompt.cache_control.ttl)
    return found


class PromptCache:
    """Which prefixes the provider still has."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def charge(self, model: str, parts: list[Segment]) -> Usage:
        """Read and write the cache for one prompt; return its prompt tokens."""
        digests, totals = _prefixes(model, parts)
        marks = [i for i, part in enumerate(parts) if part.ttl is not None]
        read = max((totals[i] for i in self._hits(digests, marks)), default=0)
        written = max((totals[i] for i in marks if totals[i] >= MINIMUM), default=0)
        hour = max(
            (totals[i] for i in marks if parts[i].ttl == "1h" and totals[i] >= MINIMUM),
            default=0,
        )
        for i in marks:
            if totals[i] >= MINIMUM:
                self._keep(digests[i])
        total = totals[-1] if totals else 0
        write = max(0, written - read)
        return Usage(
            input=total - read - write,
            cache_read=read,
            cache_write=write,
            cache_write_1h=max(0, hour - read),
        )

    def _hits(self, digests: list[bytes], marks: list[int]) -> Iterator[int]:
        for mark in marks:
            for i in range(mark, max(-1, mark - LOOK_BACK - 1), -1):
                if digests[i] in self._known:
                    self._known.move_to_end(digests[i])
                    yield i
                    break

    def _keep(self, digest: bytes) -> None:
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)


def _prefixes(model: str, parts: list[Segment]) -> tuple[list[bytes], list[int]]:
    running, total = hashlib.blake2b(model.encode(), digest_size=16), 0
    digests: list[bytes] = []
    totals: list[int] = []
    for part in parts:
        running.update(len(part.payload).to_bytes(8, "big"))
        running.update(part.payload)
        total += part.tokens
        digests.append(running.digest())
        totals.append(total)
    return digests, totals


def _tool(tool: Tool) -> Segment:
    words = (b"tool", tool.name.encode(), tool.description.encode())
    payload = b"\0".join((*words, bytes(tool.input_schema)))
    return Segment(payload, _FRAME + tokens_of(payload), _ttl(tool.cache_control))


def _block(role: str, block: Block) -> Segment:
    kind = type(block).__name__.encode()
    payload = b"\0".join((role.encode(), kind, _payload(block)))
    ttl = (
        None
        if isinstance(block, Thinking | RedactedThinking)
        else _ttl(block.cache_control)
    )
    if isinstance(block, ToolResult) and isinstance(block.content, list):
        inner = [getattr(part, "cache_control", None) for part in block.content]
        ttl = next((_ttl(mark) for mark in reversed(inner) if mark), ttl)
    return Segment(payload, _FRAME + _tokens(block), ttl)


def _ttl(mark: CacheControl | None) -> Literal["5m", "1h"] | None:
    return None if mark is None else mark.ttl


def _payload(block: Block) -> bytes:
    if isinstance(block, Text):
        return block.text.encode()
    if isinstance(block, Image):
        return _source(block).encode()
    if isinstance(block, Thinking):
        return f"{block.thinking}\0{block.signature}".encode()
    if isinstance(block, RedactedThinking):
        return block.data.encode()
    if isinstance(block, ToolUse):
        return f"{block.id}\0{block.name}\0".encode() + _arguments(block.input)
    if isinstance(block, ToolResult):
        head = f"{block.tool_use_id}\0{block.is_error}\0".encode()
        if isinstance(block.content, list):
            return head + b"\0".join(_payload(part) for part in block.content)
        return head + (block.content or "").encode()
    return b""


def _arguments(arguments: dict[str, Raw]) -> bytes:
    return b",".join(
        name.encode() + b":" + bytes(value) for name, value in arguments.items()
    )


def _tokens(block: Block) -> int:
    if isinstance(block, Image):
        return _picture(block)
    if isinstance(block, ToolResult) and isinstance(block.content, list):
        return _FRAME + sum(_FRAME + _tokens(part) for part in block.content)
    return tokens_of(_payload(block))


def _source(image: Image) -> str:
    source = image.source
    if isinstance(source, Base64):
        return source.data
    return repr(source)


def _picture(image: Image) -> int:
    if not isinstance(image.source, Base64):
        return _PICTURE
    try:
        picture = look_at(image.source.data)
    except ValueError:
        return _PICTURE
    if picture is None:
        return _PICTURE
    return min(_PICTURE, -(-picture.width * picture.height // 750))
