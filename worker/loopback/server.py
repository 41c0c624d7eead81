"""The Messages API on loopback: real HTTP/1.1 and real event streams.

One nursery, one task a connection. What the server says is decided by
engine.py and faults.py; here it is read, sent and waited for. A client that
goes away or speaks no HTTP ends its own connection only. A policy that raises
anything but ProviderError is a bug of the test and ends the server with it.
"""

import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf
from urllib.parse import urlsplit

import h11
import msgspec
import trio
from msgspec import Struct

from worker.api import Request
from worker.client import ProviderError, Response
from worker.encode import decode_request
from worker.items import AssistantText
from worker.loopback import catalogue, rules
from worker.loopback.answers import message_of, stream_of
from worker.loopback.engine import KEY, Engine
from worker.loopback.faults import (
    NONE,
    Fault,
    Faults,
    Status,
    comes_first,
    fault_of,
)
from worker.loopback.plan import (
    Close,
    End,
    Head,
    Send,
    Step,
    Wait,
    plan,
    plan_reply,
)
from worker.loopback.refusal import Refusal, Refused
from worker.loopback.rules import Served
from worker.policy import Policy

_READ = 1 << 16
_FLUSH = 1 << 14
# A body that is too long is read to its end, or the client would see a reset
# instead of the answer; up to here.
_DRAINED = 4 * rules.MAX_BODY_BYTES


