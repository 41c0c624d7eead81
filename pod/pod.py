"""The agent: one session, one model, one run at a time."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import trio
from msgspec import Struct, structs

from pod.closing import (
    close,
    is_open,
    last_text,
    run_end,
    verdict_of_bug,
    verdict_of_log,
)
from pod.compaction.admission import Refused
from pod.compaction.continuation import Compacted, after
from pod.compaction.cut import NoCut
from pod.compaction.job import NotMade, Outcome
from pod.compaction.plan import Plan
from pod.compaction.watch import ContextWatch
from pod.ending import ROLLED_BACK, Stop, Verdict, verdict_of, verdict_of_stop
from pod.entries import (
    HandedBack,
    InputEntry,
    ItemEntry,
    Known,
    Mode,
    ModelChange,
    Reason,
    RunEnd,
    RunStart,
)
from pod.errors import LogFailed
from pod.halts import Halts, Stopped as Stopped
from pod.hooks.hooks import Hooks
from pod.hooks.in_run import RequestsInRun, tell_end, with_hooks
from pod.journal import Journal
from pod.promise import Promise
from pod.rollback import unanswered
from pod.session import Session
from prompts import load
from tools.files_in_use import FilesInUse
from worker.cancelled import is_cancel
from worker.endings import Blocked, Failed, Held, Yielded
from worker.events import Listen
from worker.items import UserText
from worker.limits import Spent
from worker.loop import run_turn
from worker.refused import RefusedBlock
from worker.turn import Setup


class NothingToDo(Exception):
    """A run without a prompt, on a session whose last turn is finished."""


class Bounds(Struct, frozen=True):
    """What bounds a run besides the turn loop's own limits: *timeout* in seconds."""

    timeout: float | None = None


class Switched(Struct, frozen=True):
    """Another model: what runs go on with, *setup* and *watch*.

    *before* is the watch over the same context that measures for the new model
    while the old one is asked.
    """

    setup: Setup
    watch: ContextWatch
    before: ContextWatch


