import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pod.compaction.prune import PruneLimits, find_prune, is_cache_cold, pays
from pod.context import context
from pod.entries import Known, ModelChange, Prune, RunStart, UsageEntry
from pod.view import View
from tests.makers import call, result, said, user
from tests.pod.compaction.counting import count
from tests.pod.compaction.histories import path_of
from tests.pod.logs import chain
from tests.strategies import histories, modest
from worker.history import faults
from worker.items import Item, ToolResult
from worker.wire import Cache

LIMITS = PruneLimits(protect_tokens=1_000, min_savings=500)


def used(name: str, tokens: int, tool: str = "bash") -> list[Item]:
    """A call and a result of about this many tokens."""
    return [call(name, name=tool), result(name, "word" * tokens)]


def found(
    items: list[Item],
    limits: PruneLimits = LIMITS,
    *,
    is_cold: bool = True,
    growth: float = 100.0,
) -> Prune | None:
    return find_prune(
        View(path_of(*items)).window().shown,
        limits=limits,
        count=count,
        is_cold=is_cold,
        growth=growth,
    )


def pruned(items: list[Item]) -> list[str]:
    """Return the call ids of the results that are pruned."""
    prune = found(items)
    at = {f"e{n}": item for n, item in enumerate(items, 1)}
    results = [at[id] for id in prune.entries] if prune else []
    return [item.call_id for item in results if isinstance(item, ToolResult)]


OLD = [*used("old1", 400), *used("old2", 400)]
NEW = [*used("new1", 600), *used("new2", 600), said("seen")]


def test_the_defaults_are_those_of_the_design() -> None:
    assert PruneLimits() == PruneLimits(protect_tokens=40_000, min_savings=20_000)


def test_what_is_behind_the_newest_output_goes() -> None:
    items = [*OLD, *NEW]

    prune = found(items)

    assert prune == Prune(entries=("e2", "e4"), tokens=(407, 407), saved=2 * (407 - 15))
    assert context([*path_of(*items), *chain(prune)])[1] == ToolResult(
        "old1", "ran old1", "[Output truncated - 407 tokens]"
    )


def test_output_that_is_partly_among_the_newest_stays() -> None:
    """49 of origins: protection by tokens, not by turns."""
    assert pruned([*OLD, *used("edge", 700), *used("new", 900), said("x")]) == [
        "old1",
        "old2",
    ]


def test_both_limits_are_meant_to_the_token() -> None:
    tokens = sum(count(item) for item in NEW if isinstance(item, ToolResult))
    just = PruneLimits(protect_tokens=tokens, min_savings=784)

    assert found([*OLD, *NEW], just) is not None
    assert found([*OLD, *NEW], replace(just, protect_tokens=tokens + 1)) is None
    assert found([*OLD, *NEW], replace(just, min_savings=785)) is None


def test_too_little_is_left_alone() -> None:
    assert found([*used("old1", 400), *NEW]) is None


def test_what_the_model_works_from_is_never_pruned() -> None:
    assert pruned(
        [*used("r", 9_000, "read_file"), *used("s", 9_000, "skill"), *OLD, *NEW]
    ) == ["old1", "old2"]


def test_small_results_and_pruned_ones_are_left_alone() -> None:
    done = result("done", "[Output truncated - 30000 tokens]")
    items = [*used("tiny", 20), call("done"), done, *OLD, *NEW]

    assert pruned(items) == ["old1", "old2"]


def test_what_the_model_has_not_seen_yet_stays() -> None:
    batch = [call(f"c{n}", "r") for n in range(4)]
    results = [result(f"c{n}", "word" * 900) for n in range(4)]

    assert found([user("a"), *batch, *results]) is None
    assert pruned([user("a"), *batch, *results, said("x")]) == ["c0", "c1"]


def test_a_warm_cache_is_only_broken_where_that_pays() -> None:
    # Saved 784, rewritten some 1 260: 0.1 * 784 * (784 / growth) >= 1.15 * 1 260.
    items = [*OLD, *NEW]

    assert found(items, is_cold=False, growth=40) is not None
    assert found(items, is_cold=False, growth=50) is None
    assert found(items, is_cold=True, growth=50) is not None


@pytest.mark.parametrize(
    ("saved", "rewritten", "growth", "expected"),
    [
        # 20 000 gone, 45 000 rewritten: 52 requests' worth of reads, for 10.
        (20_000, 45_000, 2_000, False),
        # 100 000 gone, 45 000 rewritten, 50 more requests: it pays.
        (100_000, 45_000, 2_000, True),
        (100_000, 45_000, 20_000, False),
        (20_000, 0, 0, True),
    ],
)
def test_what_pays(saved: int, rewritten: int, growth: float, expected: bool) -> None:
    assert pays(saved=saved, rewritten=rewritten, growth=growth) is expected


@modest
@given(histories(is_hostile=False), st.integers(0, 60), st.integers(0, 60))
def test_a_pruned_history_is_legal_and_smaller(
    items: list[Item], protect: int, savings: int
) -> None:
    limits = PruneLimits(protect_tokens=protect, min_savings=savings)
    path: list[Known] = path_of(*items)

    prune = found(items, limits)

    if prune is None:
        return
    after = context([*path, *chain(prune)])
    assert faults(after) == []
    gone = sum(map(count, items)) - sum(map(count, after))
    assert gone == prune.saved


def answered(at: str, response: str = "r") -> Known:
    return UsageEntry(
        at=at,
        response=response,
        model="whatever the server calls it",
        stop_reason="end_turn",
        usage=None,
        context_tokens=None,
    )


BEGUN = RunStart(run="r", model="m", resumed=False)


@pytest.mark.parametrize(
    ("path", "cache", "is_cold"),
    [
        ([BEGUN, answered("2026-01-01T09:56:00.000Z")], Cache(), False),
        ([BEGUN, answered("2026-01-01T09:55:00.000Z")], Cache(), True),
        ([BEGUN, answered("2026-01-01T09:55:00.000Z")], Cache(ttl="1h"), False),
        ([BEGUN, answered("2026-01-01T09:00:00.000Z")], Cache(ttl="1h"), True),
        ([BEGUN, answered("2026-01-01T09:59:00.000Z")], Cache(enabled=False), True),
        ([BEGUN, answered("2026-01-01T10:59:00.000Z")], Cache(), False),  # set back
        ([BEGUN, answered("no time")], Cache(), False),
        ([BEGUN, answered("2026-01-01T09:00:00")], Cache(), False),
        ([BEGUN], Cache(), False),
    ],
)
def test_a_cache_is_cold_once_its_time_is_over(
    path: list[Known], cache: Cache, is_cold: bool
) -> None:
    now = "2026-01-01T10:00:00.000Z"

    assert is_cache_cold(path, model="m", cache=cache, now=now) is is_cold


def test_what_another_model_has_cached_is_cold() -> None:
    answer, now = answered("2026-01-01T09:59:00.000Z"), "2026-01-01T10:00:00.000Z"
    switched = ModelChange(model="n", previous="m")

    def is_cold(*path: Known) -> bool:
        return is_cache_cold(path, model="n", cache=Cache(), now=now)

    assert is_cold(BEGUN, answer, switched)
    assert not is_cold(BEGUN, answer, switched, answer)


def test_what_a_broken_off_answer_used_keeps_no_cache_warm() -> None:
    path = [
        answered("2026-01-01T09:00:00.000Z"),
        answered("2026-01-01T09:59:59.000Z", response=""),
    ]

    assert is_cache_cold(path, model="m", cache=Cache(), now="2026-01-01T10:00:00.000Z")
