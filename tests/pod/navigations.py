"""A session with branches, ready to be navigated in."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import trio

from pod.branch_summary.summary import Summarized, Summarizer
from pod.entries import (
    AnyEntry,
    FileDetails,
    ItemEntry,
    Known,
)
from pod.events import NavigateStart
from pod.hooks.hooks import Hooks
from pod.log import read_log
from pod.navigation import Navigation, navigate
from pod.session import Session
from tests.makers import said, user
from tests.pod.logs import HEADER
from worker.events import Warning
from worker.items import Item
from worker.limits import Spent
from worker.usage import Usage

USED = Usage(input=100, output=20)


class Fake:
    """Summarises a branch by naming its entries; *meanwhile* happens before that."""

    def __init__(
        self,
        *,
        error: Exception | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self.asked: list[tuple[list[str], str, bool]] = []
        self._error = error
        self._meanwhile = meanwhile

    async def summarize(
        self,
        entries: Sequence[AnyEntry],
        *,
        spent: Spent,
        instructions: str = "",
        replace_instructions: bool = False,
    ) -> Summarized:
        ids = [entry.id for entry in entries]
        self.asked.append((ids, instructions, replace_instructions))
        spent.charge(USED, Decimal("0.5"))
        await trio.lowlevel.checkpoint()
        self._meanwhile()
        if self._error is not None:
            raise self._error
        return Summarized(
            text=f"Did {' '.join(ids)}.",
            details=FileDetails(modified_files=("a.py",)),
            summarised=len(ids),
            left_out=0,
            model="m",
            seconds=1.5,
        )


class Case:
    """A session on which two ways lead on from the same answer.

    q1 - a1 - q2 - a2 and, from a1, q3 - a3: the names are attributes, the leaf is
    at a3.
    """

    def __init__(self, path: Path) -> None:
        self.session = Session.create(path, HEADER)
        self.told: list[NavigateStart | Warning] = []
        self.q1 = self.add(user("q1"))
        self.a1 = self.add(said("a1"))
        self.q2 = self.add(user("q2"))
        self.a2 = self.add(said("a2"))
        self.session.navigate(self.a1)
        self.q3 = self.add(user("q3"))
        self.a3 = self.add(said("a3"))

    def add(self, item: Item) -> str:
        [entry] = self.session.append(ItemEntry(item=item))
        return entry.id

    async def go(
        self,
        target: str | None,
        *,
        summarize: bool = False,
        instructions: str = "",
        replace_instructions: bool = False,
        label: str = "",
        hooks: Hooks | None = None,
        summarizer: Summarizer | None = None,
        abort: trio.CancelScope | None = None,
    ) -> Navigation:
        return await navigate(
            self.session,
            target,
            summarize=summarize,
            instructions=instructions,
            replace_instructions=replace_instructions,
            label=label,
            hooks=hooks,
            summarizer=summarizer,
            tell=self.told.append,
            abort=abort,
        )

    def written(self) -> list[AnyEntry]:
        assert self.session.path is not None
        return list(read_log(self.session.path).entries)

    def of(self, kind: type[Known]) -> list[AnyEntry]:
        return [entry for entry in self.written() if isinstance(entry, kind)]
