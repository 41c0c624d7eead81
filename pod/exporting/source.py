"""What an export is made from."""

from collections.abc import Sequence

from msgspec import Struct

from pod.entries import AnyEntry, Header
from pod.tree import Tree


class Exported(Struct, frozen=True):
    """A session: its header, all entries in the log's order, and where it stands."""

    header: Header
    entries: Sequence[AnyEntry]
    leaf: str | None
    path: Sequence[AnyEntry]
    name: str


def exported(header: Header, entries: Sequence[AnyEntry]) -> Exported:
    """Return a session as exports take it."""
    tree = Tree(entries)
    return Exported(header, entries, tree.leaf, tree.path(tree.leaf), tree.name)
