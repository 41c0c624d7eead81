"""What somebody wants of a run before its next request: a halt, or a compaction."""

from pod.compaction.job import ABORTED, Ended, Outcome, Skipped
from pod.compaction.watch import ContextWatch
from pod.ending import Stop
from pod.entries import Mode
from pod.errors import Busy, LogFailed
from pod.promise import Promise
from worker.limits import Spent
from worker.sending import Sending


class Stopped(Exception):
    """A compaction was stopped by hand; *why* says how.

    *ended* is its end in the log, None where it had not begun.
    """

    def __init__(self, why: Stop, ended: Ended | None = None) -> None:
        super().__init__(why)
        self.why: Stop = why
        self.ended = ended


class _Wish:
    """A compaction that somebody waits for."""

    def __init__(self, instructions: str, mode: Mode | None) -> None:
        self.instructions = instructions
        self.mode: Mode | None = mode
        self.outcome = Promise[Outcome]()
        self.is_begun = False


class Halts:
    """Keeps what is wanted of the run that is under way; one compaction at most."""

    def __init__(self) -> None:
        self.sending = Sending()
        """The run's requests, which a pause breaks off."""
        self._wish: _Wish | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether the run is to halt before its next request."""
        return self.sending.is_off or self._wish is not None

    @property
    def is_pause(self) -> bool:
        """Whether it is to end there, to be resumed."""
        return self.sending.is_off

    def ask(self, instructions: str, mode: Mode | None) -> Promise[Outcome]:
        """Take in that a compaction is wanted. Raises Busy."""
        if self._wish is not None:
            raise Busy(
                "a compaction is asked for already; it comes before the next request"
            )
        self._wish = _Wish(instructions, mode)
        return self._wish.outcome

    def take_back(self) -> bool:
        """Let go of the compaction that is wanted and has not begun; whether one was."""
        if self._wish is None:
            return False
        self._wish.outcome.keep(Skipped("aborted", ABORTED))
        self._wish = None
        return True

    async def compact(self, watch: ContextWatch, spent: Spent) -> None:
        """Do the compaction that is wanted, if one is.

        Cancelled, it leaves telling of that to clear(). Raises LogFailed.
        """
        if (wish := self._wish) is None:
            return
        wish.is_begun = True
        try:
            outcome = await watch.by_hand(
                spent, instructions=wish.instructions, mode=wish.mode
            )
        except LogFailed as error:
            wish.outcome.fail(error)
            raise
        self._wish = None
        wish.outcome.keep(outcome)

    def clear(self, why: Stop, ended: Ended | None) -> None:
        """Take in that the run is over; *ended* is how its last compaction ended."""
        self.sending.allow()
        if self._wish is not None:
            self._wish.outcome.fail(
                Stopped(why, ended if self._wish.is_begun else None)
            )
            self._wish = None
