"""Watches how full the context is, and has room made when a limit is passed."""

from collections.abc import Awaitable, Callable
from functools import partial

from pod.compaction.admission import Refused
from pod.compaction.compactor import Compactor
from pod.compaction.cut import NoCut
from pod.compaction.framing import auto_read_text, directives_text, references_text
from pod.compaction.job import (
    Done,
    Ended,
    Failed,
    Job,
    Outcome,
    Pruned,
    Skipped,
    failure_text,
)
from pod.compaction.plan import Plan, plan
from pod.compaction.thrash import Sizes, too_large_message
from pod.compaction.thresholds import Thresholds
from pod.ending import Verdict, verdict_of
from pod.entries import (
    Compaction,
    Known,
    Mode,
    Reason,
    UsageEntry,
)
from pod.events import Context
from pod.exits import Exit
from worker import endings
from worker.client import Failure
from worker.endings import Yielded
from worker.events import Warning
from worker.limits import Spent
from worker.overflow import window_from

MOST_RECOVERIES = 2
"""Overflows in a row, without an answer between them, that are recovered from: the
first over all rungs, the second by the last one alone."""


class ContextWatch:
    """Holds one session's context under its limits.

    *derive* gives the limits for a window (tokens; None: not known), which may
    be learned from what the provider says. Nothing here is automatic where
    compaction is disabled; what a person asks for always is done.
    """

    def __init__(
        self,
        compactor: Compactor,
        *,
        derive: Callable[[int | None], Thresholds | None],
        window: int | None,
    ) -> None:
        self._compactor = compactor
        self._session = compactor.session
        self.occupancy = compactor.occupancy
        self.maintenance = compactor.maintenance
        self._settings = compactor.settings
        self._derive = derive
        self._window = window
        self.thresholds = derive(window)
        self._recoveries = 0
        self._responses = -1
        self._inputs: frozenset[str] = frozenset()
        """Those that were there when the run began, or when it last made room."""

    def told(self, entry: Known) -> Context | None:
        """Return what *entry* says of how full the context is; None where nothing."""
        match entry:
            case UsageEntry(context_tokens=int(tokens)):
                return self._context(tokens, None)
            case Compaction(tokens_after=estimate):
                return self._context(None, estimate)
            case _:
                return None

    def _context(self, tokens: int | None, estimate: int | None) -> Context:
        limits = self.thresholds if self._settings.enabled else None
        return Context(
            tokens=tokens,
            estimate=estimate,
            post_run_threshold=None if limits is None else limits.post_run,
            turn_threshold=None if limits is None else limits.turn,
            window=self._window,
        )

    async def gate(self) -> Yielded | None:
        """Stop a turn before a request that would pass the late limit."""
        limits = self.thresholds
        if not self._settings.enabled or limits is None:
            return None
        over = await self.occupancy.over(self._session.items, limits.turn)
        return None if over is None else Yielded(tokens=over)

    async def before_run(
        self, spent: Spent, *, is_new_input: bool, is_switch: bool
    ) -> None:
        """Compact what the run before left above the early limit.

        A failure is a warning: nothing is lost, and the late limit still holds.
        *is_switch* tells that the run before asked another model: what is above
        this one's late limit is compacted by all rungs then, since no request
        of it could be sent.
        """
        limits = self.thresholds
        self._recoveries, self._responses = 0, -1
        if not self._settings.enabled:
            return
        self._inputs = self._all_inputs()
        if is_new_input:
            self._half_open()
        if limits is None:  # an overflow may still ask a compact worker
            return
        over = await self.occupancy.over(self._session.items, limits.post_run)
        if over is None:
            return
        if is_switch and over > limits.turn:
            job = self._switch_job(over, limits, goes_on=True)
            self._warn_of(await self._compact(job, spent))
        else:
            await self._early(over, limits, spent)

    async def after_run(self, spent: Spent) -> Outcome | None:
        """Compact what a run has left above the early limit; None where it has not.

        A failure is a warning, as before a run.
        """
        limits = self.thresholds
        if not self._settings.enabled or limits is None:
            return None
        over = await self.occupancy.over(self._session.items, limits.post_run)
        return None if over is None else await self._early(over, limits, spent)

    async def before_switch(self, spent: Spent) -> Outcome | None:
        """Compact what would be above this watch's late limit; None where it is not.

        This is the watch of the model that comes next: its figures and limits,
        while the model before it is asked (see open_watch).
        """
        limits = self.thresholds
        if not self._settings.enabled or limits is None:
            return None
        over = await self.occupancy.over(self._session.items, limits.turn)
        if over is None:
            return None
        return await self._compact(self._switch_job(over, limits, goes_on=False), spent)

    @property
    def ended(self) -> Ended | None:
        """How the latest compaction ended, None where it was not begun."""
        return self._compactor.ended

    def abort(self) -> bool:
        """Abort the compaction that is under way; whether there was one."""
        return self._compactor.abort()

    async def _early(self, over: int, limits: Thresholds, spent: Spent) -> Outcome:
        job = Job(
            reason="post_run",
            rungs=self._settings.order[:1],
            tokens=over,
            limit=limits.post_run,
        )
        outcome = await self._compact(job, spent)
        self._warn_of(outcome)
        return outcome

    def _warn_of(self, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            self._compactor.tell(Warning(message=outcome.entry.message))

    def _switch_job(self, over: int, limits: Thresholds, *, goes_on: bool) -> Job:
        return Job(
            reason="model_switch",
            rungs=self._settings.order,
            tokens=over,
            limit=limits.turn,
            goes_on=goes_on,
        )

    def _half_open(self) -> None:
        """Let whoever is left alone be asked once more: there is new input."""
        breakers = self._session.breakers.values()
        opened = [one.half_opened().as_entry() for one in breakers if one.opened_at]
        if opened:
            self._session.append(*opened)

    def _all_inputs(self) -> frozenset[str]:
        waiting = (entry.input for entry in self._session.pending_inputs)
        return frozenset(waiting) | self._session.tree.delivered

    def _hear(self) -> None:
        """Half-open the breakers where the run got input since it last made room."""
        got = self._session.tree.delivered - self._inputs
        self._inputs |= got
        if got:
            self._half_open()

    async def make_room(self, tokens: int, spent: Spent) -> Verdict | None:
        """Compact before a request of *tokens*; what ends the run where that fails."""
        limits = self.thresholds
        limit = tokens - 1 if limits is None else limits.turn
        self._hear()
        if self._session.thrash.over_limit().is_thrash:
            return await self._too_large(limit, "mid_turn", "thrash")
        job = Job(
            reason="mid_turn",
            rungs=self._settings.order,
            tokens=tokens,
            limit=limit,
            goes_on=True,
        )
        return await self._verdict(await self._compact(job, spent), job.reason, limit)

    async def recover(
        self, failure: Failure, spent: Spent, *, responses: int
    ) -> Verdict | None:
        """Make room after the provider refused a prompt as too long.

        *responses* is how many answers the run had so far. Returns what ends
        the run, None where the same request may be sent again.
        """
        if not self._settings.enabled:
            return verdict_of(endings.Failed(failure))
        self._hear()
        await self._learn(failure)
        self._recoveries = self._recoveries + 1 if responses == self._responses else 1
        self._responses = responses
        tokens = await self.occupancy.estimate(self._session.items)
        tokens = max(tokens, failure.prompt_tokens or 0)
        limit = self.thresholds.turn if self.thresholds else tokens - 1
        is_thrash = self._session.thrash.over_limit().is_thrash
        if self._recoveries > MOST_RECOVERIES or (is_thrash and self._recoveries == 1):
            return await self._too_large(limit, "overflow", failure.message)
        rungs = self._settings.order
        job = Job(
            reason="overflow",
            rungs=rungs if self._recoveries == 1 else last_of(rungs),
            tokens=tokens,
            goes_on=True,
        )
        outcome = await self._compact(job, spent)
        return await self._verdict(outcome, job.reason, limit, cause=failure.message)

    async def by_hand(
        self, spent: Spent, *, instructions: str, mode: Mode | None
    ) -> Outcome:
        """Compact because a person, or a program, asks for it."""
        return await self._compact(partial(self._manual, instructions, mode), spent)

    async def plan(
        self, *, instructions: str, mode: Mode | None
    ) -> Plan | NoCut | Refused:
        """Return how by_hand would begin, without beginning it."""
        job = await self._manual(instructions, mode)
        return await plan(self._compactor, job, self.thresholds)

    async def _manual(self, instructions: str, mode: Mode | None) -> Job:
        return Job(
            reason="manual",
            rungs=self._settings.order if mode is None else (mode,),
            tokens=await self.occupancy.estimate(self._session.items),
            instructions=instructions,
        )

    async def _compact(
        self, job: Job | Callable[[], Awaitable[Job]], spent: Spent
    ) -> Outcome:
        return await self._compactor.compact(
            job, thresholds=self.thresholds, spent=spent
        )

    async def _learn(self, failure: Failure) -> None:
        """Go by the window that *failure* tells of, if it does."""
        learned = window_from(failure, self._window)
        if learned is not None and learned != self._window:
            self._window = self.occupancy.window = learned
            self.thresholds = self._derive(learned)
            if self.thresholds is not None:
                parts = await self.occupancy.parts(())
                room = self.thresholds.low_water - parts.total
                self._compactor.settings = self._settings.within(room)
            self._compactor.tell(
                Warning(message=f"the context window has {learned:,} tokens")
            )

    async def _verdict(
        self, outcome: Outcome, reason: Reason, limit: int, *, cause: str = ""
    ) -> Verdict | None:
        """Return what ends the run where *outcome* did not make room."""
        match outcome:
            case Done() | Pruned():
                return None
            case Skipped("floor" | "breaker_open" | "same_input", message):
                return _full(reason, failure_text(reason, message))
            case Skipped(_, message):
                why = f"{message}; {cause}" if cause else message
                return await self._too_large(limit, reason, why)
            case Failed(entry):
                return _full(reason, entry.message)

    async def _too_large(self, limit: int, reason: Reason, why: str) -> Verdict:
        message = too_large_message(await self._sizes(), limit)
        return _full(reason, failure_text(reason, f"{message} ({why})"))

    async def _sizes(self) -> Sizes:
        """Return what the context is made of."""
        count = self._compactor.count
        parts = await self.occupancy.parts(())
        window = self._session.window
        kept = await self.occupancy.sizes([shown.item for shown in window.shown])
        compaction = window.compaction or _NOTHING
        return Sizes(
            system=parts.system,
            tools=parts.tools,
            summary=count(compaction.summary),
            directives=count(directives_text(compaction.directives))
            if compaction.directives
            else 0,
            auto_read=sum(
                count(auto_read_text(f.path, f.text, start=f.start, end=f.end))
                for f in compaction.auto_read
            ),
            references=count(references_text(compaction.references))
            if compaction.references
            else 0,
            kept=sum(kept),
        )


def last_of(rungs: tuple[Mode, ...]) -> tuple[Mode, ...]:
    """Return the rung that is left where all did their part and it was not enough."""
    return ("mechanical",) if "mechanical" in rungs else rungs[-1:]


def _full(reason: Reason, message: str) -> Verdict:
    word = "overflow" if reason == "overflow" else "context_full"
    return Verdict("failed", word, Exit.CONTEXT, message, interrupted=True)


_NOTHING = Compaction(
    compaction_id="",
    reason="manual",
    mode="mechanical",
    summary="",
    first_kept=None,
    compacted_from="",
    tokens_before=0,
    tokens_after=0,
)
