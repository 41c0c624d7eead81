"""Makes room in a session: prunes, or has the head of the history replaced.

The figures and the files a compaction needs are had here; what it does with them
is in attempt.py.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from math import ceil
from pathlib import Path

import trio
from msgspec.structs import replace

from pod.clock import now
from pod.compaction.attempt import Attempt
from pod.compaction.clip import in_the_log
from pod.compaction.framing import auto_read_text
from pod.compaction.ground import Ground
from pod.compaction.job import ABORTED, Ended, Job, Outcome, Pruned, Skipped
from pod.compaction.prune import find_prune, is_cache_cold
from pod.compaction.settings import Settings
from pod.compaction.thresholds import Thresholds
from pod.compaction.transcript import open_transcript
from pod.entries import AutoRead, Clip, FileDetails
from pod.events import CompactSkipped, PodLive
from pod.hooks.around_calls import CallsInRun
from pod.hooks.hooks import Hooks
from pod.maintenance import Maintenance
from pod.session import Session
from pod.view import Window
from tools.base import ToolError
from tools.confined import Reading, confined
from tools.files_in_use import FilesInUse
from tools.scope import Scope
from worker.compact.auto_read import BYTES_PER_TOKEN, read_lines
from worker.compact.run import Parts
from worker.compact.task import (
    KnownFile,
    Mark,
)
from worker.compact.writer import Means
from worker.events import Live, Warning
from worker.items import FromModel, Item, UserText
from worker.limits import Limits, Spent
from worker.model import Model
from worker.occupancy import Occupancy
from worker.permit import Permit, allow_all, in_turn
from worker.tokens import count_item
from worker.turn import Setup

Tell = Callable[[Live | PodLive], None]


class Compactor:
    """Compacts one session, one compaction at a time.

    *tell* hears how far it is; *occupancy* is the session's, and is reset when
    the history becomes another. *summarizers* are the models that "summarize"
    asks, in order; without any it is *worker_model*.
    """

    def __init__(
        self,
        session: Session,
        setup: Setup,
        settings: Settings,
        *,
        scope: Scope,
        worker_model: Model,
        worker_permit: Permit = allow_all,
        files: FilesInUse,
        occupancy: Occupancy,
        tell: Tell,
        maintenance: Maintenance | None = None,
        hooks: Hooks | None = None,
        summarizers: Sequence[Model] = (),
    ) -> None:
        self.session = session
        self.hooks = Hooks() if hooks is None else hooks
        self.setup = setup
        self.settings = settings
        self.occupancy = occupancy
        self.tell = tell
        self._scope = scope
        self.worker_model = worker_model
        self.summarizers = summarizers or (worker_model,)
        self._worker_permit = worker_permit
        self._files = files
        self.maintenance = maintenance or Maintenance()
        self._attempt: Attempt | None = None

    async def compact(
        self,
        job: Job | Callable[[], Awaitable[Job]],
        *,
        thresholds: Thresholds | None,
        spent: Spent,
    ) -> Outcome:
        """Do *job*; charge what it uses to *spent*. *thresholds* None: none is known.

        From its start entry on exactly one terminal entry is written, a cancel
        included. Raises Busy where a navigation or a compaction is under way, and
        LogFailed.
        """
        with self.maintenance.doing("compaction"):
            self._attempt = None
            with trio.CancelScope() as self.maintenance.abort:
                known = job if isinstance(job, Job) else await job()
                return await self._compact(known, thresholds, spent)
            if (ended := self.ended) is not None:
                return ended
            self.tell(CompactSkipped(reason="aborted", message=ABORTED))
            return Skipped("aborted", ABORTED)

    @property
    def ended(self) -> Ended | None:
        """How the latest compaction ended, None where it was not begun."""
        return None if self._attempt is None else self._attempt.ended

    def abort(self) -> bool:
        """Abort the compaction that is under way, whoever wanted it, and nothing else.

        Returns whether there was one. It may have been too late.
        """
        if self.maintenance.work != "compaction":
            return False
        self.maintenance.abort.cancel()
        return True

    async def _compact(
        self, job: Job, thresholds: Thresholds | None, spent: Spent
    ) -> Outcome:
        if job.limit is not None and await self._prune():
            left = await self.occupancy.estimate(self.session.items)
            if left <= job.limit:
                return Pruned(job.tokens - left)
            job = replace(job, tokens=left)
        self._attempt = Attempt(self, job, thresholds, spent)
        return await self._attempt.run()

    async def _prune(self) -> bool:
        """Prune where that pays; whether anything was."""
        limits, window = self.settings.prune, self.session.window
        if limits is None:
            return False
        prune = find_prune(
            window.shown,
            limits=limits,
            count=await self.counted([shown.item for shown in window.shown]),
            is_cold=is_cache_cold(
                self.session.recent_entries(),
                model=self.setup.model.id,
                cache=self.setup.cache,
                now=now(),
            ),
            growth=await self._growth(window),
        )
        if prune is None:
            return False
        self.session.append(prune)
        self.occupancy.reset()
        return True

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
        self, marks: Sequence[Mark], scope: Scope
    ) -> tuple[tuple[AutoRead, ...], tuple[str, ...]]:
        """Read the marked lines as they are now, within the budget.

        Returns them, and the paths of those that have gone, have grown beyond
        the budget, or cannot be read any more.
        """
        return await trio.to_thread.run_sync(
            self._read_marks, marks, scope, trio.from_thread.check_cancelled
        )

    def _read_marks(
        self, marks: Sequence[Mark], scope: Scope, check: Callable[[], None]
    ) -> tuple[tuple[AutoRead, ...], tuple[str, ...]]:
        left = self.settings.worker.auto_read
        read: list[AutoRead] = []
        vanished: list[str] = []
        for mark in marks:
            try:
                lines = read_lines(
                    scope,
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

    async def keep_whole(self, start: Ground) -> tuple[Clip, ...]:
        """Return the clips, with messages that are cut kept whole in files.

        The model can read a file, and not the log. A person is told which
        messages are too long for the context.
        """
        items = {shown.entry: shown.item for shown in start.window.shown}
        clips: list[Clip] = []
        for clip in start.cut.clips:
            item = items.get(clip.entry)
            if not isinstance(item, UserText):
                clips.append(clip)
                continue
            path = await trio.to_thread.run_sync(self._keep, clip.entry, item.text)
            where = in_the_log(clip.entry)
            kept = (
                clip
                if path is None
                else replace(clip, text=clip.text.replace(where, str(path), 1))
            )
            clips.append(kept)
            self.tell(
                Warning(
                    message=f"a message of {len(item.text):,} characters is too long"
                    " for the context: the model sees its beginning and its end;"
                    f" the whole is in {path or where}"
                )
            )
        return tuple(clips)

    def _keep(self, name: str, text: str) -> Path | None:
        """Write *text* to a file beside the log, where the file tools can read it."""
        try:
            path, file = self.setup.toolbox.spill.open(f"message-{name}")
            with file:
                file.write(text.encode("utf-8", "replace"))
        except OSError:
            return None
        return path

    def reading(self) -> AbstractAsyncContextManager[Reading]:
        """Open the scope for one compact worker: to read in, and held to that."""
        return confined(self._scope)

    def parts(self, spent: Spent, scope: Scope | None = None) -> Parts:
        """Return what a compact worker runs with; *spent* is the run's so far.

        *scope* is what it reads in; without one its task alone can be made.
        """
        setup = self.setup
        hooks = CallsInRun(self.hooks, self.session, is_compact_worker=True)
        return Parts(
            client=setup.client,
            model=self.worker_model,
            scope=scope or self._scope,
            counter=setup.counter,
            count=self.count,
            price=setup.price,
            new_id=setup.new_id,
            jitter=setup.jitter,
            spill=setup.toolbox.spill,
            render=lambda lines: auto_read_text(
                lines.path, lines.text, start=lines.start, end=lines.end
            ),
            retry=setup.retry,
            cache=setup.cache,
            limits=_what_is_left(setup.limits, spent),
            budgets=self.settings.worker,
            permit=in_turn(self._worker_permit, hooks.permit),
        )

    def means(self, spent: Spent) -> Means:
        """Return what "summarize" asks with; *spent* is the run's so far."""
        setup = self.setup
        return Means(
            client=setup.client,
            retry=setup.retry,
            jitter=setup.jitter,
            price=setup.price,
            limits=_what_is_left(setup.limits, spent),
        )

    def transcript(
        self, id: str, reading: Reading | None = None
    ) -> AbstractContextManager[Callable[[Item], None]]:
        """Keep what writes the summary saw and did beside the session's log."""
        return open_transcript(self.session.files, id, reading)


def _use(path: str, details: FileDetails) -> str:
    if path in details.modified_files:
        return "changed before compaction"
    if path in details.read_files:
        return "read before compaction"
    return "used lately"


def _what_is_left(limits: Limits, spent: Spent) -> Limits:
    """Return what a compact worker may use of the run's limits.

    Its requests have a bound of their own (worker_max_requests). Where nothing
    is left, or what was spent is not known, it makes none.
    """
    tokens, dollars = limits.max_total_tokens, limits.max_budget_usd
    if tokens is not None:
        tokens = max(tokens - spent.usage.total, 0)
    if dollars is not None:
        known = spent.cost is not None
        dollars = max(dollars - float(spent.cost or 0), 0.0) if known else 0.0
    return Limits(max_total_tokens=tokens, max_budget_usd=dollars)
