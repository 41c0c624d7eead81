"""What a Pod that stays does: one step after the other, in one task."""

from collections.abc import Awaitable, Callable

import trio

from pod.agenda import Agenda
from pod.compaction.continuation import Compacted, after
from pod.compaction.job import Done
from pod.entries import RunEnd
from pod.errors import NotDone, NotPaused, SessionError, ShutDown
from pod.events import PodLive, Standing, Status
from pod.pod import NothingToDo, Pod
from worker.crash import crash_text
from worker.events import Live, Warning

SHUT_DOWN = "the Pod has been shut down"


class Steps:
    """Does what is on *agenda* with *pod*, and tells how it stands.

    *auto_continue*: see pod.compaction.continuation.
    """

    def __init__(
        self,
        pod: Pod,
        agenda: Agenda,
        *,
        listen: Callable[[Live | PodLive], None],
        auto_continue: bool,
    ) -> None:
        self.session = pod.session
        self._pod = pod
        self._agenda = agenda
        self._listen = listen
        self._auto_continue = auto_continue
        self._woken = trio.Event()
        self.over = trio.Event()
        """Set when the step that is under way is over."""
        self._ended = trio.Event()
        self.is_serving = self.is_closing = False
        self.is_stepping = self._has_run = False
        self.is_pausing = False
        """Somebody paused the run that is under way."""
        self.is_fenced = False
        """Somebody interrupted the step that is under way."""
        self._told: Standing | None = None
        pod.watch.maintenance.changed = self.tell

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
        if self.is_running:
            return "running"
        return "paused" if self._agenda.is_paused else "idle"

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        # The log may not take a run's end: then the session still stands in it.
        return self._has_run and self.session.run is not None

    async def serve(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Drive the Pod until shutdown(). Input that waits in the log is run at once.

        Cancelled, it closes the run that is under way in the log.
        """
        self.is_serving = True
        self.tell()
        task_status.started()
        try:
            while not self.is_closing:
                if (step := self._next()) is None:
                    self._woken = trio.Event()
                    await self._woken.wait()
                    continue
                self.over = trio.Event()
                self.is_stepping = True
                try:
                    await step()
                except Exception as error:  # noqa: BLE001  ends this step, not the Pod
                    self._listen(Warning(message=what_failed(error)))
                finally:
                    self.is_stepping = self.is_fenced = False
                    self.tell()
                    self.over.set()
        finally:
            self.is_closing = True
            self._agenda.drop_all(ShutDown(SHUT_DOWN))
            self._ended.set()

    async def settled(self) -> None:
        """Wait until there is nothing to do: no run, nothing behind one, no job.

        A turn that is paused is nothing to do. Returns when serve has ended, too.
        """
        while not self._ended.is_set():
            if self.is_stepping:
                await self.over.wait()
            elif self._next() is not None:  # it has been woken, and is about to
                await trio.lowlevel.checkpoint()
            else:
                return

    async def close(self) -> None:
        """Begin nothing more; return when serve has ended."""
        self.is_closing = True
        self.wake()
        if self.is_serving:
            await self._ended.wait()

    def wake(self) -> None:
        """Look at the agenda again: somebody asked for something."""
        self._agenda.let_go()
        self._woken.set()

    def tell(self) -> None:
        """Tell how things stand, where that has changed."""
        if self.state != self._told:
            self._told = self.state
            self._listen(Status(state=self._told))

    def _next(self) -> Callable[[], Awaitable[None]] | None:
        """Return what is to be done now, None where nothing is."""
        match self._agenda.next(self.session.pending_inputs):
            case "job":
                return self._do_job
            case "after_run":
                return self._after_run
            case "run":
                return self._run
            case None:
                return None

    async def _run(self) -> None:
        """Run what is due, or resume, or continue."""
        session, agenda = self.session, self._agenda
        run = agenda.begin_run(session.pending_inputs)
        delivered = len(session.tree.delivered)

        def has_begun(id: str) -> None:
            self._has_run = True
            run.begun.keep(id)
            self.tell()

        end: RunEnd | None = None
        why = "the run did not begin"
        try:
            end = await self._pod.run(
                None,
                follow_ups=run.follow_ups,
                is_continuation=run.is_continuation,
                begun=has_begun,
            )
            why = end.message
        except NothingToDo:
            run.begun.fail(NotPaused("there is no open turn: give a prompt"))
        finally:
            self.is_pausing = self._has_run = False
            run.begun.fail(NotDone(why))
            if len(session.tree.delivered) > delivered:
                agenda.has_continued = False
            waiting = session.pending_inputs
            agenda.end_run(run, end, waiting, is_fenced=self.is_fenced)

    async def _after_run(self) -> None:
        """Compact what the run left; see whether the model is asked to continue."""
        agenda = self._agenda
        agenda.begin_after_run()
        outcome = await self._pod.after_run()
        if outcome is None:
            return
        compacted = Compacted(
            "post_run",
            made_room=isinstance(outcome, Done),
            in_run=False,
            has_input=bool(self.session.pending_inputs),
            auto_continue=self._auto_continue,
            has_continued=agenda.has_continued,
            is_fenced=self.is_fenced,
        )
        if after(compacted) == "continue":
            agenda.want_continuation()

    async def _do_job(self) -> None:
        job = self._agenda.begin_job()
        try:
            await job.do()
        finally:
            # Whoever waits is told something, also where this was cancelled.
            job.fail(ShutDown(SHUT_DOWN))
            self._agenda.doing = None


def what_failed(error: Exception) -> str:
    """Return what to tell of a step that failed in a way that nobody answers for."""
    if isinstance(error, SessionError):
        return str(error)
    return f"internal error: {crash_text(error)}"
