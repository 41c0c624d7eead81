"""What every way to make a summary has in common."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from pod.compaction.ground import Ground
from pod.compaction.summary import Summary
from pod.entries import CompactionCode, Mode
from worker.compact.summary_prompts import Brief
from worker.compact.task import CompactError, Progress
from worker.limits import Spent

if TYPE_CHECKING:
    from pod.compaction.compactor import Compactor


class Missed(Exception):
    """A rung gave nothing that could be used.

    *counts* says whether its circuit breaker counts it: what is the provider's
    fault does not.
    """

    def __init__(
        self, code: CompactionCode, message: str, *, counts: bool = False
    ) -> None:
        super().__init__(message)
        self.code: CompactionCode = code
        self.counts = counts


def missed(error: CompactError) -> Missed:
    return Missed(error.code, str(error), counts=error.counts)


class Errand(Struct, frozen=True):
    """What a strategy works with, besides the ground and the brief.

    *spent* is what the run used so far, *own* a fresh one for the rung itself.
    *tokens_after* gives the context's size with a summary, *under* is what it
    has to be smaller than. *progress* is told how far it is.
    *kept_data* is a JSON text that a hook wants kept, "" for none.
    """

    of: "Compactor"
    compaction_id: str
    spent: Spent
    own: Spent
    under: int
    kept_data: str
    tokens_after: Callable[[Summary, Ground], Awaitable[int]]
    progress: Callable[[Progress], None]


class Strategy(Protocol):
    """One way to make a summary."""

    @property
    def mode(self) -> Mode: ...

    @property
    def input_tokens(self) -> int:
        """Tokens that were sent, each once; 0 where nobody was asked."""

    async def summarise(self, start: Ground, brief: Brief) -> Summary:
        """Return the summary of what *start* summarises. Raises Missed."""
