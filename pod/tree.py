"""The tree that a log's entries form, and where the session stands in it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from pod.codec import decode, encode, rewrite
from pod.entries import (
    ASIDE,
    AnyEntry,
    BreakerChange,
    Compaction,
    CompactionFailed,
    CompactionStart,
    DeliveredEntry,
    HandedBack,
    InputEntry,
    ItemEntry,
    Label,
    Leaf,
    ModelChange,
    PromptChange,
    RunEnd,
    RunStart,
    SandboxChange,
    SessionInfo,
    ToolStart,
    TurnAbandoned,
    UsageEntry,
)

HELD = (
    RunStart,
    RunEnd,
    TurnAbandoned,
    ModelChange,
    PromptChange,
    SandboxChange,
    BreakerChange,
    Label,
    Leaf,
)
"""Kinds that are never let go of: small, and state() and the breaker need them."""

_LED_IN = (InputEntry, DeliveredEntry, RunStart, *ASIDE)
"""Kinds that a message brings along, or that lie beside the path before it."""

Load = Callable[[Collection[str]], Mapping[str, AnyEntry]]
"""Reads entries again, by their ids. Raises LogFailed."""


_PLAIN = (ItemEntry, UsageEntry, ToolStart)
"""Most of a log: they move the leaf and tell the tree nothing else."""


class Stub(Struct, frozen=True, gc=False):
    """What is left of an entry that was let go of: its place in the tree."""

    seq: int
    id: str
    parent: str | None


class Tree:
    """Entries by id and by parent, the leaf, and what names were given.

    Takes any log, damaged ones too: of a repeated id the first entry counts, an
    entry whose parent is not there is a root, and a cycle is cut where the walk
    comes round.

    Where *load* is given, entries can be let go of (free): who asks for one then
    gets it from there. What it raises, and KeyError for an entry that is not
    there any more, may come from every method that gives entries.
    """

    def __init__(
        self, entries: Iterable[AnyEntry] = (), *, load: Load | None = None
    ) -> None:
        self.leaf: str | None = None
        """The id that the next entry hangs from; None: the root."""
        self.labels: dict[str, Label] = {}
        """Labels in force, by the id of their entry."""
        self.name = ""
        """What a person named the session."""
        self.delivered: set[str] = set()
        """Inputs that are in the history, on whatever branch, or were handed back."""
        self.waiting: dict[str, InputEntry] = {}
        """Inputs that were accepted and are none of those, in order, by their id.

        Wherever they hang: who navigates meanwhile does not lose them.
        """
        self.running: dict[str, RunStart] = {}
        """Runs that have no end, on whatever branch, by their id."""
        self.compacting: dict[str, CompactionStart] = {}
        """Compactions that have no end, on whatever branch, by their id."""
        self._load = load
        self._by_id: dict[str, AnyEntry | Stub] = {}
        self._children: dict[str | None, list[str]] = {}
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, id: str | None) -> bool:
        """Whether there is such an entry; the root (None) always is."""
        return id is None or id in self._by_id

    def __getitem__(self, id: str) -> AnyEntry:
        return self._whole([self._by_id[id]])[0]

    def add(self, entry: AnyEntry) -> None:
        """Take the next entry of the log; the leaf moves as the entry says."""
        if entry.id in self._by_id:
            return
        self._by_id[entry.id] = entry
        self._children.setdefault(entry.parent, []).append(entry.id)
        if isinstance(entry, _PLAIN):
            self.leaf = entry.id
            return
        if not isinstance(entry, Leaf) or entry.target in self:
            self.leaf = self.leaf_after(self.leaf, entry)
        if isinstance(entry, Label):
            self.labels[entry.target] = entry
            if not entry.label:
                del self.labels[entry.target]
        elif isinstance(entry, SessionInfo):
            self.name = entry.name
        elif isinstance(entry, InputEntry):
            if entry.input not in self.delivered:
                self.waiting[entry.input] = entry
        elif isinstance(entry, DeliveredEntry | HandedBack):
            self.delivered.update(entry.inputs)
            for input in entry.inputs:
                self.waiting.pop(input, None)
        elif isinstance(entry, RunStart):
            self.running[entry.run or entry.id] = entry
        elif isinstance(entry, RunEnd):
            self.running.pop(entry.run or "", None)
        elif isinstance(entry, CompactionStart):
            self.compacting[entry.compaction_id] = entry
        elif isinstance(entry, Compaction | CompactionFailed):
            self.compacting.pop(entry.compaction_id, None)

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
        ids = list(self._children.get(id, ()))
        if id is None:
            for parent, orphans in self._children.items():
                if parent is not None and parent not in self._by_id:
                    ids += orphans
        found = [self._by_id[child] for child in ids]
        return self._whole(sorted(found, key=lambda entry: entry.seq))

    def path_ids(self, leaf: str | None) -> list[str]:
        """Return the ids of the path to *leaf*; nothing is read again.

        Raises KeyError if there is no such entry.
        """
        return [node.id for node in self._nodes(leaf)]

    def ids(self) -> list[str]:
        """Return the ids of all entries, in the log's order."""
        return list(self._by_id)

    def entries(self, ids: Iterable[str]) -> list[AnyEntry]:
        """Return these entries, in this order. Raises KeyError."""
        return self._whole([self._by_id[id] for id in ids])

    def path(self, leaf: str | None) -> list[AnyEntry]:
        """Return the entries from the root to *leaf*, both included.

        Raises KeyError if there is no such entry.
        """
        return self._whole(self._nodes(leaf))

    def path_in_memory(self, leaf: str | None) -> list[AnyEntry]:
        """Return the path to *leaf* without the entries that were let go of."""
        nodes = self._nodes(leaf)
        return [entry for entry in nodes if not isinstance(entry, Stub)]

    def before(self, id: str) -> str | None:
        """Return the leaf that leaves this entry out (see before). Raises KeyError."""
        return before(self.path(id))

    def free(self, needed: Collection[str]) -> None:
        """Let go of all entries but those *needed* and those of the kinds HELD."""
        if self._load is None:
            return
        kept = (Stub, *HELD)
        for id, entry in self._by_id.items():
            if id not in needed and not isinstance(entry, kept):
                self._by_id[id] = Stub(entry.seq, id, entry.parent)

    def hold(self, entries: Iterable[AnyEntry]) -> None:
        """Keep these in memory again."""
        self._by_id.update((entry.id, entry) for entry in entries)

    def _nodes(self, leaf: str | None) -> list[AnyEntry | Stub]:
        found: list[AnyEntry | Stub] = []
        seen: set[str] = set()
        at = None if leaf is None else self._by_id[leaf]
        while at is not None and at.id not in seen:
            found.append(at)
            seen.add(at.id)
            at = None if at.parent is None else self._by_id.get(at.parent)
        found.reverse()
        return found

    def _whole(self, nodes: list[AnyEntry | Stub]) -> list[AnyEntry]:
        """Return the entries, those that were let go of read again in one go."""
        missing = {node.id for node in nodes if isinstance(node, Stub)}
        read = self._load(missing) if missing and self._load else {}
        return [read[node.id] if isinstance(node, Stub) else node for node in nodes]


def before(path: Sequence[AnyEntry]) -> str | None:
    """Return the leaf that leaves out the last entry of *path*, and what led in to it.

    That is the one before it; but an input that was only accepted for it, or a
    run that only began for it, goes with it.
    """
    rest = list(path[:-1])
    while rest and isinstance(rest[-1], _LED_IN):
        rest.pop()
    return rest[-1].id if rest else None


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
