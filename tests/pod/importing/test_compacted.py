"""Imported sessions are compacted at every legal point and stay whole."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pod.compaction.cut import Cut, find_cut
from pod.entries import AnyEntry, Compaction, Known
from pod.log import read_undamaged
from pod.tree import Tree
from pod.view import View, Window
from tests.corpus import corpus
from tests.pod.importing.test_corpus import FOLDERS, ROWS, taken
from worker.history import faults, legal_cuts, unanswered
from worker.items import Item

NAMES = [row.file for row in ROWS if row.file.split("/")[1] in FOLDERS]
MOST_CUTS = 60
"""Legal cuts of one session that are tried, spread over all of it."""


@pytest.mark.parametrize("name", NAMES or ["sessions"])
def test_a_compaction_at_sixty_legal_points_keeps_the_invariants(
    name: str, tmp_path: Path
) -> None:
    at_legal_points(name, tmp_path, most=MOST_CUTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES or ["sessions"])
def test_a_compaction_at_every_legal_point_keeps_the_invariants(
    name: str, tmp_path: Path
) -> None:
    at_legal_points(name, tmp_path, most=None)


def at_legal_points(name: str, tmp_path: Path, *, most: int | None) -> None:
    done = taken(corpus(name), tmp_path)
    if isinstance(done, str):
        return  # refused: test_corpus.py says which may be
    _, scan = read_undamaged(done.path)
    tree = Tree(scan.entries)
    path = tree.path(tree.leaf)
    view = View(path)
    window = view.window()
    items = [shown.item for shown in window.shown]

    cuts = legal_cuts(items)
    step = 1 if most is None else max(1, len(cuts) // most)
    for index in cuts[::step]:
        first = window.shown[index].entry if index < len(items) else None
        after = compacted(path, first)
        assert after[1:] == items[index:]  # behind the summary
        assert not faults(after)
        assert not unanswered(after)


@pytest.mark.parametrize("name", NAMES or ["sessions"])
def test_what_pod_itself_would_keep_is_whole(name: str, tmp_path: Path) -> None:
    done = taken(corpus(name), tmp_path)
    if isinstance(done, str):
        return
    _, scan = read_undamaged(done.path)
    tree = Tree(scan.entries)
    path = tree.path(tree.leaf)
    window = View(path).window()

    for retained in (0, 2_000, 20_000):
        cut = cut_of(window, retained)
        if cut is None:
            continue
        extra: list[Known] = [*cut.clips]
        after = compacted(path, cut.first_kept, cut.dropped_reasoning, extra)
        assert not faults(after)
        assert not unanswered(after)


def cut_of(window: Window, retained: int) -> Cut | None:
    cut = find_cut(
        window,
        retained_tokens=retained,
        room=retained * 2 + 500,
        count=lambda item: len(str(item)) // 4,
    )
    return cut if isinstance(cut, Cut) else None


def compacted(
    path: Sequence[AnyEntry],
    first: str | None,
    dropped: tuple[str, ...] = (),
    extra: Sequence[AnyEntry] = (),
) -> list[Item]:
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
        dropped_reasoning=dropped,
    )
    view = View([*path, *extra, one])
    assert view.problems == []
    return view.items
