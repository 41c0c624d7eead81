"""What a compaction begins with: the cut, and what whoever summarises is given."""

from typing import TYPE_CHECKING

import trio
from msgspec import Struct

from pod.compaction.admission import Refused, admit
from pod.compaction.cut import Cut, NoCut, find_cut
from pod.compaction.directives import directives_of
from pod.compaction.file_operations import file_details
from pod.compaction.framing import directives_text
from pod.compaction.ground import Ground
from pod.compaction.job import Job
from pod.compaction.mechanical import mechanical_summary
from pod.compaction.settings import BY_CALLS, Settings
from pod.compaction.thresholds import Thresholds
from pod.entries import BranchSummary, Mode
from pod.view import Window
from worker.compact.conversation import conversation
from worker.compact.run import first_message
from worker.compact.summary_prompts import Brief, Kind, Sizes, part_prompt
from worker.compact.task import Budgets, KnownFile, Task
from worker.limits import Spent

if TYPE_CHECKING:
    from pod.compaction.compactor import Compactor


class Plan(Struct, frozen=True):
    """A compaction as it would begin now; figures are tokens.

    *start* has the cut and what goes with it, *turn_prefix_tokens* are those of
    the first part of a turn that is split. *input* is the first message of
    who would be asked, "" where *mode* asks nobody by one; *summary* is the one
    that takes no model, "" where it does. *most_after* is what the context has
    afterwards at most, *low_water* what it has to be under (None: no limit is
    known).
    """

    mode: Mode
    tokens: int
    overhead: int
    start: Ground
    turn_prefix_tokens: int
    files: tuple[KnownFile, ...]
    budgets: Budgets
    input: str
    input_tokens: int
    summary: str
    most_after: int
    low_water: int | None


def room_for_kept(
    settings: Settings, thresholds: Thresholds | None, overhead: int
) -> int | None:
    """Return what the kept items may have, so that the verdict can be a good one."""
    if thresholds is None:
        return None
    most = (
        settings.worker.summary_cap
        + settings.worker.auto_read
        + settings.directive_budget
    )
    return thresholds.low_water - overhead - most


async def ground_of(
    compactor: "Compactor", thresholds: Thresholds | None, mode: Mode, job: Job
) -> Ground | NoCut:
    """Cut the session's window as *mode* has it cut, for *job*."""
    settings, window = compactor.settings, compactor.session.window
    parts = await compactor.occupancy.parts(())
    room = room_for_kept(settings, thresholds, parts.system + parts.tools)
    if job.reason == "overflow":
        # Whatever the limits say, all of it was too much: half of it may not be.
        shown = sum(await compactor.sizes([one.item for one in window.shown]))
        half = max(min(shown, job.tokens - parts.system - parts.tools), 0) // 2
        room = half if room is None else min(room, half)
    by_calls = mode in BY_CALLS
    keep = await _recent(compactor) if by_calls else settings.retained_tokens
    if room is not None and (by_calls or job.reason == "overflow"):
        keep = min(keep, max(room, 1))
    cut = find_cut(
        window,
        retained_tokens=keep,
        room=room,
        count=await compactor.counted([shown.item for shown in window.shown]),
        rule="at_or_after" if by_calls else "back",
    )
    if isinstance(cut, NoCut):
        return cut
    return await ground_with(compactor, window, cut)


async def _recent(compactor: "Compactor") -> int:
    """Return keep_recent_tokens, as they are measured.

    Estimated too low, as many would be more: they are divided by how much.
    """
    keep = compactor.settings.keep_recent_tokens
    return max(int(keep / max(await compactor.occupancy.ratio(), 1.0)), 1)


