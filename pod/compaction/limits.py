"""The manifest's [compaction], as the limits and budgets it stands for."""

from pod.compaction.settings import BY_CALLS
from pod.compaction.thresholds import Budgets, Thresholds, admission_problem, derive
from pod.entries import Mode
from pod.manifest import CompactionTable
from worker.model import Model


def thresholds_of(
    table: CompactionTable, *, window: int | None, max_tokens: int
) -> Thresholds | None:
    """Return the limits in a *window* (tokens), None where none can be derived."""
    return derive(
        compact_threshold=table.compact_threshold,
        turn_threshold=table.turn_threshold,
        window=window,
        reserve_tokens=table.reserve_tokens,
        max_tokens=max_tokens,
        low_water=table.low_water,
    )


def thresholds_in(
    table: CompactionTable, *, window: int, max_tokens: int
) -> Thresholds:
    """Return the limits in a *window* that the provider told of during a run.

    They hold whatever the manifest says, since the window does: what is set is
    lowered, and no more than a quarter is left free.
    """
    free = min(table.reserve_tokens, window // 4)
    found = derive(
        compact_threshold=table.compact_threshold,
        turn_threshold=table.turn_threshold,
        window=window,
        reserve_tokens=free,
        max_tokens=min(max_tokens, window // 4),
        low_water=table.low_water,
    )
    turn = window - free if found is None else min(found.turn, window - free)
    post_run = turn * 8 // 9 if found is None else min(found.post_run, turn * 8 // 9)
    return Thresholds(post_run, turn, int(post_run * table.low_water))


def mode_of(table: CompactionTable) -> Mode:
    """Return who writes the summary, where the manifest leaves it open too."""
    if table.mode is not None:
        return table.mode
    return "worker" if table.remote_endpoint is None else "remote"


def budgets_of(table: CompactionTable, overhead: int) -> Budgets:
    """Return the most the parts of a compacted context may take.

    Of keep_recent_tokens as much is kept as there is room for.
    """
    by_calls = mode_of(table) in BY_CALLS
    return Budgets(
        overhead=overhead,
        retained=min(table.retained_tokens, table.keep_recent_tokens)
        if by_calls
        else table.retained_tokens,
        auto_read=0 if by_calls else table.auto_read_budget,
        directives=table.directive_budget,
        summary=table.summary_cap,
    )


def limits_problem(table: CompactionTable, model: Model, overhead: int) -> str | None:
    """Return why compactions could not work, None if they can or are off.

    *overhead* are the tokens of the system prompt and the tools.
    """
    thresholds = thresholds_of(table, window=model.window, max_tokens=model.max_tokens)
    if not table.enabled or thresholds is None:
        return None
    return admission_problem(budgets_of(table, overhead), thresholds, model.window)
