import pytest
from hypothesis import given, strategies as st

from worker.client import TRANSIENT, Failure, FailureKind
from worker.retry import RetryPolicy, give_up_text, in_words, next_wait

POLICY = RetryPolicy()
LASTING: list[FailureKind] = [
    "invalid",
    "auth",
    "billing",
    "not_found",
    "overflow",
    "output_too_large",
    "payload_too_large",
]


def failure(
    kind: FailureKind = "overloaded",
    *,
    retry_after: float | None = None,
    should_retry: bool | None = None,
) -> Failure:
    return Failure(
        kind=kind,
        message="529: Overloaded",
        retry_after=retry_after,
        should_retry=should_retry,
    )


def test_the_wait_doubles_up_to_the_cap() -> None:
    policy = RetryPolicy(attempts=12)

    waits = [next_wait(policy, failure(), attempt, 0.0) for attempt in range(1, 12)]

    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_jitter_takes_off_a_quarter_at_most() -> None:
    assert next_wait(POLICY, failure(), 3, 0.5) == 1.75


def test_the_last_attempt_is_not_followed_by_another() -> None:
    assert next_wait(POLICY, failure(), 7, 0.0) is not None
    assert next_wait(POLICY, failure(), 8, 0.0) is None


@pytest.mark.parametrize("kind", LASTING)
def test_what_would_fail_again_is_never_retried(kind: FailureKind) -> None:
    assert next_wait(POLICY, failure(kind, retry_after=1), 1, 0.0) is None


def test_a_provider_that_says_not_to_retry_is_believed() -> None:
    assert next_wait(POLICY, failure(should_retry=False), 1, 0.0) is None


def test_what_the_provider_asks_for_is_waited_in_full() -> None:
    assert next_wait(POLICY, failure(retry_after=20), 1, 0.9) == 20


def test_a_retry_after_of_zero_still_backs_off() -> None:
    assert next_wait(POLICY, failure(retry_after=0), 4, 0.0) == 4


def test_being_asked_to_wait_beyond_the_cap_gives_up_at_once() -> None:
    asked = failure("rate_limit", retry_after=7_500)

    wait = next_wait(POLICY, asked, 1, 0.0)

    assert wait is None
    assert give_up_text(POLICY, asked, 1) == (
        "529: Overloaded — the provider asks to wait 2 hours 5 minutes, "
        "longer than [retry] cap = 60 s; resume the session then"
    )


def test_giving_up_says_how_often_it_was_tried() -> None:
    assert give_up_text(POLICY, failure(), 8) == (
        "529: Overloaded — tried 8 times, then gave up"
    )


@given(
    kind=st.sampled_from(sorted(TRANSIENT)),
    retry_after=st.none() | st.floats(0, 1e9),
    attempt=st.integers(1, 10_000),
    jitter=st.floats(0, 1, exclude_max=True),
    attempts=st.integers(1, 10_000),
)
def test_no_wait_is_longer_than_the_cap_or_shorter_than_asked(
    kind: FailureKind,
    retry_after: float | None,
    attempt: int,
    jitter: float,
    attempts: int,
) -> None:
    policy = RetryPolicy(attempts=attempts)

    wait = next_wait(policy, failure(kind, retry_after=retry_after), attempt, jitter)

    if wait is not None:
        assert (retry_after or 0) <= wait <= policy.cap
        assert attempt < attempts


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (61, "1 minute 1 second"),
        (3_600, "1 hour"),
        (90_061, "1 day 1 hour"),
    ],
)
def test_durations_are_given_in_two_units_at_most(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
