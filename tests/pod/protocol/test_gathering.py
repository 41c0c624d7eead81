"""When events are given to those who listen."""

from collections.abc import Callable

import trio
import trio.testing
from trio.testing import MockClock

from pod.events import Status
from pod.protocol.gathering import EACH, GATHER, give_on
from pod.protocol.hub import Hub, Listener, Wanted
from pod.protocol.mailbox import Mailbox
from pod.protocol.snapshot import Following

Written = list[tuple[float, int]]
"""When something was written, and how many lines at once."""


def hub() -> Hub:
    return Hub(
        Following(session="s", seq=0, model="m", leaf=None, inputs=()),
        leaf=lambda: None,
        clock=lambda: "2026-01-01T00:00:00.000Z",
    )


def writer(written: Written) -> Callable[[bytes], int]:
    start = trio.current_time()

    def write(data: bytes) -> int:
        written.append((round(trio.current_time() - start, 6), data.count(b"\n")))
        return len(data)

    return write


def joined(publisher: Hub, written: Written) -> Listener:
    made = Listener("somebody", Mailbox(at_once=writer(written)))
    publisher.join(made)
    publisher.hear(made, Wanted())
    return made


async def test_the_first_event_comes_at_once_and_those_soon_after_it_together(
    autojump_clock: MockClock,
) -> None:
    publisher, written = hub(), Written()
    joined(publisher, written)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_on, publisher)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(5):
            publisher.live(Status("idle"))
            await trio.sleep(GATHER / 10)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert written == [(0, 1), (GATHER, 4)]


async def test_with_many_listeners_events_are_gathered_for_longer(
    autojump_clock: MockClock,
) -> None:
    publisher, written = hub(), Written()
    joined(publisher, written)
    for _ in range(49):
        joined(publisher, [])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_on, publisher)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            publisher.live(Status("idle"))
            await trio.sleep(GATHER)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert written == [(0, 1), (50 * EACH, 2)]


async def test_what_is_gathered_at_the_end_is_given_out(
    autojump_clock: MockClock,
) -> None:
    publisher, written = hub(), Written()
    joined(publisher, written)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_on, publisher)
        await trio.testing.wait_all_tasks_blocked()
        publisher.live(Status("idle"))
        await trio.sleep(GATHER / 2)
        publisher.live(Status("running"))
        nursery.cancel_scope.cancel()

    assert written == [(0, 1), (GATHER / 2, 1)]


async def test_two_do_not_do_it_at_once_and_the_next_one_may(
    autojump_clock: MockClock,
) -> None:
    publisher = hub()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_on, publisher)
        await trio.testing.wait_all_tasks_blocked()
        await give_on(publisher)
        nursery.cancel_scope.cancel()

    assert publisher.tell is None
