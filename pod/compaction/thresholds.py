"""When the context is too full, and whether the parts of a small one can fit."""

from msgspec import Struct

from pod.toml_text import toml_value


class Thresholds(Struct, frozen=True):
    """Limits of the context, in tokens.

    Above *post_run* it is compacted once a run has ended (the early limit), above
    *turn* before the next request (the late one). After a compaction it has to
    be under *low_water*, or the next one would come at once.
    """

    post_run: int
    turn: int
    low_water: int


def derive(
    *,
    compact_threshold: int | None,
    turn_threshold: int | None,
    window: int | None,
    reserve_tokens: int,
    max_tokens: int,
    low_water: float,
) -> Thresholds | None:
    """Return the limits, None where nothing is known to derive them from.

    Then nothing is compacted before the provider refuses a prompt. What is set
    is taken as it is, with or without a known window; what is derived never
    exceeds window - *reserve_tokens*. The other arguments are the manifest's.
    The limits may contradict each other: see admission_problem.
    """
    most = None if window is None else window - reserve_tokens
    if compact_threshold is not None:
        turn = turn_threshold or _at_most(compact_threshold * 9 // 8, most)
        return _thresholds(compact_threshold, turn, low_water)
    if turn_threshold is not None:
        return _thresholds(
            _at_most(turn_threshold * 8 // 9, most), turn_threshold, low_water
        )
    if window is None:
        return None
    turn = window - max(reserve_tokens, max_tokens)
    # Below zero where max_tokens leaves nothing; that is refused with the figures.
    return _thresholds(min(turn * 8 // 9, turn), turn, low_water)


def _thresholds(post_run: int, turn: int, low_water: float) -> Thresholds:
    return Thresholds(post_run, turn, int(post_run * low_water))


def _at_most(value: int, most: int | None) -> int:
    return value if most is None else min(value, most)


class Budgets(Struct, frozen=True):
    """The most that the parts of a context may take after a compaction, in tokens.

    *overhead* is the system prompt and the tools' schemas.
    """

    overhead: int
    retained: int
    auto_read: int
    directives: int
    summary: int

    @property
    def total(self) -> int:
        """The floor under every compacted context."""
        return (
            self.overhead
            + self.retained
            + self.auto_read
            + self.directives
            + self.summary
        )


def admission_problem(
    budgets: Budgets, thresholds: Thresholds, window: int | None
) -> str | None:
    """Return why compactions could not work with these figures, None if they can.

    What is left after a compaction must be smaller than the early limit, that
    smaller than the late one, and that smaller than the window.
    """
    post_run, turn = thresholds.post_run, thresholds.turn
    if post_run <= budgets.total:
        return (
            f"compact_threshold = {_figure(post_run)} leaves no room: after a compaction"
            f" the context may have {_figure(budgets.total)} tokens ({_parts(budgets)})."
            " Raise it, or lower those budgets"
        )
    if turn <= post_run:
        return (
            f"turn_threshold = {_figure(turn)} has to be above compact_threshold ="
            f" {_figure(post_run)}: it is the later of the two limits"
        )
    if window is not None and turn >= window:
        return (
            f"turn_threshold = {_figure(turn)} is not below the context window of"
            f" {_figure(window)} tokens: no compaction would come in time"
        )
    return None


def low_water_problem(budgets: Budgets, thresholds: Thresholds) -> str | None:
    """Return why a compaction that uses its budgets up would be refused, if so."""
    if budgets.total < thresholds.low_water:
        return None
    return (
        f"a compaction that uses its budgets up ends at {_figure(budgets.total)} tokens"
        f" ({_parts(budgets)}), and is refused from {_figure(thresholds.low_water)} on"
        " (low_water x compact_threshold)"
    )


def _parts(budgets: Budgets) -> str:
    return (
        f"system prompt and tools {_figure(budgets.overhead)},"
        f" retained_tokens {_figure(budgets.retained)},"
        f" auto_read_budget {_figure(budgets.auto_read)},"
        f" directive_budget {_figure(budgets.directives)},"
        f" summary_cap {_figure(budgets.summary)}"
    )


def _figure(tokens: int) -> str:
    return toml_value(tokens)
