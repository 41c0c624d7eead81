"""A record in pieces, and as many of them as fit into one prompt."""

from collections.abc import Callable, Iterable, Sequence

from worker.compact.conversation import spoken
from worker.items import Item

Count = Callable[[str], int]

GAP = "\n\n"
LEAST_ROOM = 256
"""Tokens; with less room for the record no summary is worth asking for."""
_GAP_TOKENS = 2


def pieces_of(items: Iterable[Item]) -> list[str]:
    """Return what each of *items* has to say, oldest first; see conversation.py."""
    return [text for item in items if (text := spoken(item))]


def window(
    pieces: Sequence[str], room: int | None, count: Count
) -> tuple[str, list[str]]:
    """Return the first pieces as one text of at most *room* tokens, and the rest.

    A piece that is too large by itself is cut in two, so at least something of
    the first one is in the text. *room* None: all of it is.
    """
    if room is None:
        return GAP.join(pieces), []
    taken: list[str] = []
    left = room
    rest = list(pieces)
    while rest:
        size = count(rest[0]) + _GAP_TOKENS
        if size > left:
            break
        taken.append(rest.pop(0))
        left -= size
    if not taken:
        first, second = _halves(rest[0], room, count)
        return first, [second, *rest[1:]] if second else rest[1:]
    return GAP.join(taken), rest


def _halves(piece: str, room: int, count: Count) -> tuple[str, str]:
    """Return the beginning of *piece* in at most *room* tokens, and what follows."""
    length = len(piece)
    while length > 1 and count(piece[:length]) > room:
        # Tokens do not grow evenly with characters: approach it from above.
        length = max(min(length * 9 // 10, length * room // count(piece[:length])), 1)
    rest = piece[length:]
    return piece[:length], f"{CONTINUED}{rest.lstrip()}" if rest.strip() else ""


CONTINUED = "[Continued]: "
"""How the rest of a piece begins that was cut: text at the margin is the record's own."""
