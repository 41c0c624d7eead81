"""Makes room in a session: prunes, or replaces the head of the history."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from decimal import Decimal
from hashlib import sha256
from math import ceil
from typing import IO

import msgspec
import trio
from msgspec import Struct
from msgspec.structs import replace
from worker.compact.auto_read import read_lines
from worker.compact.run import Parts, compact

from pod.clock import now
from pod.compaction.breaker import Breaker, breaker_of
from pod.compaction.cut import Cut, NoCut, find_cut
from pod.compaction.directives import directives_of
from pod.compaction.file_operations import file_details
from pod.compaction.framing import auto_read_text, directives_text, leading_items
from pod.compaction.mechanical import mechanical_summary
from pod.compaction.prune import find_prune
from pod.compaction.settings import Settings
from pod.compaction.thresholds import Thresholds
from pod.compaction.verdict import Figures, Rejection, judge
from pod.disk import make_folder
from pod.entries import (
    AutoRead,
    Compaction,
    CompactionCode,
    CompactionFailed,
    CompactionStart,
    Directive,
    FileDetails,
    Mode,
    Reason,
    Receipt,
    Reference,
)
from pod.events import CompactProgress, CompactSkipped, PodLive
from pod.session import Session
from pod.view import Window
from tools.base import ToolError
from tools.files_in_use import FilesInUse
from tools.scope import Scope
from worker.compact.task import (
    CompactError,
    KnownFile,
    Mark,
    Progress,
    Result,
    Task,
)
from worker.events import Live
from worker.items import FromModel, Item
from worker.limits import Limits, Spent
from worker.loop import Setup
from worker.model import Model
from worker.occupancy import Occupancy
from worker.tokens import count_item

Tell = Callable[[Live | PodLive], None]


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


class Compactor:
    """Compacts one session, one compaction at a time.

    *tell* hears how far it is; *occupancy* is the session's, and is reset when
    the history becomes another.
    """

    def __init__(
        self,
        session: Session,
        setup: Setup,
        settings: Settings,
        *,
        scope: Scope,
        worker_model: Model,
        files: FilesInUse,
        occupancy: Occupancy,
        tell: Tell,
    ) -> None:
        self.session = session
        self.setup = setup
        self.settings = settings
        self.occupancy = occupancy
        self.tell = tell
        self._scope = scope
        self._worker_model = worker_model
        self._files = files
        self._lock = trio.Lock()

    async def compact(
        self, job: Job, *, thresholds: Thresholds | None, spent: Spent
    ) -> Outcome:
        """Do *job*; charge what it uses to *spent*. *thresholds* None: none is known.

        From its start entry on exactly one terminal entry is written, a cancel
        included. Raises LogFailed.
        """
        async with self._lock:
            if job.limit is not None and await self._prune(job.limit):
                left = await self.occupancy.estimate(self.session.items)
                return Pruned(job.tokens - left)
            return await _Compaction(self, job, thresholds, spent).run()

    async def _prune(self, limit: int) -> bool:
        """Prune where that pays; whether the limit holds again by that alone."""
        limits, window = self.settings.prune, self.session.window()
        if limits is None:
            return False
        prune = find_prune(
            window.shown,
            limits=limits,
            count=await self.counted([shown.item for shown in window.shown]),
            is_cold=not self.setup.cache.enabled,
            growth=await self._growth(window),
        )
        if prune is None:
            return False
        self.session.append(prune)
        self.occupancy.reset()
        return await self.occupancy.over(self.session.items, limit) is None

    async def _growth(self, window: Window) -> float:
        """Return by how many tokens the context grew with each response."""
        items = [shown.item for shown in window.shown]
        responses = {item.response for item in items if isinstance(item, FromModel)}
        return sum(await self.sizes(items)) / max(len(responses), 1)

    def count(self, text: str) -> int:
        """Return the tokens of *text*, as the model counts them."""
        factor = self.occupancy.calibration.factor
        return ceil(self.setup.counter.count(text) * factor)

    async def sizes(self, items: Sequence[Item]) -> tuple[int, ...]:
        return await self.occupancy.sizes(items)

    async def counted(self, items: Sequence[Item]) -> Callable[[Item], int]:
        """Count *items*; return what gives the tokens of one, and of others."""
        known = dict(zip(items, await self.sizes(items), strict=True))

        def count(item: Item) -> int:
            tokens = known.get(item)
            if tokens is None:
                tokens = ceil(
                    count_item(item, self.setup.counter)
                    * self.occupancy.calibration.factor
                )
            return tokens

        return count

    async def overhead(self) -> int:
        """Return the tokens of the system prompt and the tools."""
        parts = await self.occupancy.parts(())
        return parts.system + parts.tools

    async def known_files(self, details: FileDetails) -> tuple[KnownFile, ...]:
        """Return the default references: the files used last, with their sizes."""
        paths = self._files.first(self.settings.default_references)

        def look() -> tuple[KnownFile, ...]:
            return tuple(
                KnownFile(path, self._size(path), _use(path, details)) for path in paths
            )

        return await trio.to_thread.run_sync(look)

    def _size(self, path: str) -> int | None:
        try:
            opened = self._scope.open_read(path)
        except (ToolError, OSError):
            return None
        with opened.file:
            return opened.size

    async def read_marks(
        self, marks: Sequence[Mark]
    ) -> tuple[tuple[AutoRead, ...], tuple[str, ...]]:
        """Read the marked lines as they are now, within the budget.

        Returns them, and the paths of those that have gone, have grown beyond
        the budget, or cannot be read any more.
        """
        return await trio.to_thread.run_sync(
            self._read_marks, marks, trio.from_thread.check_cancelled
        )

    def _read_marks(
        self, marks: Sequence[Mark], check: Callable[[], None]
    ) -> tuple[tuple[AutoRead, ...], tuple[str, ...]]:
        left = self.settings.worker.auto_read
        read: list[AutoRead] = []
        vanished: list[str] = []
        for mark in marks:
            try:
                lines = read_lines(
                    self._scope,
                    mark.path,
                    mark.start,
                    mark.end,
                    max_bytes=BYTES_PER_TOKEN * self.settings.worker.auto_read,
                    check=check,
                )
            except ToolError:
                vanished.append(mark.path)
                continue
            text = auto_read_text(
                lines.path, lines.text, start=lines.start, end=lines.end
            )
            tokens = self.count(text)
            if lines.is_cut or tokens > left:
                vanished.append(mark.path)
                continue
            left -= tokens
            read.append(
                AutoRead(
                    path=lines.path,
                    text=lines.text,
                    sha256=lines.sha256,
                    tokens=tokens,
                    start=lines.start,
                    end=lines.end,
                )
            )
        return tuple(read), tuple(vanished)

    def parts(self, spent: Spent) -> Parts:
        """Return what a compact worker runs with; *spent* is the run's so far."""
        setup = self.setup
        return Parts(
            client=setup.client,
            model=self._worker_model,
            scope=self._scope,
            counter=setup.counter,
            count=self.count,
            price=setup.price,
            new_id=setup.new_id,
            jitter=setup.jitter,
            spill=setup.toolbox.spill,
            retry=setup.retry,
            cache=setup.cache,
            limits=_what_is_left(setup.limits, spent),
            budgets=self.settings.worker,
        )

    @contextmanager
    def transcript(self, id: str) -> Iterator[Callable[[Item], None]]:
        """Keep what a compact worker saw and did beside the session's log.

        For inspection alone: where it cannot be written, nothing is.
        """
        path = self.session.files / f"compact-{id}.jsonl"
        with ExitStack() as stack:
            file: IO[bytes] | None = None
            with suppress(OSError):
                make_folder(path.parent)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                file = stack.enter_context(os.fdopen(os.open(path, flags, 0o600), "wb"))

            def record(item: Item) -> None:
                with suppress(OSError, ValueError):
                    if file is not None:
                        file.write(msgspec.json.encode(item) + b"\n")

            yield record


