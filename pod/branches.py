"""Where a navigation leads to, and what it leaves behind; pure."""

from collections.abc import Sequence

from msgspec import Struct

from pod.entries import (
    ASIDE,
    AnyEntry,
    CustomMessage,
    ItemEntry,
)
from pod.errors import AmbiguousEntry, EntryNotFound
from pod.tree import Tree, before
from worker.items import UserText

ROOT = "root"
"""What people call the place before the first entry."""


class Destination(Struct, frozen=True):
    """Where the leaf goes, and the text that is taken out of the history by it.

    *entry* is the one that was meant; None: the beginning.
    """

    leaf: str | None
    text: str = ""
    entry: str | None = None


class LeftBehind(Struct, frozen=True):
    """What is on the path to the old leaf and not on that to the new one, in order.

    *ancestor* is the deepest entry on both (None: only the beginning is).
    """

    ancestor: str | None
    entries: Sequence[AnyEntry]


def destination(tree: Tree, target: str | None) -> Destination:
    """Return where going to *target* (None: before all) puts the leaf.

    A message of the user's or of a program's leaves the history, to be changed
    and given again: the leaf goes before it, and its text is handed back. What
    the runtime wrote in the user's place is no message of his. An entry beside
    the path (a label, a navigation) stands for the one it hangs from. Any other
    entry becomes the leaf. Raises EntryNotFound, LogFailed.
    """
    if target not in tree:
        raise EntryNotFound(f"Entry {target} not found in this session")
    if target is None:
        return Destination(None)
    path = [e for e in tree.path(target) if not isinstance(e, ASIDE)]
    if not path:
        return Destination(None)
    entry = path[-1]
    text = _given_text(entry)
    if text is None:
        return Destination(entry.id, "", entry.id)
    return Destination(before(path), text, entry.id)


def _given_text(entry: AnyEntry) -> str | None:
    """Return the text that somebody gave and may change, None for anything else."""
    match entry:
        case ItemEntry(item=UserText(text=text, synthetic=False)):
            return text
        case CustomMessage(text=text):
            return text
        case _:
            return None


def left_behind(tree: Tree, old: str | None, new: str | None) -> LeftBehind:
    """Return what moving the leaf from *old* to *new* leaves behind.

    Compared is with where the leaf goes, not with what was asked for: a user
    message that is gone back to is left behind itself. Compactions do not stop
    the walk. Raises KeyError, LogFailed.
    """
    kept = set(tree.path_ids(new))
    path = tree.path_ids(old)
    shared = sum(id in kept for id in path)
    left = [id for id in path if id not in kept]
    return LeftBehind(path[shared - 1] if shared else None, tree.entries(left))


def find_entry(tree: Tree, wanted: str) -> str | None:
    """Return the entry that a person means: an id, a label, or what an id begins with.

    ROOT is the place before the first entry (None), unless an entry has that
    label. An id goes before a label, a label before a part of an id. Raises
    EntryNotFound, AmbiguousEntry.
    """
    if wanted in tree:
        return wanted
    labelled = [id for id, label in tree.labels.items() if label.label == wanted]
    if len(labelled) == 1:
        return labelled[0]
    if labelled:
        raise AmbiguousEntry(
            f"{len(labelled)} entries have the label {wanted}: {_some(labelled)}"
        )
    if wanted == ROOT:
        return None
    found = [id for id in tree.ids() if wanted and id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousEntry(
            f"{len(found)} entries begin with {wanted}: {_some(found)}"
        )
    raise EntryNotFound(
        f"Entry {wanted} not found: no id begins so, no label is it; pod session tree"
        " shows what is there"
    )


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:10]) + (", …" if len(ids) > 10 else "")
