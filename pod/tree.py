"""The tree that a log's entries form, and where the session stands in it."""

from collections.abc import Callable, Iterable, Iterator

from pod.codec import decode, encode, rewrite
from pod.entries import ASIDE, AnyEntry, Label, Leaf, SessionInfo


class Tree:
    """Entries by id and by parent, the leaf, and what names were given.

    Takes any log, damaged ones too: of a repeated id the first entry counts, an
    entry whose parent is not there is a root, and a cycle is cut where the walk
    comes round.
    """

    def __init__(self, entries: Iterable[AnyEntry] = ()) -> None:
        self.leaf: str | None = None
        """The id that the next entry hangs from; None: the root."""
        self.labels: dict[str, str] = {}
        """Labels in force, by the id of their entry."""
        self.name = ""
        """What a person named the session."""
        self._by_id: dict[str, AnyEntry] = {}
        self._children: dict[str | None, list[AnyEntry]] = {}
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, id: object) -> bool:
        return id in self._by_id

    def __getitem__(self, id: str) -> AnyEntry:
        return self._by_id[id]

    def add(self, entry: AnyEntry) -> None:
        """Take the next entry of the log; the leaf moves as the entry says."""
        if entry.id in self._by_id:
            return
        self._by_id[entry.id] = entry
        self._children.setdefault(entry.parent, []).append(entry)
        match entry:
            case Leaf(target=target):
                if target is None or target in self._by_id:
                    self.leaf = target
            case Label(target=target, label=label):
                self.labels.pop(target, None)
                if label:
                    self.labels[target] = label
            case SessionInfo(name=name):
                self.name = name
            case _ if not isinstance(entry, ASIDE):
                self.leaf = entry.id

    def children(self, id: str | None) -> list[AnyEntry]:
        """Return the entries whose parent this is, in the log's order.

        The children of None are the roots, orphans included.
        """
        found = list(self._children.get(id, ()))
        if id is None:
            for parent, orphans in self._children.items():
                if parent is not None and parent not in self._by_id:
                    found += orphans
            found.sort(key=lambda entry: entry.seq)
        return found

    def path(self, leaf: str | None) -> list[AnyEntry]:
        """Return the entries from the root to *leaf*, both included.

        Raises KeyError if there is no such entry.
        """
        found: list[AnyEntry] = []
        seen: set[str] = set()
        at = None if leaf is None else self._by_id[leaf]
        while at is not None and at.id not in seen:
            found.append(at)
            seen.add(at.id)
            at = None if at.parent is None else self._by_id.get(at.parent)
        found.reverse()
        return found


def fork(
    entries: Iterable[AnyEntry], leaf: str | None, new_id: Callable[[], str]
) -> list[AnyEntry]:
    """Return the path to *leaf* as a log of its own, with the labels on it.

    Every id is new, every reference follows, seq counts from 1. Raises KeyError
    if there is no such leaf.
    """
    log = list(entries)
    lines = ((entry, encode(entry)) for entry in log)
    return [decode(line) for line in fork_lines(lines, Tree(log), leaf, new_id)]


def fork_lines(
    lines: Iterable[tuple[AnyEntry, bytes]],
    tree: Tree,
    leaf: str | None,
    new_id: Callable[[], str],
) -> Iterator[bytes]:
    """Give the lines of a fork, as fork does, from those of its source.

    Fields that this version does not know are carried over.
    """
    path = {entry.id for entry in tree.path(leaf) if not isinstance(entry, ASIDE)}
    ids: dict[str, str] = {}
    last: str | None = None
    for seq, (entry, line) in enumerate(_kept(lines, path, tree), 1):
        ids[entry.id] = new_id()
        if isinstance(entry, Label):
            parent: str | None = ids[entry.target]
        else:
            parent, last = last, ids[entry.id]
        yield rewrite(line, ids, seq=seq, id=ids[entry.id], parent=parent)


def _kept(
    lines: Iterable[tuple[AnyEntry, bytes]], path: set[str], tree: Tree
) -> Iterator[tuple[AnyEntry, bytes]]:
    for entry, line in lines:
        if isinstance(entry, Label):
            if entry.target in path and tree.labels.get(entry.target) == entry.label:
                yield entry, line
        elif entry.id in path:
            yield entry, line
