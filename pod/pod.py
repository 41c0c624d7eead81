"""The agent: one session, one model, one run at a time."""

from collections.abc import Awaitable, Callable, Sequence

import trio
from msgspec import Struct, structs

from pod.compaction.admission import Refused
from pod.compaction.cut import NoCut
from pod.compaction.job import Outcome
from pod.compaction.plan import Plan
from pod.compaction.watch import ContextWatch
from pod.ending import Stop, Verdict, verdict_of, verdict_of_stop
from pod.entries import InputEntry, Known, Mode, RunEnd, RunStart
from pod.errors import DiskFull, LogFailed
from pod.exits import Exit
from pod.hooks.hooks import Hooks
from pod.hooks.in_run import RequestsInRun, tell_end, with_hooks
from pod.journal import Journal
from pod.recovery import settled
from pod.session import Session
from prompts import load
from tools.files_in_use import FilesInUse
from worker.cancelled import is_cancel
from worker.crash import crash_text
from worker.endings import Failed, Yielded
from worker.events import Listen, Warning
from worker.items import AssistantText, Item, ToolResult, UserText
from worker.limits import Spent
from worker.loop import Setup, run_turn

LAST_TEXT = 4_000
"""Characters of the answer in a run's end that goes into the reserved space; the
whole is in the items anyway."""


class NothingToDo(Exception):
    """A run without a prompt, on a session whose last turn is finished."""


class Stopped(Exception):
    """A compaction was stopped by hand; *why* says how."""

    def __init__(self, why: Stop) -> None:
        super().__init__(why)
        self.why: Stop = why


