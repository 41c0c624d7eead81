"""Why a compact worker ended, and what that means where there is no usable summary."""

from msgspec import Struct

from worker.client import TRANSIENT, Failure
from worker.compact.summary import Judged
from worker.compact.task import Budgets, Code
from worker.endings import Blocked, Exhausted, Failed, Held, Limited, Refused, Yielded

MOST_CUT_OFF = 3
"""Calls of write_summary that were cut off at the output limit before it ends:
what did not fit three times does not fit."""


class End(Struct, frozen=True):
    """The failure it is without a usable summary; *counts* as in CompactError."""

    code: Code
    message: str
    counts: bool = True


class Standing(Struct, frozen=True):
    """How it stood when a turn ended: *cut_off* counts calls of write_summary."""

    requests: int
    cut_off: int
    max_tokens: int


def end_of_work(last: Judged | None) -> End:
    """Return what it means that it ended by itself, with *last* as its summary."""
    if last is None:
        return End("no_summary", "write_summary was never called")
    if last.problems:
        problems = "; ".join(last.problems)
        return End("invalid_summary", f"the summary cannot be used: {problems}")
    return End(
        "too_large",
        f"the summary has {last.tokens} tokens, of {last.cap} at most, and was not"
        " shortened when asked",
    )


def end_of_turn(
    ending: Limited | Exhausted | Refused | Failed | Yielded | Held | Blocked,
    budgets: Budgets,
    standing: Standing,
) -> End:
    """Return what it means that its turn was ended."""
    match ending:
        case Yielded() if standing.cut_off >= MOST_CUT_OFF:
            return End(
                "invalid_summary",
                "write_summary was cut off at the output limit"
                f" {standing.cut_off} times (max_tokens = {standing.max_tokens})",
            )
        case Yielded(tokens):
            return End(
                "input_limit",
                f"its next request would bring its input to {tokens} tokens of"
                f" {budgets.max_input_tokens} (compact_worker_max_input_tokens)",
            )
        case Limited() if standing.requests >= budgets.max_requests:
            return End(
                "input_limit",
                f"no summary after {standing.requests} requests (worker_max_requests)",
            )
        case Limited(reached):  # the run's own limit: nobody's failure
            return End("input_limit", reached.message, counts=False)
        case Exhausted(message=message):
            return End("no_summary", message)
        case Held():  # nobody asks a compact worker to halt
            return End("no_summary", "it was halted", counts=False)
        case Refused(message):
            return End("no_summary", f"the model refused: {message}")
        case Blocked(message=message):  # nothing it could do better the next time
            return End("no_summary", message, counts=False)
        case Failed(failure):
            return _failed(failure)


def _failed(failure: Failure) -> End:
    if failure.kind == "overflow":
        return End("overflow", f"its own input is too long: {failure.message}")
    return End("api", failure.message, counts=failure.kind not in TRANSIENT)
