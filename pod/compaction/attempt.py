"""One compaction: from its start entry, over the rungs, to its terminal entry."""

from collections.abc import Sequence
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING

import trio
from msgspec import Struct
from msgspec.structs import replace

from pod.clock import now
from pod.compaction.breaker import Breaker
from pod.compaction.cut import Cut, NoCut, find_cut
from pod.compaction.directives import directives_of
from pod.compaction.file_operations import file_details
from pod.compaction.framing import directives_text, leading_items, references_text
from pod.compaction.job import Done, Failed, Job, Outcome, Skipped, failure_text
from pod.compaction.mechanical import mechanical_summary
from pod.compaction.plan import room_for_kept, worker_task
from pod.compaction.thresholds import Thresholds
from pod.compaction.verdict import Figures, Rejection, judge
from pod.entries import (
    AutoRead,
    Compaction,
    CompactionCode,
    CompactionFailed,
    CompactionStart,
    Directive,
    FileDetails,
    Mode,
    Receipt,
    Reference,
)
from pod.events import CompactProgress, CompactSkipped
from pod.view import Window
from worker.compact.run import compact
from worker.compact.task import (
    CompactError,
    Progress,
    Result,
    Task,
)
from worker.limits import Spent

if TYPE_CHECKING:
    from pod.compaction.compactor import Compactor


class _Summary(Struct, frozen=True):
    """What a rung gives: the summary and what goes with it."""

    mode: Mode
    text: str
    auto_read: tuple[AutoRead, ...] = ()
    references: tuple[Reference, ...] = ()
    dropped_quotes: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    requests: int = 0
    input_tokens: int = 0


class _Missed(Exception):
    """A rung gave nothing that could be used."""

    def __init__(self, code: CompactionCode, message: str) -> None:
        super().__init__(message)
        self.code: CompactionCode = code


