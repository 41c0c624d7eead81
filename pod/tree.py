"""The tree that a log's entries form, and where the session stands in it."""

from collections.abc import Callable, Iterable, Iterator

from pod.codec import decode, encode, rewrite
from pod.entries import (
    ASIDE,
    AnyEntry,
    DeliveredEntry,
    InputEntry,
    Label,
    Leaf,
    RunEnd,
    RunStart,
    SessionInfo,
)


class Tree:
    """Entries by id and by parent, the leaf, and what names were given.

    Takes any log, damaged ones too: of a repeated id the first entry counts, an
    entry whose parent is not there is a root, and a cycle is cut where the walk
    comes round.
    """

    def __init__(self, entries: Iterable[AnyEntry] = ()) -> None:
        self.leaf: str | None = None
        """The id that the next entry hangs from; None: the root."""
        self.labels: dict[str, Label] = {}
        """Labels in force, by the id of their entry."""
        self.name = ""
        """What a person named the session."""
        self.delivered: set[str] = set()
        """Inputs that are in the history, on whatever branch."""
        self.ended: set[str | None] = set()
        """Runs that have an end, on whatever branch."""
        self._by_id: dict[str, AnyEntry] = {}
        self._children: dict[str | None, list[AnyEntry]] = {}
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, id: str | None) -> bool:
        """Whether there is such an entry; the root (None) always is."""
        return id is None or id in self._by_id

    def __getitem__(self, id: str) -> AnyEntry:
        return self._by_id[id]

    def add(self, entry: AnyEntry) -> None:
        """Take the next entry of the log; the leaf moves as the entry says."""
        if entry.id in self._by_id:
            return
        self._by_id[entry.id] = entry
        self._children.setdefault(entry.parent, []).append(entry)
        if not isinstance(entry, Leaf) or entry.target in self:
            self.leaf = self.leaf_after(self.leaf, entry)
        if isinstance(entry, Label):
            self.labels[entry.target] = entry
            if not entry.label:
                del self.labels[entry.target]
        elif isinstance(entry, SessionInfo):
            self.name = entry.name
        elif isinstance(entry, DeliveredEntry):
            self.delivered.update(entry.inputs)
        elif isinstance(entry, RunEnd):
            self.ended.add(entry.run)

    @staticmethod
    def leaf_after(leaf: str | None, entry: AnyEntry) -> str | None:
        """Return where the session stands after this entry, standing on *leaf*."""
        if isinstance(entry, Leaf):
            return entry.target
        return leaf if isinstance(entry, ASIDE) else entry.id

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

    def before(self, id: str) -> str | None:
        """Return the leaf that leaves this entry out, and what led in to it.

        That is its parent; but an input that was only accepted for it, or a run
        that only began for it, goes with it. Raises KeyError.
        """
        at = self._by_id[id].parent
        while at is not None:
            entry = self._by_id.get(at)
            if not isinstance(entry, InputEntry | DeliveredEntry | RunStart):
                break
            at = entry.parent
        return at if at in self._by_id else None


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
    kept = _kept(tree, leaf)
    ids: dict[str, str] = {}
    last: str | None = None
    for entry, line in lines:
        if entry.id not in kept:
            continue
        ids[entry.id] = new_id()
        if isinstance(entry, Label):
            parent: str | None = ids[entry.target]
        else:
            parent, last = last, ids[entry.id]
        yield rewrite(line, ids, seq=len(ids), id=ids[entry.id], parent=parent)


def _kept(tree: Tree, leaf: str | None) -> set[str]:
    """Return the ids that a fork keeps.

    Of the kinds beside the path only labels in force. Not an input whose
    delivery lies behind the leaf: nobody waits for it any more.
    """
    path = [entry for entry in tree.path(leaf) if not isinstance(entry, ASIDE)]
    here = {
        input
        for entry in path
        if isinstance(entry, DeliveredEntry)
        for input in entry.inputs
    }
    elsewhere = tree.delivered - here
    kept = {
        entry.id
        for entry in path
        if not (isinstance(entry, InputEntry) and entry.input in elsewhere)
    }
    return kept | {tree.labels[id].id for id in kept & tree.labels.keys()}
