"""What a crash left undone in a session, and the entries that bring it to an end."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from pod.compaction.breaker import breaker_of
from pod.compaction.job import failure_text
from pod.entries import (
    AnyEntry,
    Compaction,
    CompactionFailed,
    CompactionStart,
    InputEntry,
    ItemEntry,
    Leaf,
    RunEnd,
    RunStart,
    UsageEntry,
)
from pod.exits import Exit
from prompts import load
from worker.history import unanswered
from worker.items import Item, ToolCall, ToolResult, UserText
from worker.usage import Usage

Cause = Literal["crashed", "forked"]
"""Why a run has no end: the process went away, or the copy begins in its middle."""


_MESSAGES: dict[Cause, str] = {
    "crashed": "Pod's process ended before the run did.",
    "forked": "The session was forked in the middle of this run.",
}

_COMPACTION_MESSAGES: dict[Cause, str] = {
    "crashed": "Pod's process ended before the compaction did.",
    "forked": "the session was forked in the middle of it.",
}


def settled(
    items: Sequence[Item], prompt: str, begun: Collection[str] | None = None
) -> list[ItemEntry]:
    """Return an error result for each call that has none.

    It says what *prompt* says; where *begun* is given, for a call that is not
    in it, what the prompt of that name with _not_begun says.
    """
    return [
        ItemEntry(
            item=ToolResult(
                call_id=call.call_id,
                summary=load(
                    prompt
                    if begun is None or call.call_id in begun
                    else f"{prompt}_not_begun"
                ),
                is_error=True,
            )
        )
        for call in unanswered(items)
    ]


CUT_OFF = (
    "Pod's process ended while the session was moved to another entry: it stands"
    " where it stood before."
)


def cut_off_navigation(entries: Sequence[AnyEntry]) -> Leaf | None:
    """Return the navigation a log ends in, if not all that belongs to it was written."""
    leaf = next((e for e in reversed(entries) if isinstance(e, Leaf)), None)
    if leaf is None or entries[-1].seq - leaf.seq >= leaf.behind:
        return None
    return leaf


def close_compactions(
    starts: Iterable[CompactionStart], path: Sequence[AnyEntry], cause: Cause
) -> list[CompactionFailed]:
    """Return an end for each compaction that has none; the breaker does not count it."""
    breaker = breaker_of(path)
    return [
        CompactionFailed(
            run=start.run,
            compaction_id=start.compaction_id,
            code="crashed" if cause == "crashed" else "cancelled",
            message=failure_text(start.reason, _COMPACTION_MESSAGES[cause]),
            consecutive_failures=breaker.failures,
            breaker_open=breaker.opened_at is not None,
        )
        for start in starts
    ]


def close_run(path: Sequence[AnyEntry], start: RunStart, cause: Cause) -> RunEnd:
    """Return the end of a run that has none, with what it used until then.

    What its compact workers used is in that, as in the end of any run; of one
    that was under way nothing is known.
    """
    mine = [entry for entry in path if entry.run == start.run]
    answered = [entry for entry in mine if isinstance(entry, UsageEntry)]
    found = [entry.item for entry in mine if isinstance(entry, ItemEntry)]
    charged = [
        entry
        for entry in mine
        if isinstance(entry, UsageEntry | Compaction | CompactionFailed)
    ]
    costs = [entry.cost_usd for entry in charged]
    known = [cost for cost in costs if cost is not None]
    results = [item for item in found if isinstance(item, ToolResult)]
    return RunEnd(
        run=start.run,
        outcome="failed" if cause == "crashed" else "cancelled",
        reason=cause,
        exit_code=Exit.FAILED,
        interrupted=True,
        message=_MESSAGES[cause],
        requests=len(answered),
        tool_calls=sum(isinstance(item, ToolCall) for item in found),
        tool_errors=sum(item.is_error for item in results),
        usage=sum((entry.usage for entry in charged if entry.usage), Usage()),
        cost_usd=sum(known) if charged and len(known) == len(costs) else None,
    )


def close_left_run(path: Sequence[AnyEntry], start: RunStart, cause: Cause) -> RunEnd:
    """Return the end of a run that has none and that the session has left.

    Another run began behind it, or the leaf was moved away: it does not go on.
    """
    return replace(close_run(path, start, cause), interrupted=False)


def delivered_before(
    path: Sequence[AnyEntry], pending: Sequence[InputEntry]
) -> tuple[str, ...]:
    """Return inputs that are in the history although nothing says so.

    Items and the word of their delivery are written together, in the order of
    the inputs; a crash may cut between them. Then the items are the last
    entries there are.
    """
    waiting = iter(pending)
    found: list[str] = []
    for text in _last_texts(path):
        # Not all that waited may have been due: those in between wait on.
        found += next(([e.input] for e in waiting if e.text == text), [])
    return tuple(found)


def _last_texts(path: Sequence[AnyEntry]) -> list[str]:
    """Return the user messages that nothing follows."""
    found: list[str] = []
    for entry in reversed(path):
        if not isinstance(entry, ItemEntry) or not isinstance(entry.item, UserText):
            break
        found.append(entry.item.text)
    return found[::-1]
