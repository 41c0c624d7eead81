from hypothesis import given, strategies as st

from pod.codec import decode, encode
from pod.compaction.breaker import Breaker, breaker_of
from tests.pod.logs import chain, said

T0 = "2026-11-30T05:00:00.000Z"
T5 = "2026-11-30T05:05:00.000Z"
T10 = "2026-11-30T05:10:00.000Z"
YEAR_BEFORE = "2025-11-30T05:00:00.000Z"


def failed(times: int, now: str = T0) -> Breaker:
    breaker = Breaker()
    for n in range(times):
        breaker = breaker.failed(f"input {n}", now=now)
    return breaker


def test_three_failures_open_it() -> None:
    assert failed(2).refusal("new", now=T0) is None
    assert failed(3).refusal("new", now=T0) == "open"


def test_a_success_closes_it() -> None:
    assert failed(2).succeeded().failed("x", now=T0).refusal("new", now=T0) is None
    assert failed(3).succeeded() == Breaker()


def test_after_the_cooldown_one_attempt_is_allowed() -> None:
    breaker = failed(3)

    assert breaker.refusal("new", now=T5) == "open"
    assert breaker.refusal("new", now=T10) is None
    again = breaker.failed("new", now=T10)
    assert again.refusal("other", now=T10) == "open"
    assert breaker.refusal("new", now=T5, cooldown=300) is None


def test_new_input_half_opens_it() -> None:
    breaker = failed(3).half_opened()

    assert breaker.refusal("new", now=T0) is None
    assert breaker.failed("new", now=T0).refusal("other", now=T0) == "open"


def test_an_input_that_failed_is_not_sent_again_unchanged() -> None:
    """Goose PR#10500: five identical requests that cannot fit."""
    once = Breaker().failed("same", now=T0)

    assert once.refusal("same", now=T0) == "same_input"
    assert once.half_opened().refusal("same", now=T0) == "same_input"
    assert failed(3).refusal("input 2", now=T10) == "same_input"
    assert once.refusal("other", now=T0) is None
    assert Breaker().refusal("", now=T0) is None


def test_by_hand_everything_may_be_tried_again() -> None:
    assert failed(3).half_opened(by_hand=True).refusal("input 2", now=T0) is None


def test_a_clock_that_was_set_back_does_not_keep_it_open() -> None:
    assert failed(3).refusal("new", now=YEAR_BEFORE) is None


def test_a_time_that_cannot_be_read_does_not_keep_it_open() -> None:
    assert Breaker(3, "yesterday", "").refusal("new", now=T0) is None


@given(st.integers(0, 5), st.booleans())
def test_it_survives_a_restart(failures: int, is_half_open: bool) -> None:
    breaker = failed(failures)
    if is_half_open:
        breaker = breaker.half_opened()
    log = chain(said("a"), Breaker(1).as_entry(), breaker.as_entry(), said("b"))

    again = breaker_of([decode(encode(entry)) for entry in log])

    assert again == breaker
    assert breaker_of(log[:1]) == Breaker()
