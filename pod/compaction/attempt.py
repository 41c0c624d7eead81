"""One compaction: whether it may begin, and from its start entry to its terminal one."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import trio

from pod.clock import now
from pod.compaction.admission import Admission, Refused, admit
from pod.compaction.asking import Asking, hook_summary
from pod.compaction.breakers_in_use import BreakersInUse
from pod.compaction.cut import NoCut
from pod.compaction.entry import Facts, dollars, entry_of, with_tokens
from pod.compaction.framing import leading_items
from pod.compaction.ground import Ground
from pod.compaction.job import (
    Done,
    Ended,
    Failed,
    Job,
    Outcome,
    Skipped,
    failure_text,
)
from pod.compaction.plan import ground_of
from pod.compaction.settings import BY_CALLS
from pod.compaction.strategies.by_calls import ByCalls
from pod.compaction.strategies.by_worker import ByWorker
from pod.compaction.strategies.mechanical import Mechanical
from pod.compaction.strategies.native import ByProvider
from pod.compaction.strategies.strategy import Errand, Missed, Strategy
from pod.compaction.summary import Summary
from pod.compaction.thresholds import Thresholds
from pod.compaction.verdict import Figures, Rejection, judge
from pod.entries import Compaction, CompactionFailed, CompactionStart, Mode
from pod.errors import LogFailed
from pod.events import CompactProgress, CompactSkipped
from pod.hooks.answers import BeforeCompactAnswer, HookCompaction
from tools.text import clean
from worker.cancelled import is_cancel
from worker.compact.summary_prompts import Brief
from worker.compact.task import Progress
from worker.crash import crash_text
from worker.limits import Spent

if TYPE_CHECKING:
    from pod.compaction.compactor import Compactor


class Attempt:
    """One compaction under way."""

    def __init__(
        self,
        compactor: "Compactor",
        job: Job,
        thresholds: Thresholds | None,
        spent: Spent,
    ) -> None:
        self._of = compactor
        self._session = compactor.session
        self._settings = compactor.settings
        self._job = job
        self._low_water = thresholds.low_water if thresholds else None
        self._thresholds = thresholds
        self._spent = spent
        self._all_spent = Spent()
        """What the rungs of this compaction used together."""
        self._input_tokens = 0
        self._breakers = self._breakers_for("")
        self._revision = self._session.revision
        self._attempts: list[str] = []
        self.ended: Ended | None = None
        """How it ended, as soon as the log has it: a hook may still be told of it."""
        self._asking = Asking(compactor, job)
        self._brief: Brief | None = None
        self._kept_data = ""
        self._id = compactor.setup.new_id()
        self._started = trio.current_time()

    async def run(self) -> Outcome:
        start = await ground_of(
            self._of, self._thresholds, self._job.rungs[0], self._job
        )
        if isinstance(start, NoCut):
            return self._skip(start.reason, start.message)
        admission = self._admit(start)
        if isinstance(admission, Refused):
            return self._skip(admission.reason, admission.message)
        self._attempts += admission.left_out
        rungs = admission.rungs
        asked = await self._asking.before(start, rungs[0])
        made = asked.compaction
        if asked.cancel:
            if not self._job.goes_on:
                return self._skip("hook", _cancelled_by_hook(asked))
            # What a run cannot go on without no hook can prevent, only its cost.
            self._attempts.append(f"hook: {_cancelled_by_hook(asked)}")
            rungs, made = ("mechanical",), None
        self._session.append(
            CompactionStart(
                compaction_id=self._id,
                reason=self._job.reason,
                mode=rungs[0],
                tokens_before=self._job.tokens,
                threshold=self._job.limit,
                will_retry=self._job.goes_on,
            )
        )
        try:
            entry = await self._climb(start, rungs, made)
        except Missed as error:
            missed = error
        except LogFailed as error:
            with suppress(LogFailed):  # opening the session again ends it, too
                await self._failed(Missed("log_failed", str(error)), rungs)
            raise
        except BaseException as error:
            is_over = is_cancel(error) or isinstance(error, KeyboardInterrupt)
            await self._failed(
                Missed("cancelled", "cancelled")
                if is_over
                else Missed("api", crash_text(error)),
                rungs,
            )
            raise
        else:
            await self._asking.done(entry)
            return Done(entry)
        return Failed(await self._failed(missed, rungs))

    def _skip(self, reason: str, message: str) -> Skipped:
        self._of.tell(CompactSkipped(reason=reason, message=message))
        return Skipped(reason, message)

    def _admit(self, start: Ground) -> Admission | Refused:
        """Ask whether to begin, and with which rungs."""
        fingerprint = _fingerprint(start, self._job.instructions)
        self._breakers = self._breakers_for(fingerprint)
        return admit(
            start,
            self._job.rungs,
            low_water=self._low_water,
            refusals=self._breakers.refusals(now()),
        )

    def _breakers_for(self, fingerprint: str) -> BreakersInUse:
        return BreakersInUse(
            self._session.breakers,
            fingerprint,
            by_hand=self._job.reason == "manual",
            max_failures=self._settings.max_failures,
            cooldown=self._settings.cooldown,
        )

    async def _climb(
        self, start: Ground, rungs: Sequence[Mode], made: HookCompaction | None
    ) -> Compaction:
        """Try the rungs in order; commit the first summary that passes.

        What a hook *made* is tried before them; where it fails they are tried
        only if the run cannot go on otherwise. Raises Missed with the last
        rung's reason.
        """
        missed = Missed("no_summary", "no rung was tried")
        if made is not None:
            try:
                ground = await self._asking.ground(made, start)
                return await self._taken(hook_summary(made, rungs[0]), ground)
            except Missed as error:
                missed = error
            self._attempts.append(f"hook: {missed.code}: {missed}")
            if not self._job.goes_on:
                raise missed
        for mode in rungs:
            try:
                ground = await self._ground(start, mode)
                return await self._taken(await self._summary(mode, ground), ground)
            except Missed as error:
                missed = error
            if missed.counts and (changed := self._breakers.failed(mode, now())):
                self._session.append(*changed)
            self._attempts.append(f"{mode}: {missed.code}: {missed}")
        raise missed

    async def _ground(self, start: Ground, mode: Mode) -> Ground:
        """Return *start*, or another cut where *mode* keeps other items."""
        if (mode in BY_CALLS) is (self._job.rungs[0] in BY_CALLS):
            return start
        ground = await ground_of(self._of, self._thresholds, mode, self._job)
        if isinstance(ground, NoCut):
            raise Missed("no_summary", ground.message)
        return ground

    async def _summary(self, mode: Mode, start: Ground) -> Summary:
        """Have one rung write a summary; what it used is charged in any case."""
        own = Spent()
        brief = await self._briefed(start, mode)
        strategy = self._strategy(mode, own)
        try:
            return await strategy.summarise(start, brief)
        finally:
            self._spent.charge(own.usage, own.cost)
            self._all_spent.charge(own.usage, own.cost)
            self._all_spent.requests += own.requests
            self._input_tokens = strategy.input_tokens or self._input_tokens

    def _strategy(self, mode: Mode, own: Spent) -> Strategy:
        errand = Errand(
            of=self._of,
            compaction_id=self._id,
            spent=self._spent,
            own=own,
            under=self._most_after,
            kept_data=self._kept_data,
            tokens_after=self._tokens_after,
            progress=partial(self._progress, mode),
        )
        match mode:
            case "worker":
                return ByWorker(errand)
            case "summarize" | "remote":
                return ByCalls(mode, errand)
            case "native":
                return ByProvider(errand)
            case "mechanical":
                return Mechanical(errand)

    @property
    def _most_after(self) -> int:
        """What the verdict wants the context to be under."""
        gained = int(self._job.tokens * (1 - self._settings.min_gain))
        return gained if self._low_water is None else min(gained, self._low_water)

    async def _briefed(self, start: Ground, mode: Mode) -> Brief:
        """Return what the summary should look at; the hooks are asked once."""
        if self._brief is None:
            said = await self._asking.compacting(self._id, start, mode)
            self._kept_data = said.preserve_data
            self._brief = Brief(
                instructions=self._job.instructions,
                context=tuple(
                    line for text in said.context if (line := clean(text).text.strip())
                ),
                prompt=clean(said.prompt or "").text,
            )
        return self._brief

    def _progress(self, mode: Mode, progress: Progress) -> None:
        marks = self._settings.worker.auto_read if mode == "worker" else 0
        self._of.tell(
            CompactProgress(
                compaction_id=self._id,
                requests=progress.requests,
                worker_input_tokens=progress.input_tokens,
                auto_read_tokens=progress.auto_read_tokens,
                auto_read_budget=marks,
                references=progress.references,
                has_summary=progress.has_summary,
            )
        )

    async def _taken(self, summary: Summary, start: Ground) -> Compaction:
        """Judge what *summary* would make, and commit it. Raises Missed."""
        entry, rejection = await self._judged(summary, start)
        if rejection is not None:
            raise Missed(rejection.code, rejection.message, counts=True)
        return await self._commit(entry, start)

    async def _judged(
        self, summary: Summary, start: Ground
    ) -> tuple[Compaction, Rejection | None]:
        """Build the entry *summary* makes, and judge the context behind it."""
        entry = await self._entry(summary, start)
        figures = Figures(
            before=self._job.tokens,
            after=entry.tokens_after,
            limit=self._low_water,
            min_gain=self._settings.min_gain,
            summary=self._of.count(summary.prose),
            summary_cap=self._settings.worker.summary_cap,
        )
        return entry, judge(summary.prose, figures)

    async def _entry(self, summary: Summary, start: Ground) -> Compaction:
        """Return the entry that *summary* makes, with its receipt."""
        facts = Facts(
            compaction_id=self._id,
            reason=self._job.reason,
            leaf=self._session.leaf or "",
            tokens_before=self._job.tokens,
            spent=self._all_spent,
            input_tokens=self._input_tokens,
            attempts=self._attempts,
            seconds=self._seconds,
            kept_data=self._kept_data,
        )
        entry = entry_of(summary, start, facts, self._of.count)
        leading = sum(await self._of.sizes(leading_items(entry)))
        after = start.overhead + start.cut.kept_tokens + leading
        return with_tokens(entry, after)

    async def _tokens_after(self, summary: Summary, start: Ground) -> int:
        return (await self._entry(summary, start)).tokens_after

    @property
    def _seconds(self) -> float:
        return round(trio.current_time() - self._started, 3)

    async def _commit(self, entry: Compaction, start: Ground) -> Compaction:
        """Write the compaction as one batch, durable before anybody acts on it."""
        closed = [] if entry.from_hook else self._breakers.succeeded(entry.mode)
        clips = await self._of.keep_whole(start)
        if self._session.revision != self._revision:
            # Nobody should have: compactions and navigations exclude each other.
            raise Missed("invalid_cut", "the history has changed since it was cut")
        with trio.CancelScope(shield=True):
            written = self._session.append(*clips, entry, *closed)
            self._of.occupancy.reset()
            await self._session.commit()
        done = next(e for e in written if isinstance(e, Compaction))
        self.ended = Done(done)
        return done

    async def _failed(self, missed: Missed, rungs: Sequence[Mode]) -> CompactionFailed:
        failures, is_open = self._breakers.worst(rungs, now())
        with trio.CancelScope(shield=True):
            (entry,) = self._session.append(
                CompactionFailed(
                    compaction_id=self._id,
                    code=missed.code,
                    message=failure_text(self._job.reason, str(missed)),
                    retryable=missed.code in {"api", "timeout", "cancelled"},
                    consecutive_failures=failures,
                    breaker_open=is_open,
                    attempts=tuple(self._attempts),
                    usage=self._all_spent.usage,
                    cost_usd=dollars(self._all_spent.cost),
                    seconds=self._seconds,
                )
            )
            await self._session.commit()
        assert isinstance(entry, CompactionFailed)
        self.ended = Failed(entry)
        return entry


def _cancelled_by_hook(answer: BeforeCompactAnswer) -> str:
    why = f": {answer.message}" if answer.message else ""
    return f"a hook does not want it{why}"


def _fingerprint(start: Ground, instructions: str) -> str:
    """Return a code for what whoever summarises would be given."""
    ids = [shown.entry for shown in start.window.shown[: start.cut.index]]
    return sha256(" ".join([*ids, instructions]).encode()).hexdigest()[:16]
