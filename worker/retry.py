"""How long to wait before a failed request is sent again, if at all."""

from msgspec import Struct

from worker.client import Failure


class RetryPolicy(Struct, frozen=True):
    """*attempts* counts the first one too; *base* and *cap* are seconds."""

    attempts: int = 8
    base: float = 0.5
    cap: float = 60.0


def next_wait(
    policy: RetryPolicy, failure: Failure, attempt: int, jitter: float
) -> float | None:
    """Return the seconds to wait before the next attempt, None to give up.

    *attempt* is the number of attempts that have failed so far, 1 or more;
    *jitter* is a random number in [0, 1). The wait doubles from *base* up to
    *cap* and loses up to a quarter by the jitter, so that many clients do not
    come back at once. A wait the provider asks for is kept to, and a longer one
    than *cap* is not begun: the person learns of it at once.
    """
    if not failure.is_transient or attempt >= policy.attempts:
        return None
    asked = failure.retry_after
    if asked is not None and asked > policy.cap:
        return None
    doublings = min(attempt - 1, 30)
    wait = min(policy.base * 2.0**doublings, policy.cap) * (1 - jitter / 4)
    return wait if asked is None else min(max(asked, wait), policy.cap)


def give_up_text(policy: RetryPolicy, failure: Failure, attempt: int) -> str:
    """Say for a person why the request is not sent again, and what helps."""
    if not failure.is_transient:
        return failure.message
    asked = failure.retry_after
    if asked is not None and asked > policy.cap:
        return (
            f"{failure.message} — the provider asks to wait {in_words(asked)}, "
            f"longer than [retry] cap = {policy.cap:g} s; resume the session then"
        )
    times = "once" if attempt == 1 else f"{attempt} times"
    return f"{failure.message} — tried {times}, then gave up"


def in_words(seconds: float) -> str:
    """Give a duration as a person would: "45 seconds", "2 hours 5 minutes"."""
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [
        f"{amount} {unit}{'' if amount == 1 else 's'}"
        for amount, unit in (
            (days, "day"),
            (hours, "hour"),
            (minutes, "minute"),
            (rest, "second"),
        )
        if amount
    ]
    return " ".join(parts[:2]) or "0 seconds"
