"""Logs to test with."""

from collections.abc import Iterable, Iterator
from random import Random

from msgspec.structs import replace

from pod.codec import encode
from pod.entries import AnyEntry, Header, ItemEntry, Known, Label, Leaf
from pod.tree import Tree
from tests.pod.every_kind import of_any_kind
from worker.items import UserText

AT = "2026-11-30T05:00:00.000Z"
HEADER = Header(format=1, id="s1", at=AT, cwd="/work", system="You are Pod.")


def chain(*entries: Known) -> list[Known]:
    """Number the entries, name them e1, e2, …, and hang each from the one before."""
    return [
        replace(
            entry,
            seq=n,
            id=entry.id or f"e{n}",
            parent=entry.parent or (f"e{n - 1}" if n > 1 else None),
            at=AT,
        )
        for n, entry in enumerate(entries, 1)
    ]


def said(text: str) -> ItemEntry:
    return ItemEntry(item=UserText(text))


def talk(count: int) -> list[Known]:
    return chain(*(said(f"m{n}") for n in range(1, count + 1)))


def written(entries: Iterable[AnyEntry], header: Header = HEADER) -> bytes:
    return encode(header) + b"".join(map(encode, entries))


def random_tree(random: Random, size: int) -> list[Known]:
    """Make a log that branches, navigates and labels at random, as a session does.

    Entries of every kind are in it, and what they refer to came before them.
    """
    entries: list[Known] = []
    leaf: str | None = None
    for seq in range(1, size + 1):
        id = f"e{seq}"
        ids = [entry.id for entry in entries]
        draw = random.random()
        entry: Known = said(f"m{seq}")
        if ids and draw < 0.2:
            entry = Leaf(target=random.choice([None, *ids]))
        elif ids and draw < 0.3:
            entry = Label(target=random.choice(ids), label=random.choice(["", "a"]))
        elif ids and draw < 0.5:
            entry = of_any_kind(random, ids)
        entries.append(replace(entry, seq=seq, id=id, parent=leaf, at=AT))
        leaf = Tree.leaf_after(leaf, entries[-1])
    return entries


def ids(prefix: str = "n") -> Iterator[str]:
    n = 0
    while True:
        n += 1
        yield f"{prefix}{n}"


def clock() -> str:
    return AT