class Pod:
    """Runs prompts on a session.

    *settled* is awaited at each commit, so that a reader of the events has
    time to take them in.
    """

    def __init__(
        self,
        session: Session,
        setup: Setup,
        *,
        bounds: Bounds,
        listen: Listen,
        settled: Callable[[], Awaitable[None]],
        watch: ContextWatch,
        files: FilesInUse,
        hooks: Hooks | None = None,
    ) -> None:
        self.session = session
        self.hooks = Hooks() if hooks is None else hooks
        self.setup = with_hooks(setup, self.hooks, session)
        self.watch = watch
        self.files = files
        self._bounds = bounds
        self._listen = listen
        self._settled = settled
        self._scope: trio.CancelScope | None = None
        self._stop: Stop | None = None
        self._is_running = False
        self._halts = Halts()
        self._refused = RefusedBlock()
        self._returned: tuple[str, ...] = ()
        self._owed: tuple[RunEnd, ...] = ()
        """Ends of runs that the log did not take; the next run writes them first."""

    @property
    def is_busy(self) -> bool:
        """Whether something is under way that stop() ends."""
        return self._is_running

    def steer(self, text: str) -> None:
        """Accept more input; the model sees it with the next request.

        It is in the log when this returns. Raises LogFailed.
        """
        self.accept(text)

    def accept(self, text: str, *, follow_up: bool = False) -> InputEntry:
        """Write input to the log, where it waits; return its entry.

        A *follow_up* waits for a run of its own. Raises LogFailed.
        """
        entry = structs.replace(self._input(text), follow_up=follow_up)
        self.session.append(entry)
        return entry

    def _input(self, text: str) -> InputEntry:
        # Lone surrogates cannot be written as JSON, nor sent.
        well_formed = text.encode("utf-8", "replace").decode()
        return InputEntry(input=self.setup.new_id(), text=well_formed)

    def stop(self, why: Stop) -> None:
        """End the run that is under way, as soon as its calls are answered.

        A compaction as well. The first reason counts; any counts more than a
        pause. Where nothing is under way it ends the next run at once.
        """
        if self._stop in (None, "paused"):
            self._stop = why
        if self._scope is not None:
            self._scope.cancel()

    def pause(self) -> None:
        """Have the run that is under way end before its next request, to be resumed.

        An answer that is being received is broken off (nothing of it is in the
        history), and so is the wait for a retry. Tools that run are awaited, and
        so is a compaction.
        """
        if self._is_running:
            self._halts.sending.break_off()

    def interrupt(self) -> None:
        """Give up what is under way, and the input that waits: it is handed back.

        A run whose model has answered nothing yet is rolled back: the leaf goes
        to before its input, and the run's end has its text. Raises LogFailed, and
        stops all the same.
        """
        try:
            self._returned += self.hand_back()
        finally:
            self.stop("interrupted")

    def hand_back(self) -> tuple[str, ...]:
        """Give the input that waits back to who sent it. Raises LogFailed."""
        waiting = self.session.pending_inputs
        texts = tuple(entry.text for entry in waiting)
        if waiting:
            inputs = tuple(entry.input for entry in waiting)
            self.session.append(HandedBack(inputs=inputs, texts=texts))
        return texts

    async def run(
        self,
        prompt: str | None,
        *,
        follow_ups: Sequence[str] | None = None,
        is_continuation: bool = False,
        begun: Callable[[str], None] = lambda run: None,
    ) -> RunEnd:
        """Run *prompt* to its end, or go on with an open turn where it is None.

        It takes all input that waits but follow-ups: of those *follow_ups*
        (inputs), by default all beside a prompt, and the first where nothing else
        is to do. *is_continuation* asks the model to continue, in the user's
        place. *begun* is told the run's id as soon as the log has it.

        Returns the entry that closes the run, whatever closed it; a full disk
        included. Cancelled from outside, it closes the run in the log, too,
        and lets the cancellation pass. A compaction that was asked for meanwhile,
        and that no request came after, is done behind it.

        Raises NothingToDo for None on a finished session, RuntimeError while
        another run is under way.
        """
        with self._alone("a Pod has one run at a time"):
            if prompt is None and not is_continuation and not is_open(self.session):
                raise NothingToDo
            if follow_ups is None:
                follow_ups = self._due(prompt)
            end = await self._run(prompt, follow_ups, is_continuation, begun)
            if end.outcome != "cancelled":
                with self._stoppable():
                    await self._halts.compact(self.watch, Spent())
            return end

    @contextmanager
    def _alone(self, refusal: str) -> Iterator[None]:
        """Hold the Pod for one thing that stop() ends; raises RuntimeError."""
        if self._is_running:
            raise RuntimeError(refusal)
        self._is_running = True
        try:
            yield
        finally:
            # What came too late to stop this run is not meant for the next one.
            self._halts.clear(self._stop or "cancelled", self.watch.ended)
            self._is_running, self._scope, self._stop = False, None, None
            self._returned = ()

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """End what is done in here on stop(); quietly."""
        with trio.CancelScope() as self._scope:
            if self._stop not in (None, "paused"):
                self._scope.cancel()
            yield

    async def _run(
        self,
        prompt: str | None,
        follow_ups: Sequence[str],
        is_continuation: bool,
        begun: Callable[[str], None],
    ) -> RunEnd:
        run = self.setup.new_id()
        journal = Journal(
            self.session,
            files=self.files,
            settled=self._settled,
            follow_ups=follow_ups,
        )
        spent = Spent()
        started = trio.current_time()
        length, revision = len(self.session.items), self.session.revision
        verdict = verdict_of_stop("cancelled")
        start = RunStart(
            run=run, model=self.setup.model.id, resumed=len(self.session.tree) > 0
        )
        try:
            before = self.session.state.model
            given: list[Known] = [] if prompt is None else [self._input(prompt)]
            if is_continuation:
                text = load("continue_steps")
                given.append(ItemEntry(item=UserText(text=text, synthetic=True)))
            self.session.append(*self._owed, start, *given)
            self._owed = ()
            begun(run)
            verdict = await self._bounded(
                journal,
                spent,
                is_new_input=bool(self.session.pending_inputs),
                is_switch=before not in (None, start.model),
            )
        except LogFailed as error:
            verdict = verdict_of_log(error)
        except KeyboardInterrupt:
            verdict = verdict_of_stop("sigint")
            raise
        except BaseException as error:
            if not is_cancel(error):
                verdict = verdict_of_bug(error)
            raise
        finally:
            seconds = trio.current_time() - started
            is_same = self.session.revision == revision
            text = last_text(self.session.items[length if is_same else 0 :])
            back = None
            if verdict.reason == "interrupted":
                back = unanswered(self.session.recent_entries())
                verdict = verdict if back is None else ROLLED_BACK
            end = structs.replace(
                run_end(run, journal, spent, verdict),
                interrupted=verdict.interrupted and is_open(self.session),
                text=text,
                seconds=round(seconds, 3),
                returned=(*(back.texts if back else ()), *self._returned),
            )
            with trio.CancelScope(shield=True):
                end, owed = await close(
                    self.session, start, end, listen=self._listen, back=back
                )
                self._owed += owed
                if back is not None:
                    self.watch.occupancy.reset()
                await tell_end(self.hooks, self.session, end)
        return end

    def _due(self, prompt: str | None) -> Sequence[str]:
        """Return the follow-ups that a run which begins now is for.

        One that brings its own prompt is for all: they wait since another process.
        """
        waiting = self.session.pending_inputs
        if prompt is not None:
            return [entry.input for entry in waiting]
        is_for_others = any(not entry.follow_up for entry in waiting)
        if is_for_others or self.session.state.interrupted:
            return ()
        return [entry.input for entry in waiting[:1]]

    async def _bounded(
        self, journal: Journal, spent: Spent, *, is_new_input: bool, is_switch: bool
    ) -> Verdict:
        """Run the turn until it ends, somebody stops it, or its time is up."""
        timeout = self._bounds.timeout
        with trio.CancelScope() as self._scope:
            if self._stop is not None:
                self._scope.cancel()
            with trio.move_on_after(float("inf") if timeout is None else timeout):
                await journal.commit()
                await self.watch.before_run(
                    spent, is_new_input=is_new_input, is_switch=is_switch
                )
                return await self._turn(journal, spent)
            return verdict_of_stop("timeout", seconds=timeout)
        return verdict_of_stop(self._stop or "cancelled")

    async def _turn(self, journal: Journal, spent: Spent) -> Verdict:
        """Run the turn, with room made in the context as often as it takes."""
        requests = RequestsInRun(
            self.hooks,
            self.session,
            self.watch,
            model=self.setup.model.id,
            responses=lambda: journal.responses,
        )
        while True:
            ending = await run_turn(
                self.setup,
                journal,
                spent=spent,
                listen=self._listen,
                occupancy=self.watch.occupancy,
                gate=partial(self._gate, requests),
                sending=self._halts.sending,
                refused=self._refused,
            )
            reason: Reason = "mid_turn"
            verdict: Verdict | None = None
            match ending:
                case Held() if not self._halts.is_pause:
                    reason = "manual"
                    await self._halts.compact(self.watch, spent)
                case Yielded(tokens):
                    verdict = await self.watch.make_room(tokens, spent)
                case Failed(failure) if failure.kind == "overflow":
                    reason = "overflow"
                    verdict = await self.watch.recover(
                        failure, spent, responses=journal.responses
                    )
                case _:
                    return verdict_of(ending)
            await self._settled()
            compacted = Compacted(reason, made_room=verdict is None, in_run=True)
            if verdict is not None and after(compacted) == "end_run":
                return verdict

    async def _gate(self, requests: RequestsInRun) -> Yielded | Held | Blocked | None:
        """Halt a turn before a request, for what somebody asked for or for its size."""
        if self._halts.is_wanted:
            return Held()
        return await requests.gate()

    async def compact(
        self, *, instructions: str = "", mode: Mode | None = None
    ) -> Outcome:
        """Compact the session now, on request.

        *instructions* go to the compact worker; *mode* takes the place of the
        manifest's rungs. Returns what came of it: Done with the receipt, Skipped
        where there is nothing to summarise, Failed with the history as it was.

        While a run is under way it is compacted before its next request, with
        tools awaited, and goes on whatever comes of it; behind the run where
        there is no next request.

        Raises Stopped after stop(), Busy while another compaction is under way or
        asked for, LogFailed.
        """
        if self._is_running:
            return await self.wish(instructions=instructions, mode=mode).wait()
        with self._alone("a Pod does one thing at a time"):
            with self._stoppable():
                return await self.watch.by_hand(
                    Spent(), instructions=instructions, mode=mode
                )
            raise Stopped(self._stop or "cancelled", self.watch.ended)

    def wish(self, *, instructions: str, mode: Mode | None) -> Promise[Outcome]:
        """Ask for a compaction before the next request of the run that is under way.

        Raises Busy.
        """
        self.watch.maintenance.refuse()
        return self._halts.ask(instructions, mode)

    async def after_run(self) -> Outcome | None:
        """Compact what the run before left above the early limit.

        None where it left less, or stop() was called meanwhile. For a process
        that stays: in one that does not, the next run does it. Raises LogFailed.
        """
        with self._alone("a Pod compacts behind its runs"):
            with self._stoppable():
                return await self.watch.after_run(Spent())
            return None

    async def switch(self, to: Switched) -> Outcome | None:
        """Ask the model of *to* from here on. Not while a run is under way.

        Where the history is above its late limit, the model before it compacts
        it first. Returns what came of that, None where it was not needed: after
        a Failed or a Skipped the model is the one it was.

        Raises Stopped after stop(), RuntimeError during a run, LogFailed.
        """
        with self._alone("a Pod changes its model between its runs"):
            with self._stoppable():
                outcome = await to.before.before_switch(Spent())
                if isinstance(outcome, NotMade):
                    return outcome
                change = ModelChange(
                    model=to.setup.model.id, previous=self.setup.model.id
                )
                with trio.CancelScope(shield=True):
                    self.session.append(change)
                    self.become(to)
                    await self.session.commit()
                return outcome
            raise Stopped(self._stop or "cancelled")

    def become(self, to: Switched) -> None:
        """Go on with *to*. Not while a run is under way."""
        self.setup = with_hooks(to.setup, self.hooks, self.session)
        self.watch = to.watch

    def abort_compaction(self) -> bool:
        """Abort the compaction that is under way, or asked for, and nothing else.

        A run that needs one ends as it does where one fails. Returns whether
        there was any.
        """
        return self.watch.abort() or self._halts.take_back()

    async def plan(
        self, *, instructions: str = "", mode: Mode | None = None
    ) -> Plan | NoCut | Refused:
        """Return how compact would begin. No model is asked, nothing is written."""
        return await self.watch.plan(instructions=instructions, mode=mode)
