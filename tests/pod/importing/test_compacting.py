"""Imported sessions can be compacted wherever a cut is legal, and stay whole."""

import pytest

from pod.compaction.cut import Cut, NoCut, Rule, cut_at, find_cut
from pod.context import context
from pod.entries import AnyEntry
from pod.tree import Tree
from pod.view import View, problems_of_path
from tests.makers import MODEL
from tests.pod.compaction.counting import count
from tests.pod.compaction.histories import compaction_of
from tests.pod.conftest import Corpus
from tests.pod.importing.corpus_rows import FOLDERS, ROWS
from tests.pod.importing.imports import entries_of
from worker.history import faults
from worker.items import Item
from worker.validate import problems
from worker.wire import to_request

MOST_CUTS = 12
"""Of a long session so many cuts are tried, spread over it evenly."""

NAMES = [row.file for row in ROWS if row.file.split("/")[1] in FOLDERS]


@pytest.mark.parametrize("name", NAMES or ["sessions"])
def test_a_compaction_at_any_legal_point_keeps_every_invariant(
    name: str, imported: Corpus
) -> None:
    done = imported(name)
    if isinstance(done, str):
        return
    tree = Tree(entries_of(done))
    path = tree.path(tree.leaf)
    window = View(path).window()
    shown = [one.entry for one in window.shown]
    step = max(1, len(shown) // MOST_CUTS)
    rules: tuple[Rule, ...] = ("back", "at_or_after")

    cuts = [cut_at(window, entry, count=count) for entry in shown[1::step]]
    found = [
        find_cut(window, retained_tokens=keep, room=None, count=count, rule=rule)
        for keep in (500, 8_000, 20_000)
        for rule in rules
    ]

    for cut in (*cuts, *found):
        if isinstance(cut, Cut) and cut.index:
            held(path, [one.item for one in window.shown], cut)
    assert all(isinstance(cut, Cut | NoCut) for cut in found)


def held(path: list[AnyEntry], items: list[Item], cut: Cut) -> None:
    """Hold the session, compacted at *cut*, to what every history keeps to."""
    after = [*path, compaction_of(cut, path, id="compacted")]
    history = context(after)
    assert problems_of_path(after) == problems_of_path(path)
    assert faults(history) == []
    assert len(history) == 1 + len(items) - cut.index - len(cut.dropped_reasoning)
    request = to_request(history, system="s", tools=(), model=MODEL)
    assert problems(request, model=MODEL) == []
