"""A summary endpoint on this machine, over real HTTP: answers as a test tells it to."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import h11
import msgspec
import trio
from msgspec import Struct

Answer = tuple[int, dict[str, str], bytes]


class Order(Struct, rename="camel", forbid_unknown_fields=True):
    """What it is sent."""

    system_prompt: str
    prompt: str


Decide = Callable[[Order], Answer]


def summary(text: str) -> Answer:
    return 200, {}, msgspec.json.encode({"summary": text, "model": "m"})


class SummaryServer:
    """Answers each POST as *decide* says; None never answers."""

    def __init__(self, decide: Decide | None) -> None:
        self._decide = decide
        self.orders: list[Order] = []
        self.targets: list[str] = []
        self.url = ""

    async def talk(self, stream: trio.SocketStream) -> None:
        wire = h11.Connection(h11.SERVER)
        body = bytearray()
        with stream.socket:
            while True:
                match wire.next_event():
                    case h11.NEED_DATA:
                        wire.receive_data(await stream.receive_some(65_536))
                    case h11.Request(target=target):
                        self.targets.append(target.decode())
                    case h11.Data(data=data):
                        body += data
                    case h11.EndOfMessage():
                        await self._answer(wire, stream, bytes(body))
                        return
                    case _:
                        return

    async def _answer(
        self, wire: h11.Connection, stream: trio.SocketStream, body: bytes
    ) -> None:
        order = msgspec.json.decode(body, type=Order)
        self.orders.append(order)
        if self._decide is None:
            await trio.sleep_forever()
            return
        status, headers, data = self._decide(order)
        head = h11.Response(
            status_code=status,
            headers=[
                *headers.items(),
                ("content-length", str(len(data))),
                ("connection", "close"),
            ],
        )
        sent = [
            wire.send(head),
            wire.send(h11.Data(data)),
            wire.send(h11.EndOfMessage()),
        ]
        with suppress(trio.BrokenResourceError):  # who asked may have read enough
            await stream.send_all(b"".join(part or b"" for part in sent))


@asynccontextmanager
async def summary_server(decide: Decide | None) -> AsyncIterator[SummaryServer]:
    server = SummaryServer(decide)
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    server.url = f"http://127.0.0.1:{port}/summary"
    failed: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.talk, [listener])
        try:
            yield server
        except Exception as error:  # noqa: BLE001  raised again below, bare
            failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