BYTES_PER_TOKEN = 16
"""More than text has (3 to 5), so that a mark is not cut by it."""


def _use(path: str, details: FileDetails) -> str:
    if path in details.modified_files:
        return "changed before compaction"
    if path in details.read_files:
        return "read before compaction"
    return "used lately"


def _what_is_left(limits: Limits, spent: Spent) -> Limits:
    """Return what a compact worker may use of the run's limits.

    Its requests have a bound of their own (worker_max_requests).
    """
    tokens, dollars = limits.max_total_tokens, limits.max_budget_usd
    if tokens is not None:
        tokens = max(tokens - spent.usage.total, 1)
    if dollars is not None:
        dollars = max(dollars - float(spent.cost or 0), 1e-6)
    return Limits(max_total_tokens=tokens, max_budget_usd=dollars)


class _Compaction:
    """One compaction under way: from its start entry to its terminal one."""

    def __init__(
        self,
        compactor: Compactor,
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
        self._breaker = breaker_of(self._session.path_entries())
        self._attempts: list[str] = []
        self._id = compactor.setup.new_id()
        self._started = trio.current_time()

    async def run(self) -> Outcome:
        window = self._session.window()
        count = await self._of.counted([shown.item for shown in window.shown])
        overhead = await self._of.overhead()
        cut = find_cut(
            window,
            retained_tokens=self._settings.retained_tokens,
            room=self._room(overhead),
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

    def _room(self, overhead: int) -> int | None:
        """Return what the kept items may have, so that the verdict can be a good one."""
        if self._thresholds is None:
            return None
        most = (
            self._settings.worker.summary_cap
            + self._settings.worker.auto_read
            + self._settings.directive_budget
        )
        return self._thresholds.low_water - overhead - most

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
        task = Task(
            head=[shown.item for shown in window.shown[: cut.index]],
            previous_summary=window.compaction.summary if window.compaction else "",
            directives=tuple(directive.text for directive in directives),
            files=known,
            instructions=self._job.instructions,
        )
        try:
            result = await self._run_worker(task)
        except CompactError as error:
            if error.counts:
                self._count_failure(window, cut)
            raise _Missed(error.code, str(error)) from error
        auto_read, vanished = await self._of.read_marks(result.marks)
        named = [KnownFile(path, None, "") for path in (*result.references, *vanished)]
        marked = {file.path for file in auto_read}
        references = {
            file.path: Reference(file.path, file.use)
            for file in (*known, *named)
            if file.path not in marked
        }
        return _Summary(
            mode="worker",
            text=result.summary,
            auto_read=auto_read,
            references=tuple(references.values()),
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
                    message=_worded(self._job.reason, str(missed)),
                    retryable=missed.code in {"api", "timeout", "cancelled"},
                    consecutive_failures=self._breaker.failures,
                    breaker_open=self._breaker.is_open(
                        now=now(), cooldown=self._settings.cooldown
                    ),
                    usage=self._worker_spent.usage,
                    cost_usd=_dollars(self._worker_spent.cost),
                )
            )
            await self._session.commit()
        assert isinstance(entry, CompactionFailed)
        return entry


def _worded(reason: Reason, message: str) -> str:
    if reason == "overflow":
        return f"Context overflow recovery failed: {message}"
    if reason == "manual":
        return f"Compaction failed: {message}"
    return f"Auto-compaction failed: {message}"


def _dollars(cost: Decimal | None) -> float | None:
    return None if cost is None else float(cost)
