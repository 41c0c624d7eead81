"""From how a turn ended to how the run is told to have ended."""

from typing import Literal

from msgspec import Struct

from pod.entries import Outcome
from pod.exits import Exit
from worker.client import FailureKind
from worker.endings import (
    Blocked,
    Ending,
    Exhausted,
    Failed,
    Finished,
    Held,
    Limited,
    Refused,
    Yielded,
)

Stop = Literal[
    "sigint",
    "sigterm",
    "cancelled",
    "broken_pipe",
    "timeout",
    "interrupted",
    "paused",
    "shutdown",
]
"""What can end a run from outside."""


class Verdict(Struct, frozen=True):
    """The part of a RunEnd that says what came of it.

    *interrupted* tells that the turn stands open: resumed, it goes on.
    """

    outcome: Outcome
    reason: str
    exit: Exit
    message: str = ""
    interrupted: bool = False


def verdict_of(ending: Ending) -> Verdict:
    """Say what *ending* means for the run."""
    match ending:
        case Finished():
            return Verdict("finished", "done", Exit.DONE)
        case Limited(reached):
            return Verdict(
                "limit", reached.name, Exit.LIMIT, reached.message, interrupted=True
            )
        case Exhausted(reason, message):
            return Verdict("failed", reason, Exit.FAILED, message, interrupted=True)
        case Held():
            return verdict_of_stop("paused")
        case Yielded(tokens):
            return Verdict(
                "yielded",
                "context",
                Exit.CONTEXT,
                f"the next request would have {tokens} tokens",
                interrupted=True,
            )
        case Blocked(by, message):
            return Verdict("blocked", by, Exit.BLOCKED, message, interrupted=True)
        case Refused(message):
            return Verdict(
                "failed", "refusal", Exit.FAILED, f"the model refused: {message}"
            )
        case Failed(failure):
            return Verdict(
                "failed",
                failure.kind,
                exit_of_failure(failure.kind),
                failure.message,
                interrupted=True,
            )


def exit_of_failure(kind: FailureKind) -> Exit:
    """Return the exit code for a request that got no answer."""
    match kind:
        case "auth" | "billing":
            return Exit.AUTH
        case "overflow" | "output_too_large" | "payload_too_large":
            return Exit.CONTEXT
        case (
            "rate_limit"
            | "overloaded"
            | "server"
            | "connection"
            | "timeout"
            | "truncated"
            | "garbled"
            | "not_a_stream"
        ):
            return Exit.UNAVAILABLE
        case "invalid" | "not_found":
            return Exit.FAILED


def verdict_of_stop(stop: Stop, *, seconds: float | None = None) -> Verdict:
    """Say what a stop from outside means; *seconds* is the limit of a timeout."""
    match stop:
        case "sigint":
            return Verdict(
                "cancelled", stop, Exit.SIGINT, "interrupted", interrupted=True
            )
        case "sigterm":
            return Verdict(
                "cancelled", stop, Exit.SIGTERM, "terminated", interrupted=True
            )
        case "cancelled":
            return Verdict(
                "cancelled", stop, Exit.FAILED, "cancelled", interrupted=True
            )
        case "interrupted":
            return Verdict(
                "cancelled",
                stop,
                Exit.FAILED,
                "interrupted; the turn is not gone on with",
            )
        case "paused":
            return Verdict(
                "yielded",
                stop,
                Exit.DONE,
                "paused; the turn can be resumed",
                interrupted=True,
            )
        case "shutdown":
            return Verdict(
                "cancelled",
                stop,
                Exit.FAILED,
                "the Pod was shut down; the turn can be resumed",
                interrupted=True,
            )
        case "broken_pipe":
            return Verdict(
                "cancelled",
                stop,
                Exit.FAILED,
                "standard output takes nothing any more: its reader is gone, or its"
                " disk is full",
                interrupted=True,
            )
        case "timeout":
            return Verdict(
                "limit",
                stop,
                Exit.LIMIT,
                f"stopped after {seconds:g} seconds (limits.timeout)",
                interrupted=True,
            )


ROLLED_BACK = Verdict(
    "cancelled",
    "rolled_back",
    Exit.FAILED,
    "interrupted before the model had answered; the input went back to its sender",
)
"""What an interrupt means for a run whose turn had no output yet."""