class Attempt:
    """One compaction under way: from its start entry to its terminal one."""

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
        self._thresholds = thresholds
        self._spent = spent
        self._worker_spent = Spent()
        self._breaker = self._session.breaker
        self._attempts: list[str] = []
        self._id = compactor.setup.new_id()
        self._started = trio.current_time()

    async def run(self) -> Outcome:
        window = self._session.window
        count = await self._of.counted([shown.item for shown in window.shown])
        overhead = await self._of.overhead()
        cut = find_cut(
            window,
            retained_tokens=self._settings.retained_tokens,
            room=room_for_kept(self._settings, self._thresholds, overhead),
            count=count,
        )
        if isinstance(cut, NoCut):
            return self._skip(cut.reason, cut.message)
        self._session.append(
            CompactionStart(
                compaction_id=self._id,
                reason=self._job.reason,
                mode=self._job.rungs[0],
                tokens_before=self._job.tokens,
                threshold=self._job.limit,
                will_retry=self._job.goes_on,
            )
        )
        missed = _Missed("cancelled", "cancelled")
        try:
            entry = await self._climb(window, cut, overhead)
        except _Missed as error:
            missed = error
        except trio.Cancelled:
            await self._failed(missed)
            raise
        except BaseException as error:
            await self._failed(_Missed("api", f"{type(error).__qualname__}: {error}"))
            raise
        else:
            return Done(entry)
        return Failed(await self._failed(missed))

    def _skip(self, reason: str, message: str) -> Skipped:
        self._of.tell(CompactSkipped(reason=reason, message=message))
        return Skipped(reason, message)

    async def _climb(self, window: Window, cut: Cut, overhead: int) -> Compaction:
        """Try the rungs in order; commit the first summary that passes.

        Raises _Missed with the last rung's reason.
        """
        head = [shown.item for shown in window.shown[: cut.index]]
        directives = directives_of(
            head,
            window.compaction.directives if window.compaction else (),
            budget=self._settings.directive_budget,
            count=self._of.count,
        )
        details = file_details(head, window.compaction)
        missed = _Missed("no_summary", "no rung was tried")
        for mode in self._job.rungs:
            try:
                summary = await self._summary(mode, window, cut, directives, details)
                entry, rejection = await self._judged(
                    summary, window, cut, directives, details, overhead
                )
                if rejection is None:
                    return await self._commit(entry, cut)
                missed = _Missed(rejection.code, rejection.message)
                if mode == "worker":
                    self._count_failure(window, cut)
            except _Missed as error:
                missed = error
            self._attempts.append(f"{mode}: {missed.code}: {missed}")
        raise missed

    async def _summary(
        self,
        mode: Mode,
        window: Window,
        cut: Cut,
        directives: Sequence[Directive],
        details: FileDetails,
    ) -> _Summary:
        match mode:
            case "worker":
                return await self._by_worker(window, cut, directives, details)
            case "mechanical":
                head = [shown.item for shown in window.shown[: cut.index]]
                known = await self._of.known_files(details)
                previous = window.compaction.summary if window.compaction else ""
                text = await trio.to_thread.run_sync(
                    lambda: mechanical_summary(
                        head,
                        previous=previous,
                        details=details,
                        cap=self._settings.worker.summary_cap,
                        count=self._of.count,
                    )
                )
                return _Summary(
                    mode="mechanical",
                    text=text,
                    references=tuple(Reference(f.path, f.use) for f in known),
                )

    async def _by_worker(
        self,
        window: Window,
        cut: Cut,
        directives: Sequence[Directive],
        details: FileDetails,
    ) -> _Summary:
        fingerprint = self._fingerprint(window, cut)
        if self._job.reason == "manual":
            self._breaker = self._breaker.half_opened(by_hand=True)
        refusal = self._breaker.refusal(
            fingerprint, now=now(), cooldown=self._settings.cooldown
        )
        if refusal == "open":
            raise _Missed("api", "the circuit breaker of the compact worker is open")
        if refusal == "same_input":
            raise _Missed("no_summary", "the compact worker failed on this very input")
        known = await self._of.known_files(details)
        task = worker_task(window, cut, directives, known, self._job.instructions)
        try:
            result = await self._run_worker(task)
        except CompactError as error:
            if error.counts:
                self._count_failure(window, cut)
            raise _Missed(error.code, str(error)) from error
        auto_read, vanished = await self._of.read_marks(result.marks)
        marked = {file.path for file in auto_read}
        uses = {file.path: file.use for file in known}
        named = dict.fromkeys((*uses, *result.references, *vanished))
        return _Summary(
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
            requests=result.requests,
            input_tokens=result.input_tokens,
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

    def _fingerprint(self, window: Window, cut: Cut) -> str:
        """Return a code for what the compact worker would be given."""
        ids = [shown.entry for shown in window.shown[: cut.index]]
        return sha256(" ".join([*ids, self._job.instructions]).encode()).hexdigest()[
            :16
        ]

    def _count_failure(self, window: Window, cut: Cut) -> None:
        self._breaker = self._breaker.failed(
            self._fingerprint(window, cut),
            now=now(),
            max_failures=self._settings.max_failures,
        )
        self._session.append(self._breaker.as_entry())

    async def _judged(
        self,
        summary: _Summary,
        window: Window,
        cut: Cut,
        directives: tuple[Directive, ...],
        details: FileDetails,
        overhead: int,
    ) -> tuple[Compaction, Rejection | None]:
        """Build the entry *summary* makes, and judge the context behind it."""
        count = self._of.count
        summary_tokens = count(summary.text)
        directive_tokens = count(directives_text(directives)) if directives else 0
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
            directives=directives,
            auto_read=summary.auto_read,
            references=summary.references,
            details=details,
            usage=self._worker_spent.usage,
            cost_usd=_dollars(self._worker_spent.cost),
            seconds=round(trio.current_time() - self._started, 3),
        )
        leading = leading_items(entry)
        after = overhead + cut.kept_tokens + sum(await self._of.sizes(leading))
        figures = Figures(
            before=self._job.tokens,
            after=after,
            limit=self._thresholds.low_water if self._thresholds else None,
            min_gain=self._settings.min_gain,
            summary=summary_tokens,
            summary_cap=self._settings.worker.summary_cap,
        )
        receipt = Receipt(
            summarised_items=cut.index,
            summarised_tokens=cut.summarised_tokens,
            kept_items=len(window.shown) - cut.index - len(cut.dropped_reasoning),
            kept_tokens=cut.kept_tokens,
            summary_tokens=summary_tokens,
            directive_tokens=directive_tokens,
            auto_read_tokens=sum(file.tokens for file in summary.auto_read),
            reference_tokens=count(references_text(summary.references))
            if summary.references
            else 0,
            dropped_quotes=summary.dropped_quotes,
            vanished_marks=summary.vanished,
            worker_requests=summary.requests,
            worker_input_tokens=summary.input_tokens,
            attempts=(*self._attempts, f"{summary.mode}: used"),
        )
        entry = replace(entry, tokens_after=after, receipt=receipt)
        return entry, judge(summary.text, figures)

    async def _commit(self, entry: Compaction, cut: Cut) -> Compaction:
        """Write the compaction as one batch, durable before anybody acts on it."""
        with trio.CancelScope(shield=True):
            written = self._session.append(*cut.clips, entry)
            if entry.mode == "worker" and self._breaker != Breaker():
                self._session.append(Breaker().as_entry())
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
        return entry


def _dollars(cost: Decimal | None) -> float | None:
    return None if cost is None else float(cost)
