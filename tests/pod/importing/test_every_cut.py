"""Imported sessions are compacted at every legal point and stay whole.

All of them: minutes. test_compacting.py tries some of each session.
"""

from collections.abc import Sequence

import pytest

from pod.entries import AnyEntry, Compaction
from pod.log import read_undamaged
from pod.tree import Tree
from pod.view import View
from tests.pod.conftest import Corpus
from tests.pod.importing.corpus_rows import FOLDERS, ROWS
from worker.history import faults, legal_cuts, unanswered
from worker.items import Item

NAMES = [row.file for row in ROWS if row.file.split("/")[1] in FOLDERS]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES or ["sessions"])
def test_a_compaction_at_every_legal_point_keeps_the_invariants(
    name: str, imported: Corpus
) -> None:
    done = imported(name)
    if isinstance(done, str):
        return  # refused: test_corpus.py says which may be
    _, scan = read_undamaged(done.path)
    tree = Tree(scan.entries)
    path = tree.path(tree.leaf)
    view = View(path)
    window = view.window()
    items = [shown.item for shown in window.shown]

    cuts = legal_cuts(items)
    for index in cuts:
        first = window.shown[index].entry if index < len(items) else None
        after = compacted(path, first)
        assert after[1:] == items[index:]  # behind the summary
        assert not faults(after)
        assert not unanswered(after)


def compacted(path: Sequence[AnyEntry], first: str | None) -> list[Item]:
    """Return the context behind a compaction that keeps from *first* on."""
    one = Compaction(
        id="x",
        compaction_id="c",
        reason="manual",
        mode="mechanical",
        summary="so far",
        first_kept=first,
        compacted_from=path[-1].id,
        tokens_before=0,
        tokens_after=0,
    )
    view = View([*path, one])
    assert view.problems == []
    return view.items