class Received(Struct, frozen=True):
    """A request as it came. Header names are lower case, the query is cut off."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    request: Request | None = None
    """What it asks, for ``POST /v1/messages`` that can be read."""

    @property
    def is_call(self) -> bool:
        """Whether it asks for an answer of the model."""
        return self.path == "/v1/messages" and self.method == "POST"


class Server:
    """A server that runs; ``serve`` makes one.

    *base_url* has no slash at its end. *received* has every request, in the
    order in which they had come whole.
    """

    def __init__(
        self,
        engine: Engine,
        base_url: str,
        *,
        api_key: str,
        faults: Faults,
        interleave: bool,
    ) -> None:
        self._engine = engine
        self._api_key = api_key
        self._faults = faults
        self._interleave = interleave
        self.base_url = base_url
        self.received: list[Received] = []

    @property
    def requests(self) -> list[Received]:
        """The calls of ``POST /v1/messages`` so far, refused ones included."""
        return [received for received in self.received if received.is_call]

    async def talk_to(self, stream: trio.SocketStream) -> None:
        """Serve one connection until it ends."""
        talk = _Talk(stream)
        try:
            while (request := await talk.receive_request()) is not None:
                await self._exchange(talk, request)
                if not talk.start_next_cycle():
                    break
        except h11.RemoteProtocolError as error:
            await talk.refuse(error)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone
        finally:
            # Not aclose(): a checkpoint here could replace what is on its way.
            stream.socket.close()

    async def _exchange(self, talk: "_Talk", head: h11.Request) -> None:
        body = await talk.receive_body()
        received = _received(head, body or b"")
        self.received.append(received)
        request_id = f"req_{len(self.received):06}"
        if body is None:
            await talk.perform(_refusal(rules.too_large(), request_id))
        else:
            await talk.perform(self._answer(received, request_id))

    def _answer(self, received: Received, request_id: str) -> list[Step]:
        fault: Fault | None = None
        if received.is_call:
            fault = self._faults.of(len(self.requests), received.request)
            if comes_first(fault):
                return plan([], fault, request_id)
        refusal = rules.check_headers(received.headers, self._api_key)
        if refusal is not None:
            return _refusal(refusal, request_id)
        try:
            if received.is_call:
                return self._message(received, fault, request_id)
            return plan_reply(self._other(received), None, request_id)
        except Refused as refused:
            return _refusal(refused.refusal, request_id)

    def _message(
        self, received: Received, fault: Fault | None, request_id: str
    ) -> list[Step]:
        admitted = self._engine.admit(received.body)
        refusal = rules.check_betas(admitted.body, received.headers)
        if refusal is not None:
            return _refusal(refusal, request_id)
        request = received.request
        if request is None:
            raise AssertionError("a request that breaks no rule can be read")
        try:
            response = self._engine.answer(admitted, request)
        except ProviderError as error:
            response, fault = _SPOILED, fault_of(error.failure)
        if not admitted.body.stream:
            return plan_reply(message_of(response), fault, request_id)
        events = stream_of(response, interleave=self._interleave)
        return plan(events, fault, request_id)

    def _other(self, received: Received) -> bytes:
        match received.method, received.path.strip("/").split("/"):
            case "POST", ["v1", "messages", "count_tokens"]:
                return catalogue.count(self._engine.count(received.body))
            case "GET", ["v1", "models"]:
                return catalogue.models(self._engine.models)
            case "GET", ["v1", "models", name]:
                return catalogue.model(self._engine.model(name))
            case _, ["v1", "messages"] | ["v1", "messages", "count_tokens"]:
                raise Refused(Refusal(405, "Method Not Allowed"))
            case _:
                raise Refused(Refusal(404, "Not Found"))


# What a fault of the stream spoils where the policy itself has raised it.
_SPOILED = Response(
    message_id="msg_broken",
    model="broken",
    items=(AssistantText("This answer breaks off.", "msg_broken"),),
    stop_reason="end_turn",
)


def _refusal(refusal: Refusal, request_id: str) -> list[Step]:
    headers = (("x-should-retry", "false"),)
    fault = Status(refusal.status, refusal.message, headers=headers)
    return plan_reply(b"", fault, request_id)


def _received(head: h11.Request, body: bytes) -> Received:
    path = urlsplit(head.target.decode("latin-1")).path
    method = head.method.decode("latin-1")
    request: Request | None = None
    if path == "/v1/messages":
        try:
            request = decode_request(body)
        except msgspec.DecodeError:
            request = None
    headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in head.headers}
    return Received(method, path, headers, body, request)


class _Talk:
    """One connection: h11's state and the socket under it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._wire = h11.Connection(h11.SERVER)

    async def receive_request(self) -> h11.Request | None:
        """Return the next request's head, or None where the client is done."""
        event = await self._next()
        return event if isinstance(event, h11.Request) else None

    async def receive_body(self) -> bytes | None:
        """Return the body; None where it was too long (it is read to its end)."""
        if self._wire.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            await self._stream.send_all(self._wire.send(go_on) or b"")
        parts: list[bytes] = []
        size = 0
        while isinstance(event := await self._next(), h11.Data):
            size += len(event.data)
            if size <= rules.MAX_BODY_BYTES:
                parts.append(bytes(event.data))
            if size > _DRAINED:
                raise trio.BrokenResourceError("a body without end")
        return b"".join(parts) if size <= rules.MAX_BODY_BYTES else None

    async def perform(self, steps: Sequence[Step]) -> None:
        """Carry out a plan; what can be is sent together."""
        pending = bytearray()
        for step in steps:
            match step:
                case Head():
                    pending += self._wire.send(_response(step)) or b""
                case Send():
                    pending += self._wire.send(h11.Data(data=step.data)) or b""
                case End():
                    pending += self._wire.send(h11.EndOfMessage()) or b""
                case Wait():
                    await self._flush(pending)
                    await self._wait(step.seconds)
                case Close():
                    await self._flush(pending)
                    self._close(reset=step.reset)
            if len(pending) >= _FLUSH:
                await self._flush(pending)
        await self._flush(pending)

    async def refuse(self, error: h11.RemoteProtocolError) -> None:
        """Tell a client that speaks no HTTP, where that is still possible."""
        if self._wire.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        try:
            status = error.error_status_hint
            head = Head(status, (("connection", "close"),), 0)
            await self.perform([head, End()])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    def start_next_cycle(self) -> bool:
        """Get ready for another request; whether there may be one."""
        if self._wire.our_state is not h11.DONE:
            return False
        if self._wire.their_state is not h11.DONE:
            return False
        self._wire.start_next_cycle()
        return True

    async def _next(self) -> object:
        while True:
            event = self._wire.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._wire.receive_data(await self._stream.receive_some(_READ))

    async def _flush(self, pending: bytearray) -> None:
        if pending:
            await self._stream.send_all(bytes(pending))
            pending.clear()

    async def _wait(self, seconds: float | None) -> None:
        """Wait, and notice when the client goes (it may send meanwhile)."""
        with trio.move_on_after(inf if seconds is None else seconds):
            while data := await self._stream.receive_some(_READ):
                self._wire.receive_data(data)
            raise trio.BrokenResourceError("the client has gone")

    def _close(self, *, reset: bool) -> None:
        if reset:
            # A lingering time of zero has the kernel send a reset.
            linger = struct.pack("ii", 1, 0)
            self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        raise trio.BrokenResourceError("the plan ends the connection")


def _response(head: Head) -> h11.Response:
    headers = list(head.headers)
    if head.length is None:
        headers.append(("transfer-encoding", "chunked"))
    else:
        headers.append(("content-length", str(head.length)))
    return h11.Response(status_code=head.status, headers=headers)


@asynccontextmanager
async def serve(
    policy: Policy,
    *,
    models: Sequence[Served] | None = None,
    window: int = 200_000,
    api_key: str = "loopback",
    faults: Faults = NONE,
    interleave: bool = False,
    key: bytes = KEY,
    host: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[Server]:
    """Serve *policy* while the block runs; the server is listening inside it.

    *models* are the models there are (None: every ``claude-…`` id, with
    *window* tokens), *key* signs thinking, *interleave* mixes the blocks of
    parallel calls in a stream. Port 0 takes a free one: see ``base_url``.
    Raises OSError where the port is taken.
    """
    listeners = await trio.open_tcp_listeners(port, host=host)
    taken = listeners[0].socket.getsockname()[1]
    server = Server(
        Engine(policy, models=models, window=window, key=key),
        f"http://{host}:{taken}",
        api_key=api_key,
        faults=faults,
        interleave=interleave,
    )
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.talk_to, listeners)
        try:
            yield server
        except Exception as error:  # noqa: BLE001  raised again below, bare
            failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
