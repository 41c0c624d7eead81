"""A session's tree as lines of text: the path to the leaf at the margin, side branches in.

Pure, without recursion, and bounded: long stretches in which nothing branches
are folded, and of a tree that is still too long the ends and the leaf are shown.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from pod.entries import (
    ASIDE,
    AnyEntry,
    BranchSummary,
    Compaction,
    CustomMessage,
    ItemEntry,
    Unknown,
)
from pod.tree import Tree
from tools.text import counted, one_line
from worker.items import (
    AssistantText,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)

LEAST_FOLDED = 3
"""Entries in a row that are worth a fold."""
FEW = 150
"""Rows from which on the user's messages are folded, too."""
MOST = 1_000
"""Most rows that are shown without asking for all."""
DEEPEST = 16
"""Levels of branches inside branches that are drawn; deeper ones are counted."""

Weight = int
"""2: always shown; 1: as long as there are few rows; 0: folded; -1: with all alone."""


class Row(Struct, frozen=True):
    """One line: an entry, or (without an id) what stands for several."""

    before: str
    id: str
    text: str
    weight: Weight
    kind: str
    is_leaf: bool = False
    is_said: bool = False


Told = Callable[[AnyEntry], str]
"""Gives an entry in words, "" for one that only programs need."""


def draw(tree: Tree, told: Told, *, everything: bool = False) -> Iterator[str]:
    """Give the tree's lines, the first entry first; *everything* folds nothing.

    What stands at the margin is the path to the leaf. Behind the leaf, where it
    is not the end, all that goes on from it is drawn as branches.
    """
    rows = list(_rows(tree, told))
    if not everything:
        rows = [row for row in rows if row.weight >= 0]
        short = _folded(rows, below=1)
        rows = _bounded(short if len(short) <= FEW else _folded(rows, below=2))
    if tree.leaf is None:
        yield "root  <- the session stands here, before everything"
    for row in rows:
        yield _line(row, tree)


def _line(row: Row, tree: Tree) -> str:
    if not row.id:
        return f"{row.before}{row.text}"
    label = tree.labels.get(row.id)
    named = f"  [{one_line(label.label)}]" if label else ""
    here = "  <- the session stands here" if row.is_leaf else ""
    return f"{row.before}{row.id}  {row.text}{named}{here}"


class _Branch(Struct, frozen=True):
    """Where drawing goes on: what stands before its first row, and before the others."""

    id: str
    first: str
    before: str
    depth: int


def _rows(tree: Tree, told: Told) -> Iterator[Row]:
    path = set(tree.path_ids(tree.leaf))
    below = _below(tree)
    waiting = _branches(below(None), path, "", 0, is_leaf=tree.leaf is None)
    while waiting:
        branch = waiting.pop()
        [entry] = tree.entries([branch.id])
        next = below(branch.id)
        is_leaf = branch.id == tree.leaf
        is_special = is_leaf or len(next) > 1 or branch.first != branch.before
        yield _row(entry, told, branch.first, tree, is_special, is_leaf)
        waiting += _branches(next, path, branch.before, branch.depth, is_leaf=is_leaf)


def _below(tree: Tree) -> Callable[[str | None], list[str]]:
    """Return what gives the entries that go on from one.

    Those beside the path are none, unless something hangs from them in a log of
    another make.
    """

    def below(id: str | None) -> list[str]:
        return [
            entry.id
            for entry in tree.children(id)
            if not isinstance(entry, ASIDE) or tree.children(entry.id)
        ]

    return below


def _branches(
    ids: Sequence[str], path: set[str], before: str, depth: int, *, is_leaf: bool
) -> list[_Branch]:
    """Return how the ways that go on from an entry are drawn, the last one first.

    One of them goes on at the same margin: that to the leaf, else the newest;
    behind the leaf none does.
    """
    if not ids:
        return []
    ahead = [id for id in ids if id in path]
    main = None if is_leaf else (ahead or ids)[-1]
    sides = [id for id in ids if id != main]
    drawn = [] if main is None else [_Branch(main, before, before, depth)]
    for at, id in enumerate(reversed(sides)):
        is_last = at == 0 and main is None
        first, further = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        if depth >= DEEPEST:
            deep = f"({depth + 1} levels in) "
            drawn.append(_Branch(id, f"{deep}{first}", deep, depth + 1))
        else:
            drawn.append(_Branch(id, before + first, before + further, depth + 1))
    return drawn


def _row(
    entry: AnyEntry,
    told: Told,
    before: str,
    tree: Tree,
    is_special: bool,
    is_leaf: bool,
) -> Row:
    match entry:
        case ItemEntry(item=item):
            kind, weight = _kind(item), 1 if isinstance(item, UserText) else 0
        case CustomMessage():
            kind, weight = "message", 1
        case Compaction() | BranchSummary():
            kind, weight = "summary", 2
        case _:
            kind, weight = "other", -1
    if is_special or entry.id in tree.labels:
        weight = 2
    text = told(entry) or type_of(entry)
    is_said = isinstance(entry, ItemEntry) and isinstance(entry.item, AssistantText)
    return Row(before, entry.id, text, weight, kind, is_leaf, is_said)


def type_of(entry: AnyEntry) -> str:
    """Return the entry's type as the log has it."""
    if isinstance(entry, Unknown):
        return entry.type
    return str(entry.__struct_config__.tag)


def _kind(item: Item) -> str:
    match item:
        case UserText():
            return "user message"
        case AssistantText():
            return "text"
        case ToolCall():
            return "call"
        case ToolResult():
            return "result"
        case Reasoning():
            return "reasoning block"
        case SystemText():
            return "message"
        case Opaque():
            return "block"


def _folded(rows: Sequence[Row], *, below: Weight) -> list[Row]:
    """Put a line in the place of each long row of rows that weigh less than *below*.

    What the model said last before the row ends stays.
    """
    found: list[Row] = []
    light: list[Row] = []
    for row in rows:
        if row.weight < below and (not light or light[-1].before == row.before):
            light.append(row)
            continue
        found += _fold(light)
        light = []
        if row.weight < below:
            light.append(row)
        else:
            found.append(row)
    return found + _fold(light)


def _fold(rows: Sequence[Row]) -> list[Row]:
    kept = list(rows[-1:]) if rows and rows[-1].is_said else []
    light = rows[: len(rows) - len(kept)]
    if len(light) < LEAST_FOLDED:
        return list(rows)
    kinds = Counter(row.kind for row in light)
    what = ", ".join(counted(number, kind) for kind, number in kinds.most_common(4))
    return [_gap(light[0].before, what), *kept]


def _gap(before: str, what: str) -> Row:
    return Row(before, "", f"·  {what}", 0, "")


def _bounded(rows: list[Row]) -> list[Row]:
    """Keep at most about MOST rows: the first, the last, and those about the leaf."""
    if len(rows) <= MOST:
        return rows
    part = MOST // 3
    leaf = next((at for at, row in enumerate(rows) if row.is_leaf), 0)
    kept = sorted(
        {
            *range(part),
            *range(max(leaf - part // 2, 0), min(leaf + part // 2, len(rows))),
            *range(len(rows) - part, len(rows)),
        }
    )
    found: list[Row] = []
    last = -1
    for at in kept:
        if gone := at - last - 1:
            what = f"{counted(gone, 'line')} left out: --all gives them"
            found.append(_gap("", what))
        found.append(rows[at])
        last = at
    return found
