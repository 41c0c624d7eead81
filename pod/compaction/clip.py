"""Shortening the items of a unit that is too large to be kept whole."""

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw

from pod.entries import Clip
from pod.view import Shown, clipped
from tools.cap import cap
from worker.items import (
    AssistantText,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)

LEAST = 64
"""Tokens an item is left at least: less than the words about what is missing."""


def clips_to_fit(
    kept: Sequence[Shown], *, room: int, count: Callable[[Item], int]
) -> tuple[Clip, ...]:
    """Return the clips after which *kept* has at most *room* tokens, or near it.

    The largest items are cut down, all to the same size: their beginning and
    their end stay, and a note says where the whole is. Reasoning, blocks that
    Pod does not know and small items are left alone, so that the least that can
    be reached may be above *room*.
    """
    sizes = [count(shown.item) for shown in kept]
    can = [_is_clippable(shown.item) for shown in kept]
    fixed = sum(size for size, able in zip(sizes, can, strict=True) if not able)
    free = sorted(size for size, able in zip(sizes, can, strict=True) if able)
    most = max(LEAST, _level(free, room - fixed))
    clips: list[Clip] = []
    for shown, size, able in zip(kept, sizes, can, strict=True):
        if not able or size <= most:
            continue
        text = _shortened(shown, most, count)
        if count(clipped(shown.item, text)) < size:
            clips.append(Clip(entry=shown.entry, text=text))
    return tuple(clips)


def in_the_log(entry: str) -> str:
    """Return where the whole of a clipped item is, if nobody kept it elsewhere."""
    return f"the session log, entry {entry}"


def _level(sizes: Sequence[int], room: int) -> int:
    """Return the size to which all larger ones must sink for the sum to fit."""
    left = room
    for at, size in enumerate(sizes):
        share = left // (len(sizes) - at)
        if size > share:
            return share
        left -= size
    return sizes[-1] if sizes else 0


def _is_clippable(item: Item) -> bool:
    match item:
        case UserText() | ToolResult() | AssistantText() | SystemText() | ToolCall():
            return True
        case Reasoning() | Opaque():
            return False


def _shortened(shown: Shown, tokens: int, count: Callable[[Item], int]) -> str:
    """Return the content that brings the item down to *tokens*, or near them."""
    item = shown.item
    where = in_the_log(shown.entry)

    def tokens_with(text: str) -> int:
        return count(clipped(item, text))

    if isinstance(item, ToolCall):
        return _shortened_arguments(item.arguments, tokens, tokens_with, where)
    text = _content(item)
    # Of a tool's output alone: in a message such a note is the user's own words.
    if isinstance(item, ToolResult) and (found := _SPILLED.search(text)):
        where = found[1]
    images = len(item.images) if isinstance(item, UserText | ToolResult) else 0
    note = f"\n[{images} images left out]" if images else ""
    return _capped(text, tokens, lambda part: tokens_with(part + note), where) + note


def _content(item: Item) -> str:
    match item:
        case UserText(text=text) | AssistantText(text=text) | SystemText(text=text):
            return text
        case ToolResult(summary=summary, content=content):
            return summary if content is None else content
        case Reasoning() | Opaque() | ToolCall():
            return ""


def _capped(text: str, tokens: int, count: Callable[[str], int], where: str) -> str:
    """Return *text* cut in the middle so that *count* gives *tokens* at most."""
    if count(text) <= tokens:
        return text
    rest = count("")
    size = max(len(text.encode("utf-8", "replace")), 1)
    return cap(
        text,
        max_bytes=size,
        max_tokens=max(tokens - rest, 1),
        count=lambda part: count(part) - rest,
        where=where,
    ).text


def _shortened_arguments(
    arguments: str, tokens: int, count: Callable[[str], int], where: str
) -> str:
    """Return the arguments with their long values cut down, still a JSON object."""
    try:
        values = msgspec.json.decode(arguments, type=dict[str, Raw])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return "{}"
    longest = sorted(values, key=lambda name: len(bytes(values[name])), reverse=True)
    for name in longest:
        rest = count(_encoded({**values, name: Raw(b'""')}))
        text = _as_text(values[name])

        def with_part(part: str, name: str = name) -> int:
            return count(_encoded({**values, name: Raw(msgspec.json.encode(part))}))

        most = max(tokens, rest + LEAST // 2)
        values[name] = Raw(msgspec.json.encode(_capped(text, most, with_part, where)))
        shortened = _encoded(values)
        if count(shortened) <= tokens:
            return shortened
    return _encoded(values)


def _as_text(value: Raw) -> str:
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.DecodeError:
        return bytes(value).decode("utf-8", "replace")


def _encoded(values: dict[str, Raw]) -> str:
    return msgspec.json.encode(values).decode()


_SPILLED = re.compile(
    r"\[(?:…[^\n\]]*; the full text is in|the complete output \(\d+ bytes\) is in)"
    r" ([^\n\]…]+?)[ \],]"
)
"""How tools say where the whole of a long output is."""
