"""A Pod that stays: driven by requests, one thing at a time, in one task of its own."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio
from msgspec import Struct

from pod.branch_summary.summary import Summarizer
from pod.compaction.continuation import Compacted, after
from pod.compaction.job import ABORTED, Done, Failed, NotMade, Outcome, Skipped
from pod.entries import InputEntry, Mode, RunEnd, TurnAbandoned
from pod.errors import (
    AlreadyRunning,
    Busy,
    EntryNotFound,
    Interrupted,
    InvalidRequest,
    NavigationMissed,
    NavigationRefused,
    NotDone,
    NotFound,
    NotPaused,
    NotRunning,
    Refused,
    SessionError,
    SetupError,
    ShutDown,
)
from pod.events import PodLive, Standing, Status
from pod.maintenance import Work
from pod.manifest_errors import ManifestError
from pod.navigation import Navigation, navigate
from pod.pod import NothingToDo, Pod, Stopped, Switched
from pod.promise import Promise
from pod.rollback import taken_back, unanswered
from worker.crash import crash_text
from worker.events import Live, Warning

T = TypeVar("T")

Switch = Callable[[str], Switched]
"""Gives what a model of this name is asked with. Raises SetupError, ManifestError."""
Fork = Callable[[Path, str | None], str]
"""Copies the path to an entry of a log into a new session; gives that one's id.
Blocks. Raises KeyError, SessionError."""


class Doors(Struct, frozen=True):
    """What a Pod that stays needs of the world, besides its session.

    *summarizer* gives what summarises branches, None for nobody; *summarizes*
    tells whether a navigation that says nothing about it wants a summary.
    """

    switch: Switch | None = None
    fork: Fork | None = None
    summarizer: Callable[[], Summarizer] | None = None
    summarizes: bool = False


class _Job(Struct, frozen=True):
    """Work between runs that somebody waits for."""

    work: Work
    do: Callable[[], Awaitable[None]]
    fail: Callable[[Exception], None]


class LivePod:
    """A Pod that stays.

    ``serve`` drives it; everything else may be called by any task while that
    runs. What is asked for is done in that one task, so that nothing is under way
    twice: a run, or a compaction, a navigation, a switch of models between two
    runs. Who waits for an answer may be cancelled: what was asked for is done all
    the same.

    Input is in the log before a call returns, and waits there: it is delivered
    once, or handed back by an interrupt (``handed_back``, and ``returned`` of the
    run's end). Nothing else is queued, but one job and one prompt at a time.

    All methods but ``serve`` raise ShutDown once it has ended, those that write
    LogFailed.
    """

    def __init__(
        self,
        pod: Pod,
        *,
        listen: Callable[[Live | PodLive], None],
        auto_continue: bool = True,
        doors: Doors = Doors(),  # noqa: B008  frozen
    ) -> None:
        self.session = pod.session
        self._pod = pod
        self._listen = listen
        self._auto_continue = auto_continue
        self._doors = doors
        self._woken = trio.Event()
        self._over = trio.Event()
        """Set when the step that is under way is over."""
        self._ended = trio.Event()
        self._is_serving = self._is_closing = False
        self._is_stepping = False
        self._is_pausing = False
        self._is_paused = _is_paused(self.session.state.last_run)
        self._is_fenced = False
        """Somebody interrupted the step that is under way."""
        self._begun: Promise[str] | None = None
        """For who waits for a run to begin."""
        self._resumes = False
        self._job: _Job | None = None
        """Asked for, and not begun."""
        self._doing: _Job | None = None
        self._moving: trio.CancelScope | None = None
        self._is_behind_run = False
        """A run is over, and what it left may have to be compacted."""
        self._continues = self._has_continued = False
        self._held: frozenset[str] = frozenset()
        """Input that a run could not even take in: it waits for the next request."""
        self._told: Standing | None = None
        pod.watch.maintenance.changed = self._tell

    @property
    def state(self) -> Standing:
        """What is under way."""
        match self._pod.watch.maintenance.work:
            case "compaction":
                return "compacting"
            case "navigation":
                return "navigating"
            case "model switch" | None:
                pass
        if self._is_running:
            return "running"
        return "paused" if self._is_paused else "idle"

    @property
    def _is_running(self) -> bool:
        return self.session.run is not None

    async def serve(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Drive the Pod until shutdown(). Input that waits in the log is run at once.

        Cancelled, it closes the run that is under way in the log.
        """
        self._is_serving = True
        self._tell()
        task_status.started()
        try:
            while not self._is_closing:
                step = self._next()
                if step is None:
                    self._woken = trio.Event()
                    await self._woken.wait()
                    continue
                self._over = trio.Event()
                self._is_stepping = True
                try:
                    await step()
                finally:
                    self._is_stepping = self._is_fenced = False
                    self._tell()
                    self._over.set()
        finally:
            self._is_closing = True
            ended = ShutDown("the Pod has been shut down")
            self._refuse_waiting(ended)
            if self._doing is not None:
                self._doing.fail(ended)
            self._ended.set()

    # What is asked for.

    async def prompt(self, text: str) -> str:
        """Accept *text* as the prompt of a run; return the run's id once it begins.

        While a compaction or a navigation is under way it waits for that. While
        a turn is paused, or about to be, that turn is not gone on with; calls
        that still run are stopped and answered first.

        Raises AlreadyRunning, InvalidRequest for an empty text, Interrupted
        (handed back before it began), NotDone.
        """
        self._check(text)
        if self._begun is not None or (self._is_running and not self._is_pausing):
            raise AlreadyRunning(
                "a run is under way: steer it, or give a follow-up for behind it"
            )
        self._pod.accept(text)
        begun = self._begun = Promise[str]()
        if self._is_running:
            self._pod.stop("paused")
        self._wake()
        return await begun.wait()

    def steer(self, text: str) -> None:
        """Accept *text* for the run that is under way: it goes with its next request.

        Where the run ends before that, it begins the next one. While a turn is
        paused, it waits until that is resumed. Raises NotRunning, InvalidRequest.
        """
        self._check(text)
        is_wanted = self._is_running or self._is_paused or self._begun is not None
        is_between = self._pod.watch.maintenance.work is not None
        if self._is_fenced or not (is_wanted or is_between):
            raise NotRunning("no run is under way: give a prompt")
        self._pod.accept(text)
        self._wake()

    def follow_up(self, text: str) -> None:
        """Accept *text* as the prompt of a run behind the one that is under way.

        Where none is it begins at once. Raises InvalidRequest.
        """
        self._check(text)
        is_behind = self._is_running or self._is_paused or self._begun is not None
        self._pod.accept(text, follow_up=is_behind)
        self._wake()

    async def interrupt(self) -> None:
        """Give up what is under way, and wait until it is over.

        It reaches a run with its requests, waits and tools, a compaction, a
        navigation, and what was asked for and has not begun. Input that the model
        has not seen is handed back; a turn that is paused is not gone on with.
        Nothing new begins by itself behind it. Raises NotRunning where nothing is
        under way.
        """
        self._refuse_ended()
        is_waited_for = self._begun is not None or self._job is not None
        if not (self._is_stepping or self._is_paused or is_waited_for):
            raise NotRunning("nothing is under way")
        was_paused, over = self._is_paused, self._over
        self._is_fenced = self._is_stepping
        self._is_behind_run = self._continues = False
        try:
            if self._pod.is_busy:
                self._pod.interrupt()
            else:
                self._pod.hand_back()
        finally:
            if self._moving is not None:
                self._moving.cancel()
            self._refuse_waiting(
                Interrupted("interrupted before it began; input is handed back")
            )
        if self._is_stepping:
            await over.wait()
        if was_paused and self._is_paused and not self._is_stepping:
            self._abandon()
        await self.session.commit()

    async def pause(self) -> None:
        """Stop the run before its next request, so that it can be resumed; wait for it.

        An answer that is being received is broken off, and so is the wait for a
        retry; tools that run are awaited. A run that comes to its end first is
        over. Raises NotRunning.
        """
        self._refuse_ended()
        if not self._is_running or self._is_fenced:
            raise NotRunning("no run is under way")
        self._is_pausing = True
        self._pod.pause()
        await self._over.wait()

    async def resume(self) -> str:
        """Go on with the turn that stands open, as a new run; return its id.

        Raises NotPaused, AlreadyRunning, Interrupted, NotDone.
        """
        self._refuse_ended()
        if self._is_running or self._begun is not None:
            raise AlreadyRunning("a run is under way")
        if not self.session.state.interrupted:
            raise NotPaused("there is no open turn: give a prompt")
        self._resumes = True
        begun = self._begun = Promise[str]()
        self._wake()
        return await begun.wait()

    async def compact(
        self, instructions: str = "", mode: Mode | None = None
    ) -> Outcome:
        """Compact the context now; return what came of it.

        While a run is under way that is before its next request: tools are
        awaited, and the run goes on, whatever comes of it. Raises Busy.
        """
        self._refuse_busy()
        if self._is_running:
            wish = self._pod.wish(instructions=instructions, mode=mode)
            return await _or_skipped(wish.wait)
        compact = partial(self._pod.compact, instructions=instructions, mode=mode)
        return await _or_skipped(partial(self._ask, "compaction", compact))

    def abort_compaction(self) -> bool:
        """Abort the compaction that is under way or asked for, and nothing else.

        Returns whether there was one. A run that needs it ends, and can be
        resumed; otherwise what it came in between goes on.
        """
        self._refuse_ended()
        if self._job is not None and self._job.work == "compaction":
            self._job.fail(Stopped("cancelled"))
            self._job = None
            return True
        return self._pod.abort_compaction()

    async def navigate(
        self,
        target: str | None,
        *,
        summarize: bool | None = None,
        instructions: str = "",
        label: str = "",
    ) -> Navigation:
        """Put the leaf where *target* leads; see pod.navigation.

        *summarize* None takes the manifest's word. A paused turn is left. Raises
        AlreadyRunning, Busy, NotFound, InvalidRequest (nothing to summarise, or
        nobody to do it), NotDone (no summary came of it).
        """
        self._refuse_running("a session moves between its runs")
        wants = self._doors.summarizes if summarize is None else summarize
        go = partial(self._navigate, target, wants, instructions, label)
        return await self._ask("navigation", go)

    async def set_model(self, name: str) -> None:
        """Ask the model *name* from the next request on.

        Where the history is too large for it, the model before it compacts it
        first. Raises AlreadyRunning, Busy, InvalidRequest for a name that is
        none, NotDone where the history could not be made small enough.
        """
        self._refuse_running("a Pod changes its model between its runs")
        await self._ask("model switch", partial(self._set_model, name))

    async def fork(self, entry: str | None = None) -> str:
        """Copy the path to *entry* (None: the leaf) into a new session; return its id.

        At any time: this session is only read. Raises NotFound, InvalidRequest
        for a session that is not kept.
        """
        self._refuse_ended()
        path, fork = self.session.path, self._doors.fork
        if path is None or fork is None:
            raise InvalidRequest("a session that is not kept cannot be forked")
        target = self.session.leaf if entry is None else entry
        if target not in self.session.tree:
            raise NotFound(f"there is no entry {target}")
        await self.session.commit()
        return await trio.to_thread.run_sync(fork, path, target)

    async def shutdown(self) -> None:
        """End what is under way, in the log too, and return when serve has ended.

        Input that waits stays in the log, and a turn that was cut off can be
        resumed, by the next process.
        """
        self._is_closing = True
        if self._pod.is_busy:
            self._pod.stop("shutdown")
        if self._moving is not None:
            self._moving.cancel()
        self._wake()
        if self._is_serving:
            await self._ended.wait()

    # What comes next.

    def _next(self) -> Callable[[], Awaitable[None]] | None:
        """Return what is to be done now, None where nothing is."""
        if self._job is not None:
            return self._do_job
        if self._is_behind_run:
            return self._after_run
        if self._begun is not None:
            return self._run
        if self._is_paused:
            return None
        return self._run if self._due() or self._continues else None

    def _due(self) -> list[InputEntry]:
        """Return the input that the next run is for."""
        waiting = [e for e in self.session.pending_inputs if e.input not in self._held]
        if at_once := [entry for entry in waiting if not entry.follow_up]:
            return at_once
        return [] if self._resumes else waiting[:1]

    async def _run(self) -> None:
        """Run what is due, or resume, or continue."""
        due, delivered = self._due(), self.session.tree.delivered
        so_far = len(delivered)
        begun, self._begun = self._begun or Promise[str](), None
        is_continuation = self._continues and not (due or self._resumes)
        if due or is_continuation:
            self._has_continued = is_continuation
        self._continues = self._resumes = self._is_paused = False

        def has_begun(run: str) -> None:
            begun.keep(run)
            self._tell()

        end: RunEnd | None = None
        try:
            end = await self._pod.run(
                None,
                follow_ups=[entry.input for entry in due if entry.follow_up],
                is_continuation=is_continuation,
                begun=has_begun,
            )
        except NothingToDo:
            begun.fail(NotPaused("there is no open turn: give a prompt"))
            return
        except Exception as error:  # noqa: BLE001  one run ends by a bug, not the Pod
            message = f"the run ended by an internal error: {crash_text(error)}"
            self._listen(Warning(message=message))
        finally:
            self._is_pausing = False
            begun.fail(NotDone("the run did not begin" if end is None else end.message))
        if len(delivered) > so_far:
            self._has_continued = False
        self._is_paused = _is_paused(end)
        is_finished = end is not None and end.outcome == "finished"
        self._is_behind_run = is_finished and not self._is_fenced
        is_stuck = not is_finished and not self._is_paused
        stuck = {entry.input for entry in due} & self.session.tree.waiting.keys()
        self._held = frozenset(stuck) if is_stuck else frozenset()

    async def _after_run(self) -> None:
        """Compact what the run left; see whether the model is asked to continue."""
        self._is_behind_run = False
        outcome = await self._pod.after_run()
        if outcome is None:
            return
        then = after(
            Compacted(
                "post_run",
                made_room=isinstance(outcome, Done),
                in_run=False,
                has_input=bool(self.session.pending_inputs),
                auto_continue=self._auto_continue,
                has_continued=self._has_continued,
                is_fenced=self._is_fenced,
            )
        )
        self._continues = then == "continue"

    async def _do_job(self) -> None:
        job = self._doing = self._job
        self._job = None
        try:
            if job is not None:
                await job.do()
        finally:
            self._doing = None

    async def _navigate(
        self, target: str | None, summarize: bool, instructions: str, label: str
    ) -> Navigation:
        ask = self._doors.summarizer
        self._moving = trio.CancelScope()
        try:
            with self._pod.watch.maintenance.doing("navigation"):
                moved = await navigate(
                    self.session,
                    target,
                    summarize=summarize,
                    instructions=instructions,
                    label=label,
                    hooks=self._pod.hooks,
                    summarizer=ask() if summarize and ask is not None else None,
                    tell=self._listen,
                    abort=self._moving,
                )
        except EntryNotFound as error:
            raise NotFound(str(error)) from error
        except NavigationRefused as error:
            raise InvalidRequest(str(error)) from error
        except NavigationMissed as error:
            raise NotDone(str(error)) from error
        finally:
            self._moving = None
        if not moved.cancelled and moved.new_leaf != moved.old_leaf:
            self._pod.watch.occupancy.reset()
            self._is_paused = self._is_behind_run = self._continues = False
        return moved

    async def _set_model(self, name: str) -> None:
        before = self._pod.setup.model.id
        if name == before:
            return
        if self._doors.switch is None:
            raise InvalidRequest("this Pod has one model only")
        try:
            to = self._doors.switch(name)
        except (SetupError, ManifestError) as error:
            raise InvalidRequest(str(error)) from error
        outcome = await self._pod.switch(to)
        if isinstance(outcome, NotMade):
            why = (
                outcome.message
                if isinstance(outcome, Skipped)
                else outcome.entry.message
            )
            raise NotDone(
                f"the history is too large for {name}: {why}. The model stays {before}"
            )

    def _abandon(self) -> None:
        """Give the paused turn up; where nothing came of it yet, take it back."""
        back = unanswered(self.session.recent_entries())
        if back is None:
            self.session.append(TurnAbandoned())
        else:
            self.session.append(*taken_back(self.session.tree, back))
            self._pod.watch.occupancy.reset()
        self._is_paused = False
        self._tell()

    async def _ask(self, work: Work, do: Callable[[], Awaitable[T]]) -> T:
        """Have *do* done between runs; return what it returns, raise what it raises."""
        promise = Promise[T]()

        async def perform() -> None:
            try:
                promise.keep(await do())
            except (Refused, SessionError, Stopped) as error:
                promise.fail(error)

        self._job = _Job(work, perform, promise.fail)
        self._wake()
        return await promise.wait()

    def _refuse_ended(self) -> None:
        if self._is_closing:
            raise ShutDown("the Pod has been shut down")

    def _check(self, text: str) -> None:
        self._refuse_ended()
        if not text.strip():
            raise InvalidRequest("the text is empty")

    def _refuse_running(self, why: str) -> None:
        self._refuse_busy()
        if self._is_running:
            raise AlreadyRunning(f"{why}: pause or interrupt this one first")

    def _refuse_busy(self) -> None:
        self._refuse_ended()
        self._pod.watch.maintenance.refuse()
        for job in (self._job, self._doing):
            if job is not None:
                raise Busy(f"a {job.work} is under way; ask again when it is over")

    def _refuse_waiting(self, error: Exception) -> None:
        """Tell who waits for something that has not begun that it will not."""
        self._refuse_begun(error)
        if self._job is not None:
            self._job.fail(error)
            self._job = None

    def _refuse_begun(self, error: Exception) -> None:
        self._resumes = False
        if self._begun is not None:
            self._begun.fail(error)
            self._begun = None

    def _wake(self) -> None:
        self._held = frozenset()
        self._woken.set()

    def _tell(self) -> None:
        if self.state != self._told:
            self._told = self.state
            self._listen(Status(state=self._told))


def _is_paused(end: RunEnd | None) -> bool:
    """Whether a run that ended so can be resumed because somebody paused it."""
    return end is not None and end.interrupted and end.outcome == "yielded"


async def _or_skipped(compacting: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Return what came of a compaction, also where everything was interrupted."""
    try:
        return await compacting()
    except Stopped as stopped:
        if stopped.failed is not None:
            return Failed(stopped.failed)
    except Interrupted:
        pass
    return Skipped("aborted", ABORTED)
