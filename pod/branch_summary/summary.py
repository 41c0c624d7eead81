"""What a branch summary consists of, and who writes one."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from pod.entries import AnyEntry, FileDetails
from worker.limits import Spent


class Summarized(Struct, frozen=True):
    """A branch summary, who wrote it, and how long it took."""

    text: str
    details: FileDetails
    summarised: int
    left_out: int
    model: str
    seconds: float


class Summarizer(Protocol):
    """Writes the summary of a branch."""

    async def summarize(
        self,
        entries: Sequence[AnyEntry],
        *,
        spent: Spent,
        instructions: str = "",
        replace_instructions: bool = False,
    ) -> Summarized:
        """Return the summary of *entries*.

        What it uses is charged to *spent*, whatever comes of it, a cancel too.
        Raises NavigationRefused or NavigationMissed where no summary does.
        """
