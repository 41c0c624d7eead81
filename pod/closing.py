"""The end of a run: how it gets into the log, whatever state that is in."""

from collections.abc import Sequence

from msgspec import structs

from pod.ending import Verdict
from pod.entries import Known, RunEnd, RunStart
from pod.errors import DiskFull, LogFailed
from pod.exits import Exit
from pod.journal import Journal
from pod.recovery import settled
from pod.rollback import Unanswered, taken_back
from pod.session import Session
from prompts import load
from worker.crash import crash_text
from worker.events import Listen, Warning
from worker.items import AssistantText, Item, ToolResult, UserText
from worker.limits import Spent

LAST_TEXT = 4_000
"""Characters of the answer in a run's end that goes into the reserved space; the
whole is in the items anyway."""


def run_end(run: str, journal: Journal, spent: Spent, verdict: Verdict) -> RunEnd:
    """Return the end of a run, with what its journal and its spending tell."""
    return RunEnd(
        run=run,
        outcome=verdict.outcome,
        reason=verdict.reason,
        exit_code=verdict.exit,
        message=verdict.message,
        requests=spent.requests,
        tool_calls=journal.tool_calls,
        tool_errors=journal.tool_errors,
        usage=spent.usage,
        cost_usd=None if spent.cost is None else float(spent.cost),
        permission_denials=tuple(journal.denials),
    )


async def close(
    session: Session,
    start: RunStart,
    end: RunEnd,
    *,
    listen: Listen,
    back: Unanswered | None,
) -> tuple[RunEnd, tuple[RunEnd, ...]]:
    """Write *end*; into the space reserved for it where the disk is full.

    Calls that a full disk left unanswered get a result before it, and a run whose
    *start* found no room gets that, too: no end without one. *back* is the input
    of a turn that is rolled back: the leaf goes to before it, and the end stands
    there. Returns the end as it is in the log, or as it should have been, and
    what the log still has to get.
    """
    before: list[Known] = [] if session.run == start.run else [start]
    before += settled(session.items, "crashed_call", session.state.begun)
    try:
        await session.commit()
        written = session.append(*before, *taken_back(session.tree, back), end)
    except DiskFull as error:
        end = _broken_off(session, end, error)
        short = structs.replace(end, text=end.text[:LAST_TEXT], permission_denials=())
        try:
            written = session.last_words(*before, short)
        except LogFailed:
            return end, _owed(session, start, short)
    except LogFailed as error:
        owed = _owed(session, start, end)
        # A disk that was full is why the log failed, if it was.
        is_told = end.reason == DiskFull.reason
        return (end if is_told else _broken_off(session, end, error)), owed
    try:
        await session.commit()
    except LogFailed as error:  # it has been told already, and stands in the log
        listen(Warning(message=str(error)))
    (found,) = (entry for entry in written if isinstance(entry, RunEnd))
    return structs.replace(found, text=end.text), ()


def _owed(session: Session, start: RunStart, end: RunEnd) -> tuple[RunEnd, ...]:
    return (end,) if start.run in session.tree.running else ()


def _broken_off(session: Session, end: RunEnd, error: LogFailed) -> RunEnd:
    verdict = verdict_of_log(error)
    return structs.replace(
        end,
        outcome=verdict.outcome,
        reason=verdict.reason,
        exit_code=verdict.exit,
        interrupted=is_open(session),
        message=verdict.message,
    )


def is_open(session: Session) -> bool:
    """Whether the session's last turn can go on without a new prompt."""
    return bool(session.pending_inputs) or has_open_turn(session)


def has_open_turn(session: Session) -> bool:
    """Whether a turn stands open, whatever waits.

    Where the leaf was moved into a run that has ended elsewhere, what stands
    last decides: after an answer nothing is left to do.
    """
    items, state = session.items, session.state
    if not items:
        return False
    was_moved = state.open_run is not None and session.run is None
    is_unanswered = isinstance(items[-1], UserText | ToolResult)
    return is_unanswered or (state.interrupted and not was_moved)


def last_text(items: Sequence[Item]) -> str:
    """Return what the model said last: since its last call, or before it.

    An answer that was cut off and gone on with is one text.
    """
    cut_off = UserText(text=load("continue_cut_off"), synthetic=True)
    said: list[str] = []
    for item in reversed(items):
        match item:
            case AssistantText(text=text):
                said.append(text)
            case UserText() if item != cut_off:
                break
            case ToolResult() if "".join(said).strip():
                break
            case _:
                pass
    return "".join(reversed(said))


def verdict_of_bug(error: BaseException) -> Verdict:
    """Say what it means for a run that the program itself failed."""
    text = crash_text(error)
    return Verdict("failed", "internal_error", Exit.FAILED, text, interrupted=True)


def verdict_of_log(error: LogFailed) -> Verdict:
    """Say what it means for a run that its log cannot be written."""
    return Verdict("failed", error.reason, Exit.FAILED, str(error), interrupted=True)
