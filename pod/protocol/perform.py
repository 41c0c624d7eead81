"""Does what a request asks for."""

from pod.compaction.job import Done, Failed, Outcome, Pruned, Skipped
from pod.protocol.answers import (
    Aborted,
    Accepted,
    Began,
    Compacted,
    Data,
    Forked,
    Navigated,
    Stands,
    Waits,
)
from pod.protocol.driven import Driven
from pod.protocol.messages import (
    AbortCompaction,
    BadRequest,
    Compact,
    FollowUp,
    Fork,
    Interrupt,
    Navigate,
    Pause,
    Prompt,
    Resume,
    SetModel,
    Steer,
)

Action = (
    Prompt
    | Steer
    | FollowUp
    | Interrupt
    | Pause
    | Resume
    | Compact
    | AbortCompaction
    | Navigate
    | Fork
    | SetModel
)
"""Requests that do something with the Pod."""


async def perform(action: Action, pod: Driven) -> Data:
    """Do *action*; return what to answer. Raises BadRequest, and what the Pod raises."""
    match action:
        case Prompt(text):
            return Began(await pod.prompt(_said(text)))
        case Steer(text):
            return Waits(pod.steer(_said(text)))
        case FollowUp(text):
            return Waits(pod.follow_up(_said(text)))
        case Interrupt():
            await pod.interrupt()
            return Stands(pod.state)
        case Pause():
            await pod.pause()
            return Stands(pod.state)
        case Resume():
            return Began(await pod.resume())
        case Compact(instructions, mode):
            return compacted(await pod.compact(instructions, mode))
        case AbortCompaction():
            return Aborted(pod.abort_compaction())
        case Navigate(target, summarize, instructions, label, replaces):
            moved = await pod.navigate(
                target,
                summarize=summarize,
                instructions=instructions,
                replace_instructions=replaces,
                label=label,
            )
            return Navigated(
                old_leaf=moved.old_leaf,
                new_leaf=moved.new_leaf,
                text=moved.text,
                summary=None if moved.entry is None else moved.entry.id,
                cancelled=moved.cancelled,
            )
        case Fork(entry):
            return Forked(await pod.fork(entry))
        case SetModel(model):
            await pod.set_model(_said(model))
            return Accepted()


def compacted(outcome: Outcome) -> Compacted:
    """Say what came of a compaction."""
    match outcome:
        case Done(entry):
            return Compacted(
                "done",
                compaction_id=entry.compaction_id,
                tokens_before=entry.tokens_before,
                tokens_after=entry.tokens_after,
            )
        case Pruned(saved):
            return Compacted("pruned", message=f"pruning saved {saved:,} tokens")
        case Skipped(reason, message):
            return Compacted("skipped", reason=reason, message=message)
        case Failed(entry):
            return Compacted(
                "failed",
                compaction_id=entry.compaction_id,
                reason=entry.code,
                message=entry.message,
            )


def _said(text: str) -> str:
    if not text.strip():
        raise BadRequest("invalid_request", "an empty text")
    return text
