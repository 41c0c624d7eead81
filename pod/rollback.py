"""Which input goes back to its sender when a turn is given up before it began."""

from collections.abc import Sequence

from msgspec import Struct

from pod.entries import (
    AnyEntry,
    Compaction,
    DeliveredEntry,
    HandedBack,
    ItemEntry,
    Known,
    Leaf,
    RunEnd,
)
from pod.tree import Tree
from worker.items import SystemText, UserText


class Unanswered(Struct, frozen=True):
    """The user's messages at the end of a path that nothing came of.

    *first* is the entry the turn begins with; *inputs* and *texts* are those of
    the messages, in order.
    """

    first: str
    inputs: tuple[str, ...]
    texts: tuple[str, ...]


def unanswered(path: Sequence[AnyEntry]) -> Unanswered | None:
    """Return the input of the last turn on *path* where that had no output at all.

    A turn that was paused is the same turn when it is resumed. What an earlier
    one left without an answer stays: nobody took that back. Nor does anything go
    back that may stand in a summary by now.
    """
    inputs: list[str] = []
    texts: list[str] = []
    first = ""
    for entry in reversed(path):
        match entry:
            case DeliveredEntry():
                inputs[:0] = entry.inputs
            case ItemEntry(item=UserText(text=text, synthetic=synthetic)):
                first = entry.id
                if not synthetic:
                    texts.insert(0, text)
            case ItemEntry(item=SystemText()):
                pass
            case ItemEntry():
                return None
            case Compaction():
                break
            case RunEnd(outcome=outcome) if outcome != "yielded":  # paused
                break
            case _:
                pass
    if not texts or len(inputs) != len(texts):
        return None
    return Unanswered(first, tuple(inputs), tuple(texts))


def taken_back(tree: Tree, back: Unanswered | None) -> tuple[Known, ...]:
    """Return the entries that take *back* out of the history of *tree*."""
    if back is None:
        return ()
    return (
        HandedBack(inputs=back.inputs, texts=back.texts),
        Leaf(target=tree.before(back.first)),
    )
