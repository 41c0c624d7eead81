"""Lines to a reader that may be slow, stuck or gone: in order, or not at all."""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
import trio

from pod.outbox import LIVE_BYTES, Outbox
from pod.pipe import write_all

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = os.pipe()
    files = [os.fstat(end) for end in ends]
    yield ends
    for end, file in zip(ends, files, strict=True):
        # A test may have closed it, and its number may mean something else by now.
        with suppress(OSError):
            if os.path.samestat(os.fstat(end), file):
                os.close(end)


async def read_all(fd: int) -> bytes:
    def read() -> bytes:
        data = b""
        while chunk := os.read(fd, 65_536):
            data += chunk
        return data

    return await trio.to_thread.run_sync(read, abandon_on_cancel=True)


async def test_lines_come_out_whole_and_in_order(pipe: Pipe) -> None:
    read_end, write_end = pipe
    outbox = Outbox(write_end)
    lines = [b"%d %s\n" % (n, b"x" * (n * 37 % 5_000)) for n in range(300)]
    got = b""

    async def read() -> None:
        nonlocal got
        got = await read_all(read_end)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        async with trio.open_nursery() as writing:
            writing.start_soon(outbox.write)
            for number, line in enumerate(lines):
                outbox.put(line, live=number % 2 == 0)
                if number % 50 == 0:
                    await outbox.drain()
            await outbox.drain()
            writing.cancel_scope.cancel()
        os.close(write_end)

    assert got == b"".join(lines)


async def test_drain_waits_for_the_reader(pipe: Pipe) -> None:
    read_end, write_end = pipe
    outbox = Outbox(write_end)
    outbox.put(b"x" * 200_000, live=False)  # more than a pipe holds
    # Read to its end: a thread left behind would hold the next test's pipe open.
    async with trio.open_nursery() as reading:
        async with trio.open_nursery() as writing:
            writing.start_soon(outbox.write)
            with trio.move_on_after(0.05) as waited:
                await outbox.drain()
            assert waited.cancelled_caught

            reading.start_soon(read_all, read_end)
            with trio.fail_after(30):
                await outbox.drain()
            writing.cancel_scope.cancel()
        os.close(write_end)


async def test_nothing_put_is_nothing_to_wait_for(pipe: Pipe) -> None:
    with trio.fail_after(30):
        await Outbox(pipe[1]).drain()


async def test_a_gone_reader_breaks_it_and_whoever_waits_goes_on(pipe: Pipe) -> None:
    read_end, write_end = pipe
    outbox = Outbox(write_end)
    os.close(read_end)
    outbox.put(b"for nobody\n", live=False)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.drain)
            await outbox.write()
        outbox.put(b"nor this\n", live=False)
        await outbox.drain()

    assert outbox.broken


async def test_live_lines_are_left_out_where_too_much_waits_and_durable_never(
    pipe: Pipe,
) -> None:
    outbox = Outbox(pipe[1])
    half = b"x" * (LIVE_BYTES // 2)

    outbox.put(half, live=True)
    outbox.put(half, live=True)
    outbox.put(b"one more", live=True)
    outbox.put(half, live=False)
    outbox.put(b"and another", live=True)

    assert outbox.dropped == 2


def test_a_pipe_that_takes_nothing_now_is_waited_for(pipe: Pipe) -> None:
    read_end, write_end = pipe
    os.set_blocking(write_end, False)
    data = bytes(range(256)) * 4_000
    got = bytearray()

    def read() -> None:
        while len(got) < len(data):
            got.extend(os.read(read_end, 10_000))

    reader = threading.Thread(target=read)
    reader.start()
    write_all(write_end, data)
    reader.join(timeout=10)

    assert bytes(got) == data


def test_a_reader_that_goes_while_it_is_waited_for_is_an_error(pipe: Pipe) -> None:
    read_end, write_end = pipe
    os.set_blocking(write_end, False)

    def leave() -> None:
        os.read(read_end, 1)
        os.close(read_end)

    reader = threading.Thread(target=leave)
    reader.start()
    with pytest.raises(OSError, match="Broken pipe") as error:
        write_all(write_end, b"x" * 10_000_000)
    reader.join(timeout=10)

    assert error.value.errno == errno.EPIPE
