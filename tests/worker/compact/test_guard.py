"""The cap on what a compact worker is sent."""

from hypothesis import given, strategies as st

from worker.compact.guard import InputGuard


def test_the_seeds_figures() -> None:
    guard = InputGuard(50_000)
    guard.add(10_000)
    told = []
    for tokens in (31_999, 1, 3_999):
        assert guard.admit(tokens)
        told.append(guard.warning())

    warning = (
        "Input nearly used up: about 8000 of 50000 tokens are left."
        " Call write_summary now."
    )
    assert told == [None, warning, None]
    assert not guard.is_closing
    assert guard.room == 1
    assert not guard.admit(2)
    assert guard.admit(1)
    assert guard.is_closing
    guard.add(4_000)
    assert not guard.is_over
    guard.add(1)
    assert guard.is_over


def test_results_of_the_same_moment_share_the_room() -> None:
    guard = InputGuard(50_000)
    guard.add(40_000)

    assert [guard.admit(2_500) for _ in range(4)] == [True, True, False, False]
    assert guard.counted == 45_000


def test_five_shares_fit_before_the_warning() -> None:
    guard = InputGuard(50_000)
    guard.add(12_000)
    share = guard.share(5)

    assert share == 6_000
    assert [guard.admit(share) for _ in range(5)] == [True] * 5
    assert guard.counted == 42_000


def test_a_token_is_sent_once() -> None:
    guard = InputGuard(50_000)
    guard.add(10_000)
    guard.send()
    guard.add(500)
    assert guard.sent == 10_000
    guard.send()
    guard.send()

    assert guard.sent == 10_500


def test_the_providers_count_goes_before_a_lower_estimate() -> None:
    guard = InputGuard(50_000)
    guard.add(10_000)
    guard.send()
    guard.measured(9_000)
    assert guard.counted == 10_000

    guard.measured(13_000)

    assert guard.counted == 13_000


def test_a_small_cap_leaves_most_of_itself_for_work() -> None:
    guard = InputGuard(8_000)
    guard.add(6_000)

    assert guard.warning() is not None
    assert not guard.is_closing
    guard.add(1_000)
    assert guard.is_closing


@given(st.integers(0, 60_000), st.lists(st.integers(0, 20_000), max_size=30))
def test_admitted_results_never_reach_into_the_reserve(
    cap: int, results: list[int]
) -> None:
    guard = InputGuard(cap)

    for tokens in results:
        guard.admit(tokens)

    assert guard.counted <= cap - min(4_000, cap // 8)
    assert not guard.is_over
