"""What listeners of a real Pod see, whenever they come."""

from pathlib import Path

import pytest
import trio
import trio.testing

from pod.entries import DeliveredEntry, InputEntry, RunEnd, ToolStart
from pod.events import Closing, CompactDone, CompactStart, Context
from pod.protocol.client import Client, EventStream
from pod.protocol.reading import AnyEvent
from tests.pod.protocol.served_pods import serving
from worker.policy import Script, call, say


@pytest.fixture(autouse=True)
def _runtime(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))


class Ear:
    """Hears a Pod until it ends, and keeps the lines of durable events."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.events: list[AnyEvent] = []
        self.next_seq = 0

    async def hear(self, events: EventStream) -> None:
        async for event in events:
            self.events.append(event)
            if getattr(event, "seq", None):
                self.lines.append(events.line)
                self.next_seq = events.seq + 1

    async def start(self, client: Client, nursery: trio.Nursery) -> None:
        events = client.events(from_seq=self.next_seq)
        await events.begin()
        nursery.start_soon(self.hear, events)


async def run(client: Client) -> RunEnd:
    """Run a prompt to its end."""
    events = client.events(types=["result"])
    await events.begin()
    await client.prompt("go")
    async for event in events:
        if isinstance(event, RunEnd):
            return event
    raise AssertionError("the Pod has ended")


async def run_and_interrupt(client: Client) -> None:
    """Begin a run, and end it when its first tool has started."""
    events = client.events(types=["tool_start"])
    await events.begin()
    await client.prompt("go on")
    async for event in events:
        if isinstance(event, ToolStart):
            break
    await client.interrupt()


async def test_a_late_listener_sees_what_one_from_the_start_saw(short: Path) -> None:
    first, late = Ear(), Ear()

    async with serving(short) as client, trio.open_nursery() as nursery:
        await first.start(client, nursery)
        end = await run(client)
        await run_and_interrupt(client)
        session = client.snapshot.state.session
        await client.shutdown(now=True)
    async with serving(short, resume=session) as client, trio.open_nursery() as nursery:
        await first.start(client, nursery)
        await run(client)
        await late.start(client, nursery)
        await client.shutdown()

    compactions = [event for event in first.events if isinstance(event, CompactDone)]
    ends = [event for event in first.events if isinstance(event, RunEnd)]
    numbers = [event.seq for event in first.events if getattr(event, "seq", None)]  # type: ignore[union-attr]
    assert len(compactions) >= 3
    assert [end.reason for end in ends] == [end.reason, "interrupted", end.reason]
    assert numbers == list(range(1, len(numbers) + 1))
    assert late.lines == first.lines


async def test_a_listener_hears_how_full_the_context_is_and_what_is_done_about_it(
    short: Path,
) -> None:
    ear = Ear()

    async with serving(short) as client, trio.open_nursery() as nursery:
        await ear.start(client, nursery)
        await run(client)
        await client.shutdown()

    contexts = [event for event in ear.events if isinstance(event, Context)]
    after = [
        following
        for event, following in zip(ear.events, ear.events[1:], strict=False)
        if isinstance(event, CompactDone)
    ]
    starts = [event for event in ear.events if isinstance(event, CompactStart)]
    assert {(c.post_run_threshold, c.turn_threshold, c.window) for c in contexts} == {
        (20_000, 22_500, 60_000)
    }
    assert len([c for c in contexts if c.tokens is not None]) == 22
    assert [isinstance(e, Context) and e.tokens for e in after] == [None] * len(after)
    assert len(starts) == len(after) >= 2
    assert isinstance(ear.events[-1], Closing)


async def test_fifty_listeners_of_which_ten_never_read_hold_nothing_up(
    short: Path,
) -> None:
    ears = [Ear() for _ in range(40)]

    async with serving(short) as client, trio.open_nursery() as nursery:
        for ear in ears:
            await ear.start(client, nursery)
        silent = [client.events(from_seq=0, partial=True) for _ in range(10)]
        for events in silent:
            await events.begin()
        await run(client)
        await client.shutdown()

    assert len(ears[0].lines) > 90
    assert all(ear.lines == ears[0].lines for ear in ears)


async def test_inputs_of_the_same_text_are_told_apart_by_their_ids(short: Path) -> None:
    delivered: list[tuple[str, ...]] = []
    told: list[str] = []

    async with serving(short, Script([say("All done.")] * 3)) as client:
        events = client.events(types=["input", "delivered", "result"])
        await events.begin()
        given = [await client.follow_up("again") for _ in range(3)]
        ends = 0
        async for event in events:
            match event:
                case InputEntry():
                    told.append(event.input)
                case DeliveredEntry():
                    delivered.append(event.inputs)
                case _:
                    ends += isinstance(event, RunEnd)
            if ends == 3:
                break

    assert len(set(given)) == 3
    assert told == given
    assert delivered == [(input,) for input in given]


WAITS = '{"command": "while [ ! -e go ]; do sleep 0.01; done; echo gone"}'


async def test_a_paused_turn_outlives_the_pod_and_another_client_goes_on_with_it(
    short: Path,
) -> None:
    policy = Script([call(("c1", "bash", WAITS)), say("All done.")])

    async with serving(short, policy) as client:
        events = client.events(types=["tool_start", "status"])
        await events.begin()
        await client.prompt("go")
        async for event in events:
            if isinstance(event, ToolStart):
                break
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.pause)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await client.state()  # answered behind the pause, which has begun then
            await trio.Path(short / "go").touch()
        paused = await client.state()
        session = paused.session
    async with serving(short, policy, resume=session) as client:
        before = client.snapshot.state.state
        events = client.events(types=["result"])
        await events.begin()
        run = await client.resume()
        end = await anext(events)

    assert (paused.state, before) == ("paused", "paused")
    assert isinstance(end, RunEnd)
    assert (end.run, end.outcome, end.text) == (run, "finished", "All done.")
