"""Limits and budgets in a window that the provider told of."""

from hypothesis import given, strategies as st
from msgspec.structs import replace

from pod.compaction.limits import thresholds_in
from pod.compaction.settings import Settings
from pod.compaction.thresholds import Thresholds
from pod.manifest import CompactionTable
from worker.compact.task import Budgets

WINDOWS = st.integers(1_000, 2_000_000)
TOKENS = st.none() | st.integers(1, 2_000_000)


@given(WINDOWS, TOKENS, TOKENS, st.integers(1, 200_000))
def test_a_window_holds_whatever_is_set(
    window: int, compact: int | None, turn: int | None, max_tokens: int
) -> None:
    table = CompactionTable(compact_threshold=compact, turn_threshold=turn)

    found = thresholds_in(table, window=window, max_tokens=max_tokens)

    assert 0 <= found.low_water <= found.post_run <= found.turn < window
    if compact is None and turn is None:
        assert found.low_water > 0.4 * window


def test_a_large_window_changes_nothing_that_is_set() -> None:
    table = CompactionTable(compact_threshold=80_000)

    found = thresholds_in(table, window=200_000, max_tokens=8_000)

    assert found == Thresholds(80_000, 90_000, 56_000)


def test_budgets_stay_while_they_fit() -> None:
    assert Settings().within(24_001) == Settings()


@given(st.integers(-1_000, 24_000))
def test_budgets_that_do_not_fit_shrink_alike(room: int) -> None:
    found = Settings().within(room)

    budgets = found.worker
    parts = (
        *(found.retained_tokens, found.directive_budget),
        *(budgets.auto_read, budgets.summary_cap),
    )
    assert sum(parts) <= max(room, 0)
    assert found.retained_tokens == budgets.auto_read
    assert found.directive_budget == budgets.summary_cap
    same = replace(
        Budgets(),
        auto_read=budgets.auto_read,
        summary_cap=budgets.summary_cap,
        summary_target=budgets.summary_target,
    )
    assert budgets == same
