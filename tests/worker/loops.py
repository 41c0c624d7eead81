"""A turn with prepared answers."""

from collections.abc import Callable, Sequence
from decimal import Decimal

import trio

from pod.events import PodLive
from tests.fakes import (
    FakeTool,
    Heard,
    MemoryHistory,
    Step,
    StepClient,
)
from tests.turns import MODEL, done, setup_for
from tools.base import Tool
from worker.endings import (
    Ending,
    Yielded,
)
from worker.events import Live
from worker.items import (
    Item,
    UserText,
)
from worker.limits import Limits, Spent
from worker.loop import run_turn
from worker.model import Model
from worker.occupancy import Occupancy
from worker.usage import Usage


def a_cent(model: str, usage: Usage) -> Decimal:
    return Decimal("0.01")


class Case:
    """One turn with prepared answers."""

    def __init__(
        self,
        *steps: tuple[Step, str] | Step,
        tools: Sequence[Tool] = (FakeTool("do", done),),
        limits: Limits = Limits(),  # noqa: B008  frozen
        price: Callable[[str, Usage], Decimal | None] = a_cent,
        history: MemoryHistory | None = None,
        model: Model = MODEL,
    ) -> None:
        self.client = StepClient(*steps)
        self.history = history or MemoryHistory(UserText(text="go"))
        self.heard = Heard()
        self.listen: Callable[[Live | PodLive], None] = self.heard
        self.spent = Spent()
        self.yields_at = 1_000
        self.setup = setup_for(
            self.client, tools, limits=limits, price=price, model=model
        )

    async def run(self) -> Ending:
        occupancy = Occupancy(
            model=self.setup.model,
            system=self.setup.system,
            specs=self.setup.specs,
            counter=self.setup.counter,
        )
        return await run_turn(
            self.setup,
            self.history,
            spent=self.spent,
            listen=self.listen,
            occupancy=occupancy,
            gate=self.gate,
        )

    async def gate(self) -> Yielded | None:
        await trio.lowlevel.checkpoint()
        if len(self.history.items) < self.yields_at:
            return None
        return Yielded(tokens=len(self.history.items))

    @property
    def added(self) -> list[Item]:
        return self.history.items[1:]