async def ground_with(compactor: "Compactor", window: Window, cut: Cut) -> Ground:
    """Return what a rung starts from where *window* is cut so."""
    settings = compactor.settings
    parts = await compactor.occupancy.parts(())
    head = [shown.item for shown in window.shown[: cut.index]]
    directives = directives_of(
        head,
        window.compaction.directives if window.compaction else (),
        budget=settings.directive_budget,
        count=compactor.count,
    )
    return Ground(
        window=window,
        cut=cut,
        system=parts.system,
        tools=parts.tools,
        directives=directives,
        directive_tokens=compactor.count(directives_text(directives))
        if directives
        else 0,
        details=file_details(head, window.compaction, _branches(window, cut)),
    )


def _branches(window: Window, cut: Cut) -> list[BranchSummary]:
    """Return the summaries of other branches in what is summarised."""
    ids = {shown.entry for shown in window.shown[: cut.index]}
    return [
        entry
        for entry in window.entries
        if isinstance(entry, BranchSummary) and entry.id in ids
    ]


def worker_task(ground: Ground, files: tuple[KnownFile, ...], brief: Brief) -> Task:
    """Return what a compact worker is given."""
    wishes = (brief.instructions.strip(), brief.prompt.strip())
    return Task(
        head=ground.head,
        previous_summary=ground.previous_summary,
        directives=tuple(directive.text for directive in ground.directives),
        files=files,
        instructions="\n\n".join(wish for wish in wishes if wish),
        context=brief.context,
    )


async def summary_without_model(
    ground: Ground, compactor: "Compactor", *, cap: int
) -> str:
    """Return the mechanical summary, in at most *cap* tokens."""
    if not ground.cut.index and ground.previous_summary:
        return ground.previous_summary  # nothing was added to what it tells
    return await trio.to_thread.run_sync(
        lambda: mechanical_summary(
            ground.head,
            previous=ground.previous_summary,
            details=ground.details,
            cap=cap,
            count=compactor.count,
        )
    )


async def plan(
    compactor: "Compactor", job: Job, thresholds: Thresholds | None
) -> Plan | NoCut | Refused:
    """Return how *job* would begin, or why not. Nothing is asked, nothing written."""
    settings = compactor.settings
    low_water = thresholds.low_water if thresholds else None
    start = await ground_of(compactor, thresholds, job.rungs[0], job)
    if isinstance(start, NoCut):
        return start
    admission = admit(start, job.rungs, low_water=low_water, refusals={})
    if isinstance(admission, Refused):
        return admission
    files = await compactor.known_files(start.details)
    mode = admission.rungs[0]
    brief = Brief(instructions=job.instructions)
    text = summary = ""
    match mode:
        case "worker":
            task = worker_task(start, files, brief)
            parts = compactor.parts(Spent())
            text = await trio.to_thread.run_sync(first_message, task, parts)
        case "summarize" | "remote":
            text = first_prompt(start, brief, _sizes(settings))
        case "native" | "mechanical":
            cap = settings.worker.summary_cap
            summary = await summary_without_model(start, compactor, cap=cap)
    budgets = settings.worker
    files_most = budgets.auto_read if mode == "worker" else 0
    return Plan(
        mode=mode,
        tokens=job.tokens,
        overhead=start.overhead,
        start=start,
        turn_prefix_tokens=sum(await compactor.sizes(start.turn_prefix)),
        files=files if mode not in BY_CALLS else (),
        budgets=budgets,
        input=text,
        input_tokens=compactor.count(text),
        summary=summary,
        most_after=start.floor + files_most + budgets.summary_cap,
        low_water=low_water,
    )


def first_prompt(start: Ground, brief: Brief, sizes: Sizes) -> str:
    """Return the message that the first call of "summarize" or "remote" would have.

    Where the record does not fit, it gets the first part of it.
    """
    kind: Kind = "history" if start.history else "turn_prefix"
    items = start.history or start.turn_prefix
    previous = start.previous_summary if kind == "history" else ""
    return part_prompt(kind, conversation(items), previous, brief, sizes)


def _sizes(settings: Settings) -> Sizes:
    return Sizes(settings.worker.summary_target, settings.worker.summary_cap)
