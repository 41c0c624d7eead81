"""What a branch summary consists of, and who writes one."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol

from msgspec import Struct

from pod.entries import AnyEntry, FileDetails
from worker.usage import Usage


class Summarized(Struct, frozen=True):
    """A branch summary, and what it took. *cost* None: the price is not known."""

    text: str
    details: FileDetails
    summarised: int
    left_out: int
    model: str
    usage: Usage
    cost: Decimal | None
    seconds: float


class Summarizer(Protocol):
    """Writes the summary of a branch."""

    async def summarize(
        self,
        entries: Sequence[AnyEntry],
        *,
        instructions: str = "",
        replace_instructions: bool = False,
    ) -> Summarized:
        """Raise NavigationRefused or NavigationMissed where none comes of it."""
