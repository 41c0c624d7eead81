"""Bytes as they come, and the lines in them."""

import os
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given, strategies as st

from pod.protocol.link import Gone, LineReader, SocketLink, StreamsLink

MOST = 10


class Pieces:
    """Gives prepared pieces, then nothing."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = [piece for piece in pieces if piece]

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return self._pieces.pop(0) if self._pieces else b""


async def lines(*pieces: bytes) -> list[bytes | str]:
    reader = LineReader(Pieces(*pieces), MOST)
    found: list[bytes | str] = []
    while (line := await reader.next()) is not None:
        found.append(line)
    return found


@given(
    st.lists(
        st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"x" * 11, b"\xe2\x80\xa8"])
    ),
    st.integers(1, 30),
)
def test_lines_are_the_same_however_they_come(parts: list[bytes], size: int) -> None:
    text = b"".join(parts)
    *whole, last = text.split(b"\n")
    meant = [*whole, *([last] if last else [])]
    expected = [
        "too_long" if len(line.removesuffix(b"\r")) > MOST else line.removesuffix(b"\r")
        for line in meant
    ]

    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    found = trio.run(lines, *pieces)

    assert found == expected


async def test_a_line_that_is_too_long_is_not_kept_while_it_comes() -> None:
    reader = LineReader(Pieces(*[b"x" * 1_000] * 1_000, b"\nend\n"), MOST)

    assert await reader.next() == "too_long"
    assert await reader.next() == b"end"
    assert await reader.next() is None


async def test_a_reader_that_was_cancelled_goes_on_where_it_was() -> None:
    one, other = trio.socket.socketpair()
    link = SocketLink(other)
    reader = LineReader(link, MOST)
    with one:
        await one.send(b"hel")
        with trio.move_on_after(0.05):
            await reader.next()
        await one.send(b"lo\n")

        assert await reader.next() == b"hello"
    link.close()


async def test_a_socket_whose_other_end_has_gone_is_gone() -> None:
    one, other = trio.socket.socketpair()
    link = SocketLink(other)

    before = link.is_gone()
    one.shutdown(trio.socket.SHUT_WR)
    half = link.is_gone()
    one.close()

    assert (before, half, link.is_gone()) == (False, False, True)
    assert await link.receive() == b""
    with pytest.raises(Gone):
        await link.send(b"hello")
    link.close()
    link.close()
    assert link.is_gone()


async def test_closing_a_link_ends_who_waits_on_it() -> None:
    one, other = trio.socket.socketpair()
    link = SocketLink(other)
    got: list[bytes] = []

    async def read() -> None:
        got.append(await link.receive())

    with one:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            link.close()

    assert got == [b""]


@pytest.mark.parametrize("kind", ["pipe", "file"])
async def test_standard_streams_may_be_pipes_or_files(
    tmp_path: Path, kind: str
) -> None:
    if kind == "pipe":
        stdin, feed = os.pipe()
        os.write(feed, b"hello\n")
        os.close(feed)
    else:
        (tmp_path / "in").write_bytes(b"hello\n")
        stdin = os.open(tmp_path / "in", os.O_RDONLY)
    read, stdout = os.pipe()
    link = StreamsLink(stdin, stdout)

    came = [await link.receive(), await link.receive()]
    await link.send(b"back\n")
    went = os.read(read, 100)
    os.close(read)
    with pytest.raises(Gone):
        await link.send(b"more\n")

    assert (came, went) == ([b"hello\n", b""], b"back\n")
    assert link.is_gone()
    link.close()
    os.close(stdin)
    os.close(stdout)
