"""Text that is too long for the model, cut in the middle."""

from collections.abc import Callable

from msgspec import Struct

SHORT_LINE = 1024
"""Bytes up to which a cut moves to the end of a line rather than into it."""

_MOST_TRIES = 8
"""Recounts before the limit in bytes settles it; two or three are usual."""


class Capped(Struct, frozen=True):
    """What is left of a text: all of it, if *left_out_bytes* is 0."""

    text: str
    left_out_bytes: int = 0


def fits(
    text: str, *, max_bytes: int, max_tokens: int, count: Callable[[str], int]
) -> bool:
    """Tell whether *text* is within both limits.

    *count* gives the tokens of a text. It is not asked where the bytes say it
    already: a token is at least one byte.
    """
    size = _bytes(text, most=max_bytes)
    return size <= max_bytes and (size <= max_tokens or count(text) <= max_tokens)


def cap(
    text: str,
    *,
    max_bytes: int,
    max_tokens: int,
    count: Callable[[str], int],
    where: str,
) -> Capped:
    """Bring *text* within both limits; keep its beginning and its end.

    In the middle it then says how much was left out, and that the full text
    is in *where* (a path; "" for nowhere). Cuts lie between lines, or inside
    a line that is long. The result is never over either limit, even where
    they are too small for the words in the middle. Lone surrogates, which
    clean text has none of, become question marks in a text that is cut.
    """
    if fits(text, max_bytes=max_bytes, max_tokens=max_tokens, count=count):
        return Capped(text)
    # One less than all of it: head and tail never meet.
    room = min(max_bytes, _bytes(text) - 1)
    for _ in range(_MOST_TRIES):
        capped = _cut(text, room, where)
        size = _bytes(capped.text)
        if size <= max_tokens:
            return capped
        tokens = count(capped.text)
        if tokens <= max_tokens:
            return capped
        # Head and tail may differ in density: aim a little lower than the rule
        # of three says, and always shrink.
        room = min(size - 1, size * max_tokens * 15 // (tokens * 16))
    return _cut(text, min(room, max_tokens), where)


def _cut(text: str, room: int, where: str) -> Capped:
    """Cut *text* to at most *room* bytes."""
    total = _bytes(text)
    # The figures in the middle are at their longest where all is left out.
    middle = _middle(text.count("\n"), total, where)
    kept = room - _bytes(middle)
    if kept < 0:
        head = _head(text, room)
        return Capped(head, total - _bytes(head))
    head = _head(text, (kept + 1) // 2)
    tail = _tail(text, kept // 2)
    lines = text.count("\n", len(head), len(text) - len(tail))
    left_out = total - _bytes(head) - _bytes(tail)
    middle = _middle(lines, left_out, where)
    if not head or head.endswith("\n"):
        middle = middle.removeprefix("\n")
    return Capped(head + middle + tail, left_out)


def _middle(lines: int, size: int, where: str) -> str:
    much = f"{lines} lines, {size} bytes" if lines else f"{size} bytes"
    there = f"; the full text is in {where}" if where else ""
    return f"\n[… {much} left out{there} …]\n"


def _head(text: str, room: int) -> str:
    # A character is at least one byte, so this slice holds all that has room.
    encoded = text[:room].encode("utf-8", "replace")[:room]
    head = encoded.decode("utf-8", "ignore")
    end = head.rfind("\n") + 1
    if end > 0 and _bytes(head[end:]) <= min(SHORT_LINE, room // 2):
        return head[:end]
    return head


def _tail(text: str, room: int) -> str:
    if room == 0:
        return ""
    encoded = text[-room:].encode("utf-8", "replace")[-room:]
    tail = encoded.decode("utf-8", "ignore")
    start = tail.find("\n")
    if start >= 0 and _bytes(tail[:start]) <= min(SHORT_LINE, room // 2):
        return tail[start + 1 :]
    return tail


def _bytes(text: str, *, most: int | None = None) -> int:
    """Return the size of *text* in UTF-8; beyond *most* any larger number will do."""
    if text.isascii() or (most is not None and len(text) > most):
        return len(text)
    return len(text.encode("utf-8", "replace"))
