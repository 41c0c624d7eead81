"""When lines are written, and who waits for that."""

import trio
import trio.testing
from trio.testing import MockClock

from pod.protocol.mailbox import GATHER, PIECE, Mailbox


async def write(mailbox: Mailbox, written: list[tuple[float, int]]) -> None:
    """Write as a connection does; keep when, and how many lines at once."""
    while True:
        if data := mailbox.take():
            written.append((trio.current_time(), data.count(b"\n")))
            await trio.lowlevel.checkpoint()
            mailbox.sent()
            await mailbox.gather()
        elif mailbox.is_closed:
            return
        else:
            await mailbox.wait()


async def test_what_comes_soon_after_is_written_together(
    autojump_clock: MockClock,
) -> None:
    mailbox, written = Mailbox(), list[tuple[float, int]]()
    start = trio.current_time()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, mailbox, written)
        for _ in range(5):
            mailbox.put(b"event\n")
            await trio.sleep(GATHER / 10)
        await trio.sleep(1)
        mailbox.close()

    assert [(at - start, lines) for at, lines in written] == [(0, 1), (GATHER, 4)]


async def test_an_answer_is_written_at_once_and_takes_along_what_waits(
    autojump_clock: MockClock,
) -> None:
    mailbox, written = Mailbox(), list[tuple[float, int]]()
    start = trio.current_time()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, mailbox, written)
        mailbox.put(b"event\n")
        await trio.sleep(GATHER / 4)
        mailbox.put(b"event\n")
        await trio.sleep(GATHER / 4)
        mailbox.put(b"answer\n", urgent=True)
        await trio.sleep(1)
        mailbox.close()

    assert [(at - start, lines) for at, lines in written] == [(0, 1), (GATHER / 2, 2)]


async def test_a_whole_piece_is_written_at_once(autojump_clock: MockClock) -> None:
    mailbox, written = Mailbox(), list[tuple[float, int]]()
    start = trio.current_time()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, mailbox, written)
        mailbox.put(b"event\n")
        await trio.sleep(GATHER / 4)
        mailbox.put(b"x" * PIECE + b"\n")
        await trio.sleep(1)
        mailbox.close()

    assert [(at - start, lines) for at, lines in written] == [(0, 1), (GATHER / 4, 1)]


async def test_a_run_that_waits_for_its_reader_is_not_held_up(
    autojump_clock: MockClock,
) -> None:
    mailbox, written = Mailbox(), list[tuple[float, int]]()
    start = trio.current_time()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, mailbox, written)
        for _ in range(3):
            mailbox.put(b"event\n")
            await mailbox.drained()
        waited = trio.current_time() - start
        mailbox.close()

    assert waited == 0
    assert len(written) == 3


async def test_nobody_waits_for_a_reader_that_is_gone(
    autojump_clock: MockClock,
) -> None:
    mailbox = Mailbox()
    mailbox.put(b"event\n")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.drained)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.close()
