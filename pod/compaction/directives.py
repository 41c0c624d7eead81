"""What the user said, carried word for word from compaction to compaction."""

from collections.abc import Callable, Sequence

from pod.compaction.framing import directive_text
from pod.entries import Directive
from tools.cap import cap
from worker.items import Item, UserText


def directives_of(
    head: Sequence[Item],
    carried: Sequence[Directive],
    *,
    budget: int,
    count: Callable[[str], int],
    where: str = "the session log",
) -> tuple[Directive, ...]:
    """Return the messages that outlast the compaction of *head*, oldest first.

    They are the user's own (not synthetic) of *head*, behind those *carried* by
    the compaction before. The first and the newest always stay; the others,
    newest first, while *budget* (tokens, of the messages as they are rendered)
    has room. Where all fit nothing is left out or clipped. Where the first or
    the newest is too large it is clipped to half of the budget, its beginning
    and end kept, with *where* the whole is. Of equal messages the newest is kept.
    """
    said = [*carried, *_own_messages(head)]
    if not said:
        return ()
    first, last = 0, len(said) - 1
    sizes = [count(directive_text(directive.text)) for directive in said]
    kept = {last: said[last]}
    if first != last:
        kept[first] = said[first]
    _clip(kept, sizes, budget, count, where)
    left = budget - sum(sizes[at] for at in kept)
    texts = {said[last].text}
    for at in range(last - 1, first, -1):
        if said[at].text not in texts and sizes[at] <= left:
            kept[at] = said[at]
            left -= sizes[at]
        texts.add(said[at].text)
    return tuple(kept[at] for at in sorted(kept))


def directive_tokens(
    directives: Sequence[Directive], count: Callable[[str], int]
) -> int:
    """Return the tokens of the directives as they are rendered, without the heading."""
    return sum(count(directive_text(directive.text)) for directive in directives)


def _own_messages(head: Sequence[Item]) -> list[Directive]:
    return [
        Directive(item.text)
        for item in head
        if isinstance(item, UserText) and not item.synthetic and item.text.strip()
    ]


def _clip(
    kept: dict[int, Directive],
    sizes: list[int],
    budget: int,
    count: Callable[[str], int],
    where: str,
) -> None:
    """Clip what must stay to half of the budget each, where it exceeds the whole.

    Always to the same half: a clipped message is not clipped again later.
    """
    half = budget // 2
    frame = count(directive_text(""))
    # The newest first: it keeps more than half where the first leaves it room.
    for at in sorted(kept, reverse=True):
        others = sum(min(sizes[other], half) for other in kept if other != at)
        if sizes[at] <= max(half, budget - others):
            continue
        text = kept[at].text
        short = cap(
            text,
            max_bytes=max(len(text.encode("utf-8", "replace")), 1),
            max_tokens=max(half - frame, 1),
            count=lambda part: count(directive_text(part)) - frame,
            where=where,
        ).text
        kept[at] = Directive(short, clipped=True)
        sizes[at] = count(directive_text(short))