class Bounds(Struct, frozen=True):
    """What bounds a run besides the turn loop's own limits: *timeout* in seconds."""

    timeout: float | None = None


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
        self._setup = with_hooks(setup, self.hooks, session)
        self._bounds = bounds
        self._listen = listen
        self._settled = settled
        self._watch = watch
        self._files = files
        self._scope: trio.CancelScope | None = None
        self._stop: Stop | None = None
        self._is_running = False
        self._owed: tuple[RunEnd, ...] = ()
        """Ends of runs that the log did not take; the next run writes them first."""

    def steer(self, text: str) -> None:
        """Accept more input; the model sees it with the next request.

        It is in the log when this returns. Raises LogFailed.
        """
        self.session.append(self._input(text))

    def _input(self, text: str) -> InputEntry:
        # Lone surrogates cannot be written as JSON, nor sent.
        well_formed = text.encode("utf-8", "replace").decode()
        return InputEntry(input=self._setup.new_id(), text=well_formed)

    def stop(self, why: Stop) -> None:
        """End the run that is under way, as soon as its calls are answered.

        The first reason counts. Without a run it ends the next one at once.
        """
        self._stop = self._stop or why
        if self._scope is not None:
            self._scope.cancel()

    async def run(self, prompt: str | None) -> RunEnd:
        """Run *prompt* to its end, or go on with an open turn where it is None.

        Returns the entry that closes the run, whatever closed it; a full disk
        included. Cancelled from outside, it closes the run in the log, too,
        and lets the cancellation pass.

        Raises NothingToDo for None on a finished session, RuntimeError while
        another run is under way.
        """
        if self._is_running:
            raise RuntimeError("a Pod has one run at a time")
        if prompt is None and not is_open(self.session):
            raise NothingToDo
        self._is_running = True
        try:
            return await self._run(prompt)
        finally:
            # What came too late to stop this run is not meant for the next one.
            self._is_running, self._scope, self._stop = False, None, None

    async def _run(self, prompt: str | None) -> RunEnd:
        run = self._setup.new_id()
        journal = Journal(self.session, files=self._files, settled=self._settled)
        spent = Spent()
        started = trio.current_time()
        length, revision = len(self.session.items), self.session.revision
        verdict = verdict_of_stop("cancelled")
        start = RunStart(
            run=run, model=self._setup.model.id, resumed=len(self.session.tree) > 0
        )
        try:
            before = self.session.state.model
            given = [] if prompt is None else [self._input(prompt)]
            self.session.append(*self._owed, start, *given)
            self._owed = ()
            verdict = await self._bounded(
                journal,
                spent,
                is_new_input=bool(given),
                is_switch=before not in (None, start.model),
            )
        except LogFailed as error:
            verdict = _verdict_of_log(error)
        except KeyboardInterrupt:
            verdict = verdict_of_stop("sigint")
            raise
        except BaseException as error:
            if not is_cancel(error):
                verdict = _verdict_of_bug(error)
            raise
        finally:
            seconds = trio.current_time() - started
            is_same = self.session.revision == revision
            text = last_text(self.session.items[length if is_same else 0 :])
            end = self._end(journal, run, spent, verdict, seconds, text)
            with trio.CancelScope(shield=True):
                end = await self._close(start, end)
                await tell_end(self.hooks, self.session, end)
        return end

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
                await self._watch.before_run(
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
            self._watch,
            model=self._setup.model.id,
            responses=lambda: journal.responses,
        )
        while True:
            ending = await run_turn(
                self._setup,
                journal,
                spent=spent,
                listen=self._listen,
                occupancy=self._watch.occupancy,
                gate=requests.gate,
            )
            match ending:
                case Yielded(tokens):
                    verdict = await self._watch.make_room(tokens, spent)
                case Failed(failure) if failure.kind == "overflow":
                    verdict = await self._watch.recover(
                        failure, spent, responses=journal.responses
                    )
                case _:
                    return verdict_of(ending)
            await self._settled()
            if verdict is not None:
                return verdict

    async def compact(
        self, *, instructions: str = "", mode: Mode | None = None
    ) -> Outcome:
        """Compact the session now, on request. Not while a run is under way.

        *instructions* go to the compact worker; *mode* takes the place of the
        manifest's rungs. Returns what came of it: Done with the receipt, Skipped
        where there is nothing to summarise, Failed with the history as it was.

        Raises Stopped after stop(), RuntimeError during a run, LogFailed.
        """
        if self._is_running:
            raise RuntimeError("a Pod compacts between its runs")
        self._is_running = True
        try:
            with trio.CancelScope() as self._scope:
                if self._stop is not None:
                    self._scope.cancel()
                return await self._watch.by_hand(
                    Spent(), instructions=instructions, mode=mode
                )
            raise Stopped(self._stop or "cancelled")
        finally:
            self._is_running, self._scope, self._stop = False, None, None

    async def plan(
        self, *, instructions: str = "", mode: Mode | None = None
    ) -> Plan | NoCut | Refused:
        """Return how compact would begin. No model is asked, nothing is written."""
        return await self._watch.plan(instructions=instructions, mode=mode)

    def _end(
        self,
        journal: Journal,
        run: str,
        spent: Spent,
        verdict: Verdict,
        seconds: float,
        text: str,
    ) -> RunEnd:
        return RunEnd(
            run=run,
            outcome=verdict.outcome,
            reason=verdict.reason,
            exit_code=verdict.exit,
            interrupted=verdict.interrupted and is_open(self.session),
            message=verdict.message,
            text=text,
            requests=spent.requests,
            tool_calls=journal.tool_calls,
            tool_errors=journal.tool_errors,
            usage=spent.usage,
            cost_usd=None if spent.cost is None else float(spent.cost),
            seconds=round(seconds, 3),
            permission_denials=tuple(journal.denials),
        )

    async def _close(self, start: RunStart, end: RunEnd) -> RunEnd:
        """Write *end*; into the space reserved for it where the disk is full.

        Calls that a full disk left unanswered get a result before it, and a run
        whose *start* found no room gets that, too: no end without one. Returns
        the end as it is in the log, or as it should have been.
        """
        before: list[Known] = [] if self.session.run == start.run else [start]
        before += settled(self.session.items, "crashed_call", self.session.state.begun)
        try:
            await self.session.commit()
            written = self.session.append(*before, end)
        except DiskFull as error:
            end = self._broken_off(end, error)
            short = structs.replace(
                end, text=end.text[:LAST_TEXT], permission_denials=()
            )
            try:
                written = self.session.last_words(*before, short)
            except LogFailed:
                self._owe(start, short)
                return end
        except LogFailed as error:
            self._owe(start, end)
            # A disk that was full is why the log failed, if it was.
            is_told = end.reason == DiskFull.reason
            return end if is_told else self._broken_off(end, error)
        try:
            await self.session.commit()
        except LogFailed as error:  # it has been told already, and stands in the log
            self._listen(Warning(message=str(error)))
        (found,) = (entry for entry in written if isinstance(entry, RunEnd))
        return structs.replace(found, text=end.text)

    def _owe(self, start: RunStart, end: RunEnd) -> None:
        if start.run in self.session.tree.running:
            self._owed = (*self._owed, end)

    def _broken_off(self, end: RunEnd, error: LogFailed) -> RunEnd:
        verdict = _verdict_of_log(error)
        return structs.replace(
            end,
            outcome=verdict.outcome,
            reason=verdict.reason,
            exit_code=verdict.exit,
            interrupted=is_open(self.session),
            message=verdict.message,
        )


def is_open(session: Session) -> bool:
    """Whether the session's last turn can go on without a new prompt."""
    if session.pending_inputs:
        return True
    items = session.items
    if not items:
        return False
    return session.state.interrupted or isinstance(items[-1], UserText | ToolResult)


def last_text(items: Sequence[Item]) -> str:
    """Return what the model said last: since its last call, or before it.

    An answer that was cut off and gone on with is one text.
    """
    cut_off = UserText(text=load("continue_cut_off"), synthetic=True)
    said: list[str] = []
    for item in reversed(items):
        match item:
            case AssistantText(text=text):
                said.append(text)
            case UserText() if item != cut_off:
                break
            case ToolResult() if "".join(said).strip():
                break
            case _:
                pass
    return "".join(reversed(said))


def _verdict_of_bug(error: BaseException) -> Verdict:
    text = crash_text(error)
    return Verdict("failed", "internal_error", Exit.FAILED, text, interrupted=True)


def _verdict_of_log(error: LogFailed) -> Verdict:
    return Verdict("failed", error.reason, Exit.FAILED, str(error), interrupted=True)
