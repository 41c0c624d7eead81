"""What a Pod that stays has to do, and in which order."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Struct

from pod.entries import InputEntry, RunEnd
from pod.errors import Busy
from pod.maintenance import Work
from pod.promise import Promise

Todo = Literal["job", "after_run", "run"]
"""job: what somebody asked for. after_run: compact what a run left. run: a run."""


class Job(Struct, frozen=True):
    """Work between two runs that somebody waits for."""

    work: Work
    do: Callable[[], Awaitable[None]]
    fail: Callable[[Exception], None]


class Beginning(Struct, frozen=True):
    """A run that is to begin.

    *due* is the input it is for, *begun* gets its id. *is_continuation*: the
    model is asked to continue.
    """

    due: tuple[InputEntry, ...]
    begun: Promise[str]
    is_continuation: bool

    @property
    def follow_ups(self) -> list[str]:
        """Return the inputs among *due* that wait for a run of their own."""
        return [entry.input for entry in self.due if entry.follow_up]


class Agenda:
    """Keeps at most one job and one request for a run; input waits in the log.

    *is_paused*: a turn stands open that somebody paused.
    """

    def __init__(self, *, is_paused: bool) -> None:
        self.is_paused = is_paused
        self.job: Job | None = None
        """Asked for, and not begun."""
        self.doing: Job | None = None
        """Begun, and not over."""
        self.begun: Promise[str] | None = None
        """For who waits for a run to begin: with a prompt, or a turn resumed."""
        self.has_continued = False
        """Whether the model was asked to continue since the user's last input."""
        self._resumes = False
        self._is_behind_run = False
        self._continues = False
        self._held: frozenset[str] = frozenset()
        """Input that a run could not even take in: it waits for a request."""

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for something that has not begun."""
        return self.begun is not None or self.job is not None

    def refuse_busy(self) -> None:
        """Raise Busy where a job is asked for, or being done."""
        for job in (self.job, self.doing):
            if job is not None:
                raise Busy(f"a {job.work} is under way; ask again when it is over")

    def begin_job(self) -> Job:
        """Take in that the job is begun; return it."""
        assert self.job is not None
        self.doing, self.job = self.job, None
        return self.doing

    def want_run(self, *, resumes: bool = False) -> Promise[str]:
        """Take in that a run is wanted; return what gets its id."""
        self._resumes = resumes
        self.begun = Promise[str]()
        return self.begun

    def let_go(self) -> None:
        """Try input again that could not be taken in: somebody asks for something."""
        self._held = frozenset()

    def drop_job(self, error: Exception) -> None:
        """Tell who waits for the job that it will not be done."""
        if self.job is not None:
            self.job.fail(error)
            self.job = None

    def drop_all(self, error: Exception) -> None:
        """Tell all who wait for something that it will not begin."""
        self.drop_job(error)
        self._resumes = False
        if self.begun is not None:
            self.begun.fail(error)
            self.begun = None

    def begin_nothing(self) -> None:
        """Let nothing begin by itself behind what is under way."""
        self._is_behind_run = self._continues = False

    def leave_turn(self) -> None:
        """Take in that the leaf was moved: the turn before it is not gone on with."""
        self.is_paused = False
        self.begin_nothing()

    def next(self, waiting: Sequence[InputEntry]) -> Todo | None:
        """Say what is to be done now, None where nothing is. *waiting*: the input."""
        if self.job is not None:
            return "job"
        if self._is_behind_run:
            return "after_run"
        if self.begun is not None:
            return "run"
        if self.is_paused:
            return None
        return "run" if self._due(waiting) or self._continues else None

    def _due(self, waiting: Sequence[InputEntry]) -> tuple[InputEntry, ...]:
        """Return the input that the next run is for: all, but follow-ups one by one."""
        free = [entry for entry in waiting if entry.input not in self._held]
        if at_once := [entry for entry in free if not entry.follow_up]:
            return tuple(at_once)
        return () if self._resumes else tuple(free[:1])

    def begin_run(self, waiting: Sequence[InputEntry]) -> Beginning:
        """Take in that a run begins; return what it is for."""
        due = self._due(waiting)
        is_continuation = self._continues and not (due or self._resumes)
        if due or is_continuation:
            self.has_continued = is_continuation
        begun, self.begun = self.begun or Promise[str](), None
        self._continues = self._resumes = self.is_paused = False
        return Beginning(due, begun, is_continuation)

    def end_run(
        self,
        run: Beginning,
        end: RunEnd | None,
        waiting: Sequence[InputEntry],
        *,
        is_fenced: bool,
    ) -> None:
        """Take in that a run is over; *end* None: by a bug. *waiting*: the input now.

        *is_fenced*: somebody interrupted it. What it was for and could not be
        delivered is held: a full disk is not asked again and again.
        """
        self.is_paused = is_paused(end)
        is_finished = end is not None and end.outcome == "finished"
        self._is_behind_run = is_finished and not is_fenced
        due = {entry.input for entry in run.due}
        stuck = {entry.input for entry in waiting if entry.input in due}
        is_stuck = not is_finished and not self.is_paused
        self._held = self._held | stuck if is_stuck else frozenset()

    def begin_after_run(self) -> None:
        """Take in that what a run left is looked at."""
        self._is_behind_run = False

    def want_continuation(self) -> None:
        """Have the model asked to continue, unless input comes first."""
        self._continues = True


def is_paused(end: RunEnd | None) -> bool:
    """Whether a run that ended so can be resumed because somebody paused it."""
    return end is not None and end.interrupted and end.outcome == "yielded"
