"""Who waits until a reader has everything."""

import trio
import trio.testing
from trio.testing import MockClock

from pod.protocol.mailbox import Mailbox


async def test_who_waits_for_a_reader_goes_on_when_it_has_everything(
    autojump_clock: MockClock,
) -> None:
    mailbox = Mailbox()
    mailbox.put(b"one\n")
    mailbox.put(b"two\n")
    waited: list[float] = []

    async def wait() -> None:
        await mailbox.drained()
        waited.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(wait)
        await trio.sleep(3)
        assert mailbox.take() == b"one\ntwo\n"
        await trio.sleep(4)
        mailbox.sent()

    assert waited == [start + 7]


async def test_nobody_waits_for_a_reader_that_is_gone(
    autojump_clock: MockClock,
) -> None:
    mailbox = Mailbox()
    mailbox.put(b"event\n")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.drained)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.close()
