"""A limit is reached exactly where it says, whatever adds up to it."""

from decimal import Decimal

from hypothesis import given, strategies as st

from worker.limits import Limits, Reached, Spent
from worker.usage import Usage

usages = st.builds(
    Usage,
    input=st.integers(0, 10_000),
    cache_read=st.integers(0, 10_000),
    cache_write=st.integers(0, 10_000),
    output=st.integers(0, 10_000),
)
costs = st.none() | st.decimals(0, 10, places=4)
charges = st.lists(st.tuples(usages, costs), max_size=8)


def spent_on(charged: list[tuple[Usage, Decimal | None]]) -> Spent:
    spent = Spent()
    for usage, cost in charged:
        spent.record_request()
        spent.charge(usage, cost)
    return spent


@given(charged=charges)
def test_without_limits_nothing_is_ever_reached(
    charged: list[tuple[Usage, Decimal | None]],
) -> None:
    assert spent_on(charged).reached(Limits()) is None


@given(charged=charges, most=st.integers(1, 10))
def test_requests_are_allowed_up_to_their_number(
    charged: list[tuple[Usage, Decimal | None]], most: int
) -> None:
    reached = spent_on(charged).reached(Limits(max_requests=most))

    assert (reached is not None) == (len(charged) >= most)


@given(charged=charges, most=st.integers(1, 50_000))
def test_cached_tokens_count_like_any_others(
    charged: list[tuple[Usage, Decimal | None]], most: int
) -> None:
    reached = spent_on(charged).reached(Limits(max_total_tokens=most))

    total = sum(u.input + u.cache_read + u.cache_write + u.output for u, _ in charged)
    assert (reached is not None) == (total >= most)


@given(charged=charges, most=st.floats(0.0001, 50, allow_nan=False))
def test_a_budget_ends_at_its_sum_or_where_a_price_is_unknown(
    charged: list[tuple[Usage, Decimal | None]], most: float
) -> None:
    reached = spent_on(charged).reached(Limits(max_budget_usd=most))

    costs = [cost for _, cost in charged]
    known = [cost for cost in costs if cost is not None]
    is_unknown = len(known) < len(costs)
    is_over = sum(known, Decimal(0)) >= Decimal(str(most))
    assert (reached is not None) == (is_unknown or is_over)


def test_ten_times_ten_cents_are_a_dollar() -> None:
    spent = spent_on([(Usage(), Decimal("0.1"))] * 10)

    assert spent.cost == Decimal("1.0")
    assert spent.reached(Limits(max_budget_usd=1.0)) == Reached(
        "max_budget_usd", "stopped after 1.0000 USD (limits.max_budget_usd = 1.0)"
    )


def test_what_a_retry_used_is_charged_without_being_a_request() -> None:
    spent = Spent()
    spent.record_request()
    spent.charge(Usage(input=5), Decimal(1))
    spent.charge(Usage(input=7), Decimal(2))

    assert (spent.requests, spent.usage, spent.cost) == (1, Usage(input=12), Decimal(3))
