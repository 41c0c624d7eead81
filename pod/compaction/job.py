"""A compaction that is wanted, and what can come of it."""

from msgspec import Struct

from pod.entries import Compaction, CompactionCode, CompactionFailed, Mode, Reason

TOO_SMALL: tuple[CompactionCode, ...] = ("no_gain", "does_not_fit")
"""Failures that mean the context cannot be made smaller: exit code 7."""


class Done(Struct, frozen=True):
    """The head was replaced."""

    entry: Compaction


class Pruned(Struct, frozen=True):
    """Pruning alone made enough room."""

    saved: int


class Skipped(Struct, frozen=True):
    """Nothing was begun, and *message* says why."""

    reason: str
    message: str


class Failed(Struct, frozen=True):
    """It was begun and came to nothing; the history is as it was."""

    entry: CompactionFailed


Ended = Done | Failed
"""What can come of a compaction that was begun: its terminal entry."""

NotMade = Skipped | Failed
"""Outcomes after which the context is as large as it was."""

ABORTED = "the compaction was aborted before it began"

Outcome = Done | Pruned | Skipped | Failed


class Job(Struct, frozen=True):
    """One compaction that is wanted.

    *limit* is what the context exceeded (None: nobody compared), *tokens* what it
    has. *rungs* are tried in order. *goes_on* tells that the run waits for it.
    """

    reason: Reason
    rungs: tuple[Mode, ...]
    tokens: int
    limit: int | None = None
    instructions: str = ""
    goes_on: bool = False


def failure_text(reason: Reason, message: str) -> str:
    """Return *message* as a person is told it, with what it was that failed."""
    if reason == "overflow":
        return f"Context overflow recovery failed: {message}"
    if reason == "manual":
        return f"Compaction failed: {message}"
    return f"Auto-compaction failed: {message}"
