"""A request can be broken off by itself; the turn asks its gate and goes on."""

import trio

from tests.fakes import FakeTool, MemoryHistory, StepClient, called, said
from tests.turns import done, setup_for
from tools.base import Call, ToolOutput
from worker.client import Failure
from worker.endings import Finished, Held
from worker.history import faults
from worker.items import FromModel, ToolResult, UserText
from worker.limits import Spent
from worker.loop import run_turn
from worker.occupancy import Occupancy
from worker.sending import Sending


class Turn:
    """A turn whose gate halts it while its requests are broken off."""

    def __init__(self, client: StepClient, tool: FakeTool | None = None) -> None:
        self.client = client
        self.sending = Sending()
        self.history = MemoryHistory(UserText(text="go"))
        self._setup = setup_for(client, [tool or FakeTool("do", done)])

    async def run(self) -> object:
        return await run_turn(
            self._setup,
            self.history,
            spent=Spent(),
            listen=lambda event: None,
            occupancy=Occupancy(
                model=self._setup.model,
                system=self._setup.system,
                specs=self._setup.specs,
                counter=self._setup.counter,
            ),
            gate=self._gate,
            sending=self.sending,
        )

    async def _gate(self) -> Held | None:
        return Held() if self.sending.is_off else None


async def test_a_request_that_is_broken_off_leaves_nothing_and_is_sent_again() -> None:
    reached = trio.Event()

    async def never() -> list[FromModel]:
        reached.set()
        await trio.sleep_forever()
        raise AssertionError

    turn = Turn(StepClient(never, [said("done")]))
    async with trio.open_nursery() as nursery:

        async def break_off() -> None:
            await reached.wait()
            turn.sending.break_off()

        nursery.start_soon(break_off)
        assert await turn.run() == Held()
    assert turn.history.items == [UserText(text="go")]

    turn.sending.allow()

    assert await turn.run() == Finished("done")
    first, again = turn.client.requests
    assert again.messages == first.messages


async def test_while_requests_are_broken_off_none_goes_out() -> None:
    turn = Turn(StepClient())
    turn.sending.break_off()

    assert await turn.run() == Held()
    assert turn.client.requests == []


async def test_a_wait_for_a_retry_is_broken_off(
    mock_clock: trio.testing.MockClock,
) -> None:
    turn = Turn(StepClient(Failure("overloaded", "busy", status=529)))
    async with trio.open_nursery() as nursery:

        async def break_off() -> None:
            await trio.testing.wait_all_tasks_blocked()
            turn.sending.break_off()

        nursery.start_soon(break_off)
        assert await turn.run() == Held()


async def test_tools_are_never_broken_off() -> None:
    async def work(call: Call) -> ToolOutput:
        turn.sending.break_off()
        await trio.lowlevel.checkpoint()
        return ToolOutput(summary="worked")

    turn = Turn(StepClient([called("a")]), FakeTool("do", work))

    assert await turn.run() == Held()
    last = turn.history.items[-1]
    assert isinstance(last, ToolResult)
    assert last.summary == "worked"
    assert faults(turn.history.items) == []
