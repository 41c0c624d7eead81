"""A Pod that stays: driven by requests, one thing at a time, in one task of its own."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from pod.agenda import Agenda, Job, is_paused
from pod.between_runs import Doors, Way, change_model, copy, go
from pod.closing import has_open_turn
from pod.compaction.job import ABORTED, Outcome, Skipped
from pod.entries import Mode, TurnAbandoned
from pod.errors import (
    AlreadyRunning,
    Interrupted,
    InvalidRequest,
    NotPaused,
    NotRunning,
    Refused,
    SessionError,
    ShutDown,
)
from pod.events import PodLive, Standing
from pod.hooks.hooks import Hooks
from pod.maintenance import Work
from pod.navigation import Navigation
from pod.pod import Pod, Stopped
from pod.promise import Promise
from pod.rollback import taken_back, unanswered
from pod.steps import SHUT_DOWN, Steps, what_failed
from worker.events import Live

T = TypeVar("T")


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
        self._doors = doors
        self._agenda = Agenda(is_paused=is_paused(self.session.state.last_run))
        self._steps = Steps(
            pod, self._agenda, listen=listen, auto_continue=auto_continue
        )
        self._moving: trio.CancelScope | None = None
        """Of the navigation that is under way."""

    @property
    def state(self) -> Standing:
        """What is under way."""
        return self._steps.state

    @property
    def _has_turn(self) -> bool:
        """Whether there is a turn that input could join: under way, open, wanted."""
        agenda = self._agenda
        return self._steps.is_running or agenda.is_paused or agenda.begun is not None

    async def serve(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Drive the Pod until shutdown(). Input that waits in the log is run at once.

        Cancelled, it closes the run that is under way in the log.
        """
        await self._steps.serve(task_status=task_status)

    async def settled(self) -> None:
        """Wait until there is nothing to do: no run, nothing behind one, no job.

        A turn that is paused is nothing to do. Returns when serve has ended, too.
        """
        await self._steps.settled()

    @property
    def hooks(self) -> Hooks:
        """The Pod's hooks; more can be added."""
        return self._pod.hooks

    async def prompt(self, text: str) -> str:
        """Accept *text* as the prompt of a run; return the run's id once it begins.

        While a compaction or a navigation is under way it waits for that. While
        a turn is paused, or about to be, that turn is not gone on with; calls
        that still run are stopped and answered first.

        Raises AlreadyRunning, InvalidRequest for an empty text, Interrupted
        (handed back before it began), NotDone.
        """
        self._check(text)
        is_under_way = self._steps.is_running and not self._steps.is_pausing
        if is_under_way or self._agenda.begun is not None:
            raise AlreadyRunning(
                "a run is under way: steer it, or give a follow-up for behind it"
            )
        self._pod.accept(text)
        begun = self._agenda.want_run()
        if self._steps.is_running:
            self._pod.stop("paused")
        self._steps.wake()
        return await begun.wait()

    def steer(self, text: str) -> str:
        """Accept *text* for the run that is under way: it goes with its next request.

        Returns the input's id. Where the run ends before that, it begins the next one. While a turn is
        paused, it waits until that is resumed. Raises NotRunning, InvalidRequest.
        """
        self._check(text)
        is_between = self._pod.watch.maintenance.work is not None
        if self._steps.is_fenced or not (self._has_turn or is_between):
            raise NotRunning("no run is under way: give a prompt")
        entry = self._pod.accept(text)
        self._steps.wake()
        return entry.input

    def follow_up(self, text: str) -> str:
        """Accept *text* as the prompt of a run behind the one that is under way.

        Returns the input's id. Where none is it begins at once. Raises InvalidRequest.
        """
        self._check(text)
        entry = self._pod.accept(text, follow_up=self._has_turn)
        self._steps.wake()
        return entry.input

    async def interrupt(self) -> None:
        """Give up what is under way, and wait until it is over.

        It reaches a run with its requests, waits and tools, a compaction, a
        navigation, and what was asked for and has not begun. Input that the model
        has not seen is handed back; a turn that is paused is not gone on with.
        Nothing new begins by itself behind it. Raises NotRunning where nothing is
        under way.
        """
        self._refuse_ended()
        agenda, over = self._agenda, self._steps.over
        was_paused = agenda.is_paused
        if not (self._steps.is_stepping or was_paused or agenda.is_waited_for):
            raise NotRunning("nothing is under way")
        self._steps.is_fenced = self._steps.is_stepping
        agenda.begin_nothing()
        try:
            if self._pod.is_busy:
                self._pod.interrupt()
            else:
                self._pod.hand_back()
        finally:
            if self._moving is not None:
                self._moving.cancel()
            agenda.drop_all(
                Interrupted("interrupted before it began; input is handed back")
            )
        if self._steps.is_stepping:
            await over.wait()
        if was_paused and agenda.is_paused and not self._steps.is_stepping:
            self._abandon()
        await self.session.commit()

    async def pause(self) -> None:
        """Stop the run before its next request, so that it can be resumed; wait for it.

        An answer that is being received is broken off, and so is the wait for a
        retry; tools that run are awaited. A run that comes to its end first is
        over. Raises NotRunning.
        """
        self._refuse_ended()
        if not self._steps.is_running or self._steps.is_fenced:
            raise NotRunning("no run is under way")
        self._steps.is_pausing = True
        self._pod.pause()
        await self._steps.over.wait()

    async def resume(self) -> str:
        """Go on with the turn that stands open, as a new run; return its id.

        Raises NotPaused, AlreadyRunning, Interrupted, NotDone.
        """
        self._refuse_ended()
        if self._steps.is_running or self._agenda.begun is not None:
            raise AlreadyRunning("a run is under way")
        if not (self.session.state.interrupted and has_open_turn(self.session)):
            raise NotPaused("there is no open turn: give a prompt")
        begun = self._agenda.want_run(resumes=True)
        self._steps.wake()
        return await begun.wait()

    async def compact(
        self, instructions: str = "", mode: Mode | None = None
    ) -> Outcome:
        """Compact the context now; return what came of it.

        While a run is under way that is before its next request: tools are
        awaited, and the run goes on, whatever comes of it. Raises Busy.
        """
        self._refuse_busy()
        if self._steps.is_running:
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
        job = self._agenda.job
        if job is not None and job.work == "compaction":
            self._agenda.drop_job(Stopped("cancelled"))
            return True
        return self._pod.abort_compaction()

    async def navigate(
        self,
        target: str | None,
        *,
        summarize: bool | None = None,
        instructions: str = "",
        replace_instructions: bool = False,
        label: str = "",
    ) -> Navigation:
        """Put the leaf where *target* leads; see pod.navigation.

        *summarize* None takes the manifest's word. *instructions* go to the
        summariser, behind its own or in their place. A paused turn is left. Raises
        AlreadyRunning, Busy, NotFound, InvalidRequest (nothing to summarise, or
        nobody to do it), NotDone (no summary came of it).
        """
        self._refuse_running("a session moves between its runs")
        way = Way(target, summarize, instructions, replace_instructions, label)
        return await self._ask("navigation", partial(self._navigate, way))

    async def set_model(self, name: str) -> None:
        """Ask the model *name* from the next request on.

        Where the history is too large for it, the model before it compacts it
        first. Raises AlreadyRunning, Busy, InvalidRequest for a name that is
        none, NotDone where the history could not be made small enough,
        Interrupted: then the model is the one it was.
        """
        self._refuse_running("a Pod changes its model between its runs")
        change = partial(change_model, self._pod, name, self._doors)
        await self._ask("model switch", change)

    async def fork(self, entry: str | None = None) -> str:
        """Copy the path to *entry* (None: the leaf) into a new session; return its id.

        At any time: this session is only read. Raises NotFound, InvalidRequest
        for a session that is not kept, NotDone.
        """
        self._refuse_ended()
        return await copy(self._pod, entry, self._doors)

    async def shutdown(self) -> None:
        """End what is under way, in the log too, and return when serve has ended.

        Input that waits stays in the log, and a turn that was cut off can be
        resumed, by the next process.
        """
        self._steps.is_closing = True
        if self._pod.is_busy:
            self._pod.stop("shutdown")
        if self._moving is not None:
            self._moving.cancel()
        await self._steps.close()

    async def _navigate(self, way: Way) -> Navigation:
        self._moving = trio.CancelScope()
        try:
            moved = await go(
                self._pod, way, self._doors, listen=self._listen, abort=self._moving
            )
        finally:
            self._moving = None
        if not moved.cancelled and moved.new_leaf != moved.old_leaf:
            self._agenda.leave_turn()
        return moved

    def _abandon(self) -> None:
        """Give the paused turn up; where nothing came of it yet, take it back."""
        back = unanswered(self.session.recent_entries())
        if back is None:
            self.session.append(TurnAbandoned())
        else:
            self.session.append(*taken_back(self.session.tree, back))
            self._pod.watch.occupancy.reset()
        self._agenda.leave_turn()
        self._steps.tell()

    async def _ask(self, work: Work, do: Callable[[], Awaitable[T]]) -> T:
        """Have *do* done between runs; return what it returns, raise what it raises."""
        promise = Promise[T]()

        async def perform() -> None:
            try:
                promise.keep(await do())
            except (Refused, SessionError, Stopped) as error:
                promise.fail(error)
            except Exception as error:
                promise.fail(Refused(what_failed(error)))
                raise

        self._agenda.job = Job(work, perform, promise.fail)
        self._steps.wake()
        return await promise.wait()

    def _refuse_ended(self) -> None:
        if self._steps.is_closing:
            raise ShutDown(SHUT_DOWN)

    def _check(self, text: str) -> None:
        self._refuse_ended()
        if not text.strip():
            raise InvalidRequest("the text is empty")

    def _refuse_running(self, why: str) -> None:
        self._refuse_busy()
        if self._steps.is_running:
            raise AlreadyRunning(f"{why}: pause or interrupt this one first")

    def _refuse_busy(self) -> None:
        self._refuse_ended()
        self._pod.watch.maintenance.refuse()
        self._agenda.refuse_busy()


async def _or_skipped(compacting: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Return what came of a compaction, also where everything was interrupted."""
    try:
        return await compacting()
    except Stopped as stopped:
        if stopped.ended is not None:
            return stopped.ended
    except Interrupted:
        pass
    return Skipped("aborted", ABORTED)
