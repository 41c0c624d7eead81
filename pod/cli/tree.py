"""``pod session tree``: a session's branches, and where it stands."""

from collections.abc import Iterator

import msgspec

from pod.cli.drawing import Told, draw, type_of
from pod.cli.flags import Workplace
from pod.cli.receipts import compactions, event_line
from pod.cli.sessions import damage_text, entry_line, store_of
from pod.cli.streams import give, say
from pod.entries import ASIDE, AnyEntry, ItemEntry
from pod.exits import Exit
from pod.log import read_log
from pod.scan import Scan
from pod.tree import Tree


def show_tree(
    session: str, place: Workplace, *, everything: bool, as_json: bool
) -> int:
    """Draw the tree of a session; as JSON a line for each entry of its log."""
    path = store_of(place).find(session)
    scan = read_log(path)
    tree = Tree(scan.entries)
    told = compactions(scan.entries)

    def line_of(entry: AnyEntry) -> str:
        return (entry_line(entry) or event_line(entry, told)).strip()

    if as_json:
        for line in _json_lines(scan, tree, line_of):
            give(line)
    else:
        give(_head(path.stem, scan, tree))
        for text in draw(tree, line_of, everything=everything):
            give(text + "\n")
    for damage in scan.damage:
        say(f"pod: {path}:{damage.line}: {damage_text(damage)}\n")
    return Exit.FAILED if scan.damage else Exit.DONE


def _head(id: str, scan: Scan, tree: Tree) -> str:
    ends = sum(
        not any(not isinstance(child, ASIDE) for child in tree.children(entry.id))
        for entry in scan.entries
        if not isinstance(entry, ASIDE)
    )
    where = tree.leaf or "the beginning"
    name = f" {tree.name!r}" if tree.name else ""
    return (
        f"session {id}{name}: {_entries(len(tree))},"
        f" {_branches(ends)}; it stands at {where}\n\n"
    )


def _entries(number: int) -> str:
    return "1 entry" if number == 1 else f"{number:,} entries"


def _branches(number: int) -> str:
    return "1 branch" if number == 1 else f"{number:,} branches"


class Node(msgspec.Struct, frozen=True):
    """One line of ``tree --json``.

    *item* is the kind of an item entry, *on_path* tells that the entry is on the
    path to the leaf.
    """

    id: str
    parent: str | None
    seq: int
    at: str
    type: str
    item: str
    text: str
    label: str
    on_path: bool
    is_leaf: bool


def _json_lines(scan: Scan, tree: Tree, told: Told) -> Iterator[str]:
    path = set(tree.path_ids(tree.leaf))
    encoder = msgspec.json.Encoder()
    for entry in scan.entries:
        label = tree.labels.get(entry.id)
        node = Node(
            id=entry.id,
            parent=entry.parent,
            seq=entry.seq,
            at=entry.at,
            type=type_of(entry),
            item=_item(entry),
            text=told(entry),
            label=label.label if label else "",
            on_path=entry.id in path,
            is_leaf=entry.id == tree.leaf,
        )
        yield encoder.encode(node).decode() + "\n"


def _item(entry: AnyEntry) -> str:
    if not isinstance(entry, ItemEntry):
        return ""
    return str(entry.item.__struct_config__.tag)
