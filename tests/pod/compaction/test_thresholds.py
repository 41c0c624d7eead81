import msgspec
import pytest
from hypothesis import given, strategies as st

from pod.compaction.thresholds import (
    Budgets,
    Thresholds,
    admission_problem,
    derive,
    low_water_problem,
)
from tests.corpus import corpus

BUDGETS = Budgets(
    overhead=5_000, retained=8_000, auto_read=8_000, directives=4_000, summary=4_000
)


def derived(
    compact: int | None = None,
    turn: int | None = None,
    window: int | None = None,
    *,
    reserve: int = 16_384,
    max_tokens: int = 32_000,
) -> Thresholds | None:
    return derive(
        compact_threshold=compact,
        turn_threshold=turn,
        window=window,
        reserve_tokens=reserve,
        max_tokens=max_tokens,
        low_water=0.7,
    )


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        # The seed's figures: the early limit is the one that is set.
        (derived(compact=80_000), Thresholds(80_000, 90_000, 56_000)),
        (derived(compact=80_000, window=200_000), Thresholds(80_000, 90_000, 56_000)),
        (derived(compact=80_000, turn=85_000), Thresholds(80_000, 85_000, 56_000)),
        (derived(turn=90_000), Thresholds(80_000, 90_000, 56_000)),
        (derived(window=200_000), Thresholds(149_333, 168_000, 104_533)),
        (
            derived(window=200_000, max_tokens=8_000),
            Thresholds(163_214, 183_616, 114_249),
        ),
        (
            derived(compact=180_000, window=200_000),
            Thresholds(180_000, 183_616, 125_999),
        ),
        (derived(), None),
    ],
)
def test_the_limits_follow_from_what_is_set(
    thresholds: Thresholds | None, expected: Thresholds | None
) -> None:
    assert thresholds == expected


@given(
    st.none() | st.integers(1, 10**6),
    st.none() | st.integers(1, 10**6),
    st.none() | st.integers(20_000, 10**6),
    st.integers(1, 50_000),
    st.integers(1, 50_000),
)
def test_what_is_derived_leaves_the_reserve_free(
    compact: int | None,
    turn: int | None,
    window: int | None,
    reserve: int,
    max_tokens: int,
) -> None:
    found = derived(compact, turn, window, reserve=reserve, max_tokens=max_tokens)

    if found is None:
        assert (compact, turn, window) == (None, None, None)
        return
    if window is not None:
        assert compact is not None or found.post_run <= window - reserve
        assert turn is not None or found.turn <= window - reserve
    assert compact is None or found.post_run == compact
    assert turn is None or found.turn == turn
    if compact is None and turn is None:
        assert found.post_run <= found.turn  # also where both are below zero


def test_parts_that_fit_are_admitted() -> None:
    assert admission_problem(BUDGETS, Thresholds(29_001, 30_000, 20_000), None) is None
    assert admission_problem(BUDGETS, Thresholds(29_001, 30_000, 0), 30_001) is None


@pytest.mark.parametrize(
    ("thresholds", "window", "words"),
    [
        (Thresholds(29_000, 32_625, 0), None, "29_000 tokens (system prompt and tools"),
        (
            Thresholds(90_000, 80_000, 0),
            None,
            "turn_threshold = 80_000 has to be above",
        ),
        (
            Thresholds(80_000, 80_000, 0),
            None,
            "turn_threshold = 80_000 has to be above",
        ),
        (Thresholds(80_000, 90_000, 0), 90_000, "is not below the context window"),
        # opencode#49965: nothing is left of the window.
        (Thresholds(-800, -900, -560), 32_000, "compact_threshold = -800 leaves no"),
    ],
)
def test_parts_that_do_not_fit_are_refused_with_the_figures(
    thresholds: Thresholds, window: int | None, words: str
) -> None:
    assert words in (admission_problem(BUDGETS, thresholds, window) or "")


def test_the_figures_name_every_part() -> None:
    problem = admission_problem(BUDGETS, Thresholds(20_000, 22_500, 14_000), None)

    assert problem == (
        "compact_threshold = 20_000 leaves no room: after a compaction the context may"
        " have 29_000 tokens (system prompt and tools 5000, retained_tokens 8000,"
        " auto_read_budget 8000, directive_budget 4000, summary_cap 4000). Raise it, or"
        " lower those budgets"
    )


def test_a_compaction_that_uses_its_budgets_up_must_stay_under_the_low_water() -> None:
    assert low_water_problem(BUDGETS, Thresholds(80_000, 90_000, 29_001)) is None
    assert "refused from 29_000 on" in (
        low_water_problem(BUDGETS, Thresholds(80_000, 90_000, 29_000)) or ""
    )


class _Floor(msgspec.Struct, rename={"context_window": "contextWindow"}):
    """Case 16, as its input has it."""

    context_window: int
    system_tokens: int
    tool_schema_tokens: int
    kept_tail_tokens: int
    summary_tokens: int
    max_output: int = msgspec.field(name="maxOutput", default=0)


def test_a_floor_above_the_limit_is_refused_before_anything_is_sent() -> None:
    """Case 16: 20 compactions a minute, each a success, none of any use."""
    raw = corpus("cases/inputs/16-irreducible.json").read_bytes()
    case = msgspec.json.decode(raw, type=_Floor)
    budgets = Budgets(
        overhead=case.system_tokens + case.tool_schema_tokens,
        retained=case.kept_tail_tokens,
        auto_read=0,
        directives=0,
        summary=case.summary_tokens,
    )
    thresholds = derived(window=case.context_window, max_tokens=case.max_output)
    assert thresholds is not None

    problem = admission_problem(budgets, thresholds, case.context_window)

    assert problem is not None
    assert "compact_threshold = 29_809 leaves no room" in problem
    assert "may have 43_500 tokens (system prompt and tools 33_000" in problem
