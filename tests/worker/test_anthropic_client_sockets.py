"""The real SDK client over raw sockets: what breaks, and what is left of it."""

import gzip
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from socket import SO_LINGER, SOL_SOCKET

import pytest
import trio

from tests.worker.answers import ANSWER, HELLO, REQUEST, START, text_delta
from worker.anthropic_client import AnthropicClient
from worker.client import Delta, Failure, FailureKind, ProviderError

Play = Callable[[trio.SocketStream], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_1\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def read_request(stream: trio.SocketStream) -> bytes:
    """Read one request, b"" at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some()
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    (length,) = (
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += await stream.receive_some()
    return data


async def answer_well(stream: trio.SocketStream) -> None:
    """Answer every request of the connection, as a healthy server does."""
    while await read_request(stream):
        await stream.send_all(CHUNKED + chunk(ANSWER) + b"0\r\n\r\n")


async def send_and_close(data: bytes, stream: trio.SocketStream) -> None:
    await read_request(stream)
    await stream.send_all(data)


async def send_and_reset(data: bytes, stream: trio.SocketStream) -> None:
    await send_and_close(data, stream)
    stream.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))


async def send_and_wait(data: bytes, stream: trio.SocketStream) -> None:
    await read_request(stream)
    await stream.send_all(data)
    await stream.receive_some()  # until the client goes


async def send_bytewise(data: bytes, stream: trio.SocketStream) -> None:
    await read_request(stream)
    for at in range(len(data)):
        await stream.send_all(data[at : at + 1])
        await trio.lowlevel.checkpoint()


async def close_at_once(stream: trio.SocketStream) -> None:
    pass


class Server:
    """Plays the n-th of *plays* on the n-th connection, the last one ever after."""

    def __init__(self, url: str, plays: list[Play]) -> None:
        self.url = url
        self.connections = 0
        self._plays = plays

    async def serve(self, stream: trio.SocketStream) -> None:
        play = self._plays[min(self.connections, len(self._plays) - 1)]
        self.connections += 1
        with suppress(trio.BrokenResourceError):  # the client may go first
            await play(stream)
        await trio.aclose_forcefully(stream)


@asynccontextmanager
async def serving(*plays: Play) -> AsyncIterator[Server]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    server = Server(f"http://127.0.0.1:{port}", list(plays))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        yield server
        nursery.cancel_scope.cancel()


def ignore(delta: Delta) -> None:
    pass


def client(url: str, *, idle: float = 0.2, key: str = "k") -> AnthropicClient:
    return AnthropicClient(api_key=key, base_url=url, idle_timeout=idle)


async def failure(opened: AnthropicClient) -> Failure:
    with pytest.raises(ProviderError) as caught:
        await opened.ask(REQUEST, ignore)
    return caught.value.failure


HALF = CHUNKED + chunk(START + text_delta("Hel"))


@pytest.mark.parametrize(
    ("play", "kind"),
    [
        (close_at_once, "connection"),
        (partial(send_and_close, b""), "connection"),
        (partial(send_and_close, b"HTTP/1.1 200 OK\r\ncontent-ty"), "connection"),
        (partial(send_and_close, b"\x16\x03\x01 SSH-2.0 \0\0\r\n\r\n"), "connection"),
        (partial(send_and_wait, b""), "timeout"),
        (partial(send_and_wait, b"HTTP/1.1 200"), "timeout"),
        (partial(send_and_wait, CHUNKED), "timeout"),
        (partial(send_and_wait, HALF), "timeout"),
        (partial(send_and_close, HALF), "connection"),
        (partial(send_and_reset, HALF), "connection"),
        (partial(send_and_close, HALF + b"zz\r\n"), "connection"),
        (partial(send_and_close, HALF + b"0\r\n\r\n"), "truncated"),
        (partial(send_and_close, OK + b"\r\n" + START), "truncated"),
        (partial(send_and_close, OK + b"content-length: 0\r\n\r\n"), "not_a_stream"),
        (
            partial(
                send_and_close,
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>hello",
            ),
            "not_a_stream",
        ),
        (
            partial(
                send_and_close,
                OK + b"content-encoding: gzip\r\n\r\nthis is not gzip",
            ),
            "garbled",
        ),
        (
            partial(
                send_and_wait,
                b"HTTP/1.1 529 \r\ncontent-length: 100\r\n\r\n{half a body",
            ),
            "overloaded",
        ),
        (
            partial(send_and_close, b"HTTP/1.1 502 Bad Gateway\r\n\r\n<h1>oh</h1>"),
            "server",
        ),
    ],
)
async def test_every_break_has_its_kind_and_the_client_goes_on(
    play: Play, kind: FailureKind
) -> None:
    async with serving(play, answer_well) as server, client(server.url) as opened:
        found = await failure(opened)
        after = await opened.ask(REQUEST, ignore)

    assert found.kind == kind
    assert after == HELLO


async def test_what_had_come_before_a_cut_is_kept() -> None:
    play = partial(send_and_reset, HALF)

    async with serving(play) as server, client(server.url) as opened:
        found = await failure(opened)

    assert found.usage is not None
    assert found.request_id == "req_1"


async def test_nobody_listening_is_a_failure_of_the_connection() -> None:
    async with serving(answer_well) as server:
        url = server.url

    async with client(url) as opened:
        found = await failure(opened)

    assert found.kind == "connection"
    assert "cannot be reached" in found.message


@pytest.mark.parametrize("url", ["localhost:1/x", "gateway", "ftp://x"])
async def test_a_base_url_that_is_none_is_said_to_be(url: str) -> None:
    with pytest.raises(ProviderError) as caught:
        async with client(url) as opened:
            await opened.ask(REQUEST, ignore)

    assert caught.value.failure.kind == "invalid"


async def test_an_answer_may_come_byte_by_byte() -> None:
    play = partial(send_bytewise, CHUNKED + chunk(ANSWER) + b"0\r\n\r\n")

    async with serving(play) as server, client(server.url, idle=5) as opened:
        assert await opened.ask(REQUEST, ignore) == HELLO


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        (b"gzip", gzip.compress(ANSWER)),
        (b"deflate", zlib.compress(ANSWER)),
    ],
)
async def test_a_server_that_packs_unasked_is_understood(
    encoding: bytes, packed: bytes
) -> None:
    head = CHUNKED[:-2] + b"content-encoding: %s\r\n\r\n" % encoding
    halves = chunk(packed[:40]) + chunk(packed[40:])
    play = partial(send_and_close, head + halves + b"0\r\n\r\n")

    async with serving(play) as server, client(server.url) as opened:
        assert await opened.ask(REQUEST, ignore) == HELLO


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with serving(answer_well) as server, client(server.url) as opened:
        answers = [await opened.ask(REQUEST, ignore) for _ in range(3)]

    assert answers == [HELLO] * 3
    assert server.connections == 1


async def test_a_stream_left_open_after_its_last_event_does_not_hang() -> None:
    play = partial(send_and_wait, CHUNKED + chunk(ANSWER))

    async with serving(play) as server, client(server.url, idle=90) as opened:
        with trio.fail_after(30):
            assert await opened.ask(REQUEST, ignore) == HELLO


async def test_a_cut_after_the_last_event_costs_nothing() -> None:
    play = partial(send_and_reset, CHUNKED + chunk(ANSWER))

    async with serving(play) as server, client(server.url) as opened:
        assert await opened.ask(REQUEST, ignore) == HELLO


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200", CHUNKED, HALF, b"HTTP/1.1 500 Oh\r\n\r\nbut"]
)
async def test_cancelled_at_any_time_the_client_goes_on(sent: bytes) -> None:
    stuck = trio.Event()
    gone = trio.Event()

    async def play(stream: trio.SocketStream) -> None:
        await read_request(stream)
        await stream.send_all(sent)
        stuck.set()
        with suppress(trio.BrokenResourceError):  # reset instead of closed
            await stream.receive_some()
        gone.set()

    async with (
        serving(play, answer_well) as server,
        client(server.url, idle=90) as opened,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(opened.ask, REQUEST, ignore)
        await stuck.wait()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        with trio.fail_after(30), trio.CancelScope(shield=True):
            await gone.wait()

    assert server.connections == 1


async def test_a_cancelled_request_leaves_room_for_the_next() -> None:
    hung = partial(send_and_wait, HALF)

    async with serving(hung, answer_well) as server, client(server.url) as opened:
        with trio.move_on_after(0.05) as scope:
            await opened.ask(REQUEST, ignore)
        after = await opened.ask(REQUEST, ignore)

    assert scope.cancelled_caught
    assert after == HELLO


async def test_a_client_closes_under_cancellation() -> None:
    hung = partial(send_and_wait, HALF)

    async with serving(hung) as server:
        with trio.move_on_after(0.05):
            async with client(server.url, idle=90) as opened:
                await opened.ask(REQUEST, ignore)


async def test_many_requests_go_out_at_once() -> None:
    answers = []

    async def one() -> None:
        answers.append(await opened.ask(REQUEST, ignore))

    async with serving(answer_well) as server, client(server.url, idle=5) as opened:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(one)

    assert answers == [HELLO] * 20


@pytest.mark.parametrize("key", ["line\nbreak", "nul\0"])
async def test_a_key_no_header_can_hold_is_a_failure(key: str) -> None:
    async with (
        serving(answer_well) as server,
        client(server.url, key=key) as opened,
    ):
        found = await failure(opened)

    assert not found.is_transient
