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
from pod.compaction.settings import Settings
from pod.compaction.thresholds import Thresholds
from pod.entries import Directive, Mode
from worker.compact.run import first_message
from worker.compact.task import Budgets, KnownFile, Task
from worker.limits import Spent

if TYPE_CHECKING:
    from pod.compaction.compactor import Compactor


class Plan(Struct, frozen=True):
    """A compaction as it would begin now; figures are tokens.

    *items* is how many the window has: ``cut.index`` of them would be
    summarised. *input* is the compact worker's first message, "" where *mode*
    asks none; *summary* is the one that takes no model, "" where it does.
    *most_after* is what the context has afterwards at most, *low_water* what it
    has to be under (None: no limit is known).
    """

    mode: Mode
    tokens: int
    overhead: int
    items: int
    cut: Cut
    directives: tuple[Directive, ...]
    directive_tokens: int
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
    compactor: "Compactor", thresholds: Thresholds | None
) -> Ground | NoCut:
    """Cut the session's window."""
    settings, window = compactor.settings, compactor.session.window
    parts = await compactor.occupancy.parts(())
    cut = find_cut(
        window,
        retained_tokens=settings.retained_tokens,
        room=room_for_kept(settings, thresholds, parts.system + parts.tools),
        count=await compactor.counted([shown.item for shown in window.shown]),
    )
    if isinstance(cut, NoCut):
        return cut
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
        details=file_details(head, window.compaction),
    )


def worker_task(
    ground: Ground, files: tuple[KnownFile, ...], instructions: str
) -> Task:
    """Return what a compact worker is given."""
    return Task(
        head=ground.head,
        previous_summary=ground.previous_summary,
        directives=tuple(directive.text for directive in ground.directives),
        files=files,
        instructions=instructions,
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
    start = await ground_of(compactor, thresholds)
    if isinstance(start, NoCut):
        return start
    admission = admit(start, job.rungs, low_water=low_water, refusal=None)
    if isinstance(admission, Refused):
        return admission
    files = await compactor.known_files(start.details)
    mode = admission.rungs[0]
    text = summary = ""
    match mode:
        case "worker":
            task = worker_task(start, files, job.instructions)
            parts = compactor.parts(Spent())
            text = await trio.to_thread.run_sync(first_message, task, parts)
        case "mechanical":
            cap = settings.worker.summary_cap
            summary = await summary_without_model(start, compactor, cap=cap)
    budgets = settings.worker
    files_most = budgets.auto_read if mode == "worker" else 0
    return Plan(
        mode=mode,
        tokens=job.tokens,
        overhead=start.overhead,
        items=len(start.window.shown),
        cut=start.cut,
        directives=start.directives,
        directive_tokens=start.directive_tokens,
        files=files,
        budgets=budgets,
        input=text,
        input_tokens=compactor.count(text),
        summary=summary,
        most_after=start.floor + files_most + budgets.summary_cap,
        low_water=low_water,
    )
