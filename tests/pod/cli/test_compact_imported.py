"""The second seed's cut in a real session: pi's, imported, at its two compactions.

The rule: from the entry backwards until the items have keep_recent_tokens (20,000),
and there, or behind it, the nearest point that parts neither a call from its result
nor a response. The window begins with what the compaction before had kept.
"""

from collections.abc import Sequence
from math import ceil
from pathlib import Path

import pytest

from pod.cli import main
from pod.entries import AnyEntry, Compaction, ItemEntry
from pod.exits import Exit
from pod.log import read_undamaged
from pod.tree import Tree
from tests.corpus import corpus
from worker.counters import O200k
from worker.items import FromModel, ToolResult
from worker.tokens import count_item, factor_for

SCRIPTED = ("-c", 'model.provider="scripted"', "-c", 'model.id="survey"')
KEEP = 20_000


@pytest.fixture
def log(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Path:
    """Import pi's session; return its log."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = (tmp_path / "work").resolve()
    work.mkdir()
    monkeypatch.chdir(work)
    file = corpus("sessions/pi/pi-mono_before-compaction.jsonl").resolve()
    assert main(["import", str(file)]) == Exit.DONE
    capfd.readouterr()
    [log] = (tmp_path / "state").rglob("*.jsonl")
    return log


def test_the_cut_at_each_of_its_compactions_follows_the_rule(
    log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, scan = read_undamaged(log)
    tree = Tree(scan.entries)
    done = [entry for entry in scan.entries if isinstance(entry, Compaction)]
    before: Compaction | None = None

    for compaction in done:
        at = compaction.parent
        assert at is not None
        path = tree.path(at)
        window = path if before is None else behind(path, before)
        kept = first_kept(window)

        code = main(
            [
                "compact",
                log.stem,
                "--mode=summarize",
                "--dry-run",
                "--at",
                at,
                *SCRIPTED,
            ]
        )

        out, _ = capfd.readouterr()
        shown = {line[:11].strip(): line[11:] for line in out.splitlines()[:12]}
        items = [entry for entry in window if isinstance(entry, ItemEntry)]
        index = items.index(kept)
        assert code == Exit.DONE
        assert shown["first kept"] == f"{kept.id} (assistant)"
        assert shown["summarised"].startswith(f"{index} items, ")
        assert shown["kept"].startswith(f"{len(items) - index} items, ")
        assert ("<previous-summary>" in out) is (before is not None)
        tokens = int(shown["now"].split(" ")[0].replace(",", ""))
        assert tokens == pytest.approx(compaction.tokens_before, rel=0.05)
        before = compaction
    assert [one.tokens_before for one in done] == [175_004, 185_014]


def behind(path: Sequence[AnyEntry], compaction: Compaction) -> list[AnyEntry]:
    """Return the path from the first entry on that *compaction* kept."""
    ids = [entry.id for entry in path]
    assert compaction.first_kept is not None
    return list(path[ids.index(compaction.first_kept) :])


def first_kept(window: Sequence[AnyEntry]) -> ItemEntry:
    """Return the item that the rule keeps first."""
    counter, factor = O200k(), factor_for("survey")
    items = [entry for entry in window if isinstance(entry, ItemEntry)]
    left = KEEP
    at = len(items)
    while left > 0:
        at -= 1
        left -= ceil(count_item(items[at].item, counter) * factor)
    while is_inside(items, at):
        at += 1
    return items[at]


def is_inside(items: Sequence[ItemEntry], at: int) -> bool:
    """Whether a cut before this item parts a call from its result, or a response."""
    item, one_before = items[at].item, items[at - 1].item
    return isinstance(item, ToolResult) or (
        isinstance(item, FromModel)
        and isinstance(one_before, FromModel)
        and item.response == one_before.response
    )
