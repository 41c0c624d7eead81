"""One compaction: whether it may begin, and from its start entry to its terminal one."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING

import trio
from msgspec.structs import replace

from pod.clock import now
from pod.compaction.admission import LEAST_SUMMARY, Admission, Refused, admit
from pod.compaction.breaker import Breaker
from pod.compaction.cut import NoCut
from pod.compaction.framing import leading_items, references_text
from pod.compaction.ground import Ground
from pod.compaction.job import Done, Failed, Job, Outcome, Skipped, failure_text
from pod.compaction.plan import ground_of, summary_without_model, worker_task
from pod.compaction.summary import Summary
from pod.compaction.thresholds import Thresholds
from pod.compaction.verdict import Figures, Rejection, judge
from pod.entries import (
    Compaction,
    CompactionCode,
    CompactionFailed,
    CompactionStart,
    Mode,
    Receipt,
    Reference,
)
from pod.errors import LogFailed
from pod.events import CompactProgress, CompactSkipped
from worker.cancelled import is_cancel
from worker.compact.run import compact
from worker.compact.task import CompactError, Progress, Result, Task
from worker.crash import crash_text
from worker.limits import Spent

if TYPE_CHECKING:
    from pod.compaction.compactor import Compactor


class _Missed(Exception):
    """A rung gave nothing that could be used."""

    def __init__(self, code: CompactionCode, message: str) -> None:
        super().__init__(message)
        self.code: CompactionCode = code


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
        self._worker_spent = Spent()
        self._worker_input = 0
        self._breaker = self._session.breaker
        self._fingerprint = ""
        self._attempts: list[str] = []
        self.failed: CompactionFailed | None = None
        """How it ended, where it came to nothing."""
        self._id = compactor.setup.new_id()
        self._started = trio.current_time()

    async def run(self) -> Outcome:
        start = await ground_of(self._of, self._thresholds)
        if isinstance(start, NoCut):
            return self._skip(start.reason, start.message)
        admission = self._admit(start)
        if isinstance(admission, Refused):
            return self._skip(admission.reason, admission.message)
        self._attempts += admission.left_out
        self._session.append(
            CompactionStart(
                compaction_id=self._id,
                reason=self._job.reason,
                mode=admission.rungs[0],
                tokens_before=self._job.tokens,
                threshold=self._job.limit,
                will_retry=self._job.goes_on,
            )
        )
        try:
            return Done(await self._climb(start, admission.rungs))
        except _Missed as error:
            missed = error
        except LogFailed as error:
            with suppress(LogFailed):  # opening the session again ends it, too
                await self._failed(_Missed("log_failed", str(error)))
            raise
        except BaseException as error:
            is_over = is_cancel(error) or isinstance(error, KeyboardInterrupt)
            await self._failed(
                _Missed("cancelled", "cancelled")
                if is_over
                else _Missed("api", crash_text(error))
            )
            raise
        return Failed(await self._failed(missed))

    def _skip(self, reason: str, message: str) -> Skipped:
        self._of.tell(CompactSkipped(reason=reason, message=message))
        return Skipped(reason, message)

    def _admit(self, start: Ground) -> Admission | Refused:
        """Ask whether to begin, and with which rungs."""
        if self._job.reason == "manual":
            self._breaker = self._breaker.half_opened(by_hand=True)
        self._fingerprint = _fingerprint(start, self._job.instructions)
        return admit(
            start,
            self._job.rungs,
            low_water=self._low_water,
            refusal=self._breaker.refusal(
                self._fingerprint, now=now(), cooldown=self._settings.cooldown
            ),
        )

    async def _climb(self, start: Ground, rungs: Sequence[Mode]) -> Compaction:
        """Try the rungs in order; commit the first summary that passes.

        Raises _Missed with the last rung's reason.
        """
        missed = _Missed("no_summary", "no rung was tried")
        for mode in rungs:
            try:
                summary = await self._summary(mode, start)
                entry, rejection = await self._judged(summary, start)
                if rejection is None:
                    return await self._commit(entry, start)
                missed = _Missed(rejection.code, rejection.message)
                if mode == "worker":
                    self._count_failure()
            except _Missed as error:
                missed = error
            self._attempts.append(f"{mode}: {missed.code}: {missed}")
        raise missed

    async def _summary(self, mode: Mode, start: Ground) -> Summary:
        match mode:
            case "worker":
                return await self._by_worker(start)
            case "mechanical":
                return await self._without_model(start)

    async def _without_model(self, start: Ground) -> Summary:
        """Summarise by rules, as short as it takes to fit.

        Where the names of files leave no room, those used last are kept.
        """
        known = await self._of.known_files(start.details)
        references = tuple(Reference(f.path, f.use) for f in known)
        cap = self._settings.worker.summary_cap
        if self._low_water is not None:
            room = self._low_water - await self._bare(references, start)
            while references and room < LEAST_SUMMARY:
                references = references[: len(references) // 2]
                room = self._low_water - await self._bare(references, start)
            cap = min(cap, room)
        text = await summary_without_model(start, self._of, cap=cap)
        return Summary(mode="mechanical", text=text, references=references)

    async def _bare(self, references: tuple[Reference, ...], start: Ground) -> int:
        """Return the tokens of the context with no more than a dot for a summary."""
        bare = Summary(mode="mechanical", text=".", references=references)
        return (await self._entry(bare, start)).tokens_after

    async def _by_worker(self, start: Ground) -> Summary:
        known = await self._of.known_files(start.details)
        task = worker_task(start, known, self._job.instructions)
        try:
            result = await self._run_worker(task)
        except CompactError as error:
            self._worker_input = error.input_tokens
            if error.counts:
                self._count_failure()
            raise _Missed(error.code, str(error)) from error
        self._worker_input = result.input_tokens
        auto_read, vanished = await self._of.read_marks(result.marks)
        marked = {file.path for file in auto_read}
        uses = {file.path: file.use for file in known}
        named = dict.fromkeys((*uses, *result.references, *vanished))
        return Summary(
            mode="worker",
            text=result.summary,
            auto_read=auto_read,
            references=tuple(
                Reference(path, uses.get(path, ""))
                for path in named
                if path not in marked
            ),
            dropped_quotes=result.dropped_quotes,
            vanished=vanished,
        )

    async def _run_worker(self, task: Task) -> Result:
        """Run a compact worker; what it used is charged, whatever becomes of it."""
        try:
            with self._of.transcript(self._id) as record:
                return await compact(
                    task,
                    self._of.parts(self._spent),
                    spent=self._worker_spent,
                    listen=self._of.tell,
                    on_progress=self._progress,
                    record=record,
                )
        finally:
            self._spent.charge(self._worker_spent.usage, self._worker_spent.cost)

    def _progress(self, progress: Progress) -> None:
        self._of.tell(
            CompactProgress(
                compaction_id=self._id,
                requests=progress.requests,
                worker_input_tokens=progress.input_tokens,
                auto_read_tokens=progress.auto_read_tokens,
                auto_read_budget=self._settings.worker.auto_read,
                references=progress.references,
                has_summary=progress.has_summary,
            )
        )

    def _count_failure(self) -> None:
        self._breaker = self._breaker.failed(
            self._fingerprint, now=now(), max_failures=self._settings.max_failures
        )
        self._session.append(self._breaker.as_entry())

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
            summary=entry.receipt.summary_tokens,
            summary_cap=self._settings.worker.summary_cap,
        )
        return entry, judge(summary.text, figures)

    async def _entry(self, summary: Summary, start: Ground) -> Compaction:
        """Return the entry that *summary* makes, with its receipt."""
        count, cut = self._of.count, start.cut
        entry = Compaction(
            compaction_id=self._id,
            reason=self._job.reason,
            mode=summary.mode,
            summary=summary.text,
            first_kept=cut.first_kept,
            compacted_from=self._session.leaf or "",
            dropped_reasoning=cut.dropped_reasoning,
            tokens_before=self._job.tokens,
            tokens_after=0,
            directives=start.directives,
            auto_read=summary.auto_read,
            references=summary.references,
            details=start.details,
            usage=self._worker_spent.usage,
            cost_usd=_dollars(self._worker_spent.cost),
            seconds=round(trio.current_time() - self._started, 3),
        )
        receipt = Receipt(
            summarised_items=cut.index,
            summarised_tokens=cut.summarised_tokens,
            kept_items=len(start.window.shown) - cut.index - len(cut.dropped_reasoning),
            kept_tokens=cut.kept_tokens,
            summary_tokens=count(summary.text),
            directive_tokens=start.directive_tokens,
            auto_read_tokens=sum(file.tokens for file in summary.auto_read),
            reference_tokens=count(references_text(summary.references))
            if summary.references
            else 0,
            dropped_quotes=summary.dropped_quotes,
            vanished_marks=summary.vanished,
            worker_requests=self._worker_spent.requests,
            worker_input_tokens=self._worker_input,
            attempts=(*self._attempts, f"{summary.mode}: used"),
        )
        leading = sum(await self._of.sizes(leading_items(entry)))
        after = start.overhead + cut.kept_tokens + leading
        return replace(entry, tokens_after=after, receipt=receipt)

    async def _commit(self, entry: Compaction, start: Ground) -> Compaction:
        """Write the compaction as one batch, durable before anybody acts on it."""
        is_closing = entry.mode == "worker" and self._breaker != Breaker()
        closed = [self._breaker.succeeded().as_entry()] if is_closing else []
        clips = await self._of.keep_whole(start)
        with trio.CancelScope(shield=True):
            written = self._session.append(*clips, entry, *closed)
            self._of.occupancy.reset()
            await self._session.commit()
        return next(e for e in written if isinstance(e, Compaction))

    async def _failed(self, missed: _Missed) -> CompactionFailed:
        with trio.CancelScope(shield=True):
            (entry,) = self._session.append(
                CompactionFailed(
                    compaction_id=self._id,
                    code=missed.code,
                    message=failure_text(self._job.reason, str(missed)),
                    retryable=missed.code in {"api", "timeout", "cancelled"},
                    consecutive_failures=self._breaker.failures,
                    breaker_open=self._breaker.is_open(
                        now=now(), cooldown=self._settings.cooldown
                    ),
                    attempts=tuple(self._attempts),
                    usage=self._worker_spent.usage,
                    cost_usd=_dollars(self._worker_spent.cost),
                    seconds=round(trio.current_time() - self._started, 3),
                )
            )
            await self._session.commit()
        assert isinstance(entry, CompactionFailed)
        self.failed = entry
        return entry


def _fingerprint(start: Ground, instructions: str) -> str:
    """Return a code for what the compact worker would be given."""
    ids = [shown.entry for shown in start.window.shown[: start.cut.index]]
    return sha256(" ".join([*ids, instructions]).encode()).hexdigest()[:16]


def _dollars(cost: Decimal | None) -> float | None:
    return None if cost is None else float(cost)
