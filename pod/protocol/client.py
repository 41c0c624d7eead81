"""A client of a Pod: ``async with connect(path) as client``."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self, TypeVar

import msgspec
import trio

from pod.entries import Mode
from pod.events import Closing, Dropped, Standing
from pod.protocol.answers import (
    DATA,
    Aborted,
    Began,
    Compacted,
    Data,
    Entries,
    Forked,
    Navigated,
    Stands,
    Subscribed,
    Waits,
)
from pod.protocol.endpoint import check_path
from pod.protocol.link import Gone, LineReader, SocketLink
from pod.protocol.messages import (
    MAX_LINE,
    AbortCompaction,
    AnswerPermission,
    Compact,
    FollowUp,
    Fork,
    GetEntries,
    GetState,
    Interrupt,
    Navigate,
    Params,
    Pause,
    Prompt,
    Request,
    Resume,
    SetModel,
    Shutdown,
    Steer,
    Subscribe,
    encode_request,
    method_of,
)
from pod.protocol.reading import AnyEvent, BadMessage, Response, read, read_event
from pod.protocol.snapshot import PodState, Snapshot

LONGEST_LINE = 256 * 1024 * 1024
"""Bytes of one line that a client takes: an item may carry images."""

T = TypeVar("T", bound=Data)


class ClientError(Exception):
    """What goes wrong between a client and its Pod."""


class NotThere(ClientError):
    """No Pod listens there."""


class Disconnected(ClientError):
    """The connection broke; what the Pod does is not known."""


class RequestFailed(ClientError):
    """The Pod did not do what was asked; *code* says why, for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ReadTooSlowly(ClientError):
    """The Pod dropped this listener. A new one goes on from *next_seq*."""

    def __init__(self, message: str, next_seq: int) -> None:
        super().__init__(message)
        self.next_seq = next_seq


@asynccontextmanager
async def connect(path: str | Path) -> AsyncIterator["Client"]:
    """Connect to the Pod that listens on the socket *path*.

    Raises NotThere, and Disconnected where it ends before its first line.
    """
    where = Path(str(path).removeprefix("unix://"))
    wire = await _open(where)
    try:
        client = Client(where, wire, await wire.snapshot())
        try:
            yield client
        finally:
            client._close_events()
    finally:
        wire.close()


class Client:
    """One connection. Several tasks may use it at once.

    Every method raises RequestFailed where the Pod refuses, Disconnected where
    the connection breaks. *snapshot* is how things stood when it began.
    """

    def __init__(self, path: Path, wire: "_Wire", snapshot: Snapshot) -> None:
        self.path = path
        self.snapshot = snapshot
        self._wire = wire
        self._streams: list[EventStream] = []

    async def prompt(self, text: str) -> str:
        """Begin a run; return its id once it has begun."""
        return (await self._ask(Prompt(text), Began)).run

    async def steer(self, text: str) -> str:
        """Say *text* to the run under way; return the input's id."""
        return (await self._ask(Steer(text), Waits)).input

    async def follow_up(self, text: str) -> str:
        """Have *text* run when the run under way is over; return the input's id."""
        return (await self._ask(FollowUp(text), Waits)).input

    async def interrupt(self) -> Standing:
        """End what is under way; return what the Pod does once it is over."""
        return (await self._ask(Interrupt(), Stands)).state

    async def pause(self) -> Standing:
        """Stop the run so that it can be resumed; return what the Pod does then.

        That is ``idle`` where the run came to its end first.
        """
        return (await self._ask(Pause(), Stands)).state

    async def resume(self) -> str:
        """Go on with what was paused; return the id of the run that does."""
        return (await self._ask(Resume(), Began)).run

    async def compact(
        self, instructions: str = "", mode: Mode | None = None
    ) -> Compacted:
        """Compact now; return what came of it."""
        return await self._ask(Compact(instructions, mode), Compacted)

    async def abort_compaction(self) -> bool:
        """End the compaction under way; whether there was one."""
        return (await self._ask(AbortCompaction(), Aborted)).aborted

    async def navigate(
        self,
        target: str | None,
        *,
        summarize: bool | None = None,
        instructions: str = "",
        replace_instructions: bool = False,
        label: str = "",
    ) -> Navigated:
        """Put the leaf on the entry *target* (None: before all); see ``Navigate``."""
        way = Navigate(target, summarize, instructions, label, replace_instructions)
        return await self._ask(way, Navigated)

    async def fork(self, entry: str | None = None) -> str:
        """Copy the path to *entry* into a new session; return its id."""
        return (await self._ask(Fork(entry), Forked)).session

    async def set_model(self, model: str) -> None:
        await self.request(SetModel(model))

    async def state(self) -> PodState:
        return await self._ask(GetState(), PodState)

    async def entries(self, from_seq: int = 1, limit: int = 100) -> list[AnyEvent]:
        """Return durable events, from *from_seq* on, at most *limit*; maybe fewer."""
        found = await self._ask(GetEntries(from_seq, limit), Entries)
        return [read_event(bytes(each)) for each in found.events]

    async def answer_permission(
        self, call_id: str, *, allow: bool, message: str = ""
    ) -> None:
        """Say whether the call of a PermissionRequest may run."""
        await self.request(AnswerPermission(call_id, allow, message))

    async def shutdown(self, *, now: bool = False) -> None:
        """End the Pod when its run is over, or *now*."""
        await self.request(Shutdown(now))

    async def request(self, params: Params) -> Data:
        """Ask for *params*; return the answer."""
        return await self._wire.ask(params)

    def events(
        self,
        *,
        from_seq: int | None = None,
        types: Iterable[str] | None = None,
        partial: bool = False,
    ) -> "EventStream":
        """Return the Pod's events, as the structs they are, to be iterated over.

        Durable ones from *from_seq* on; None begins with those to come. *types*
        are the names of those wanted, None for all but the deltas, which
        *partial* adds. The stream has a connection of its own, so that reading it
        slowly holds up no request. It ends with the Pod.
        """
        names = None if types is None else tuple(types)
        stream = EventStream(self.path, Subscribe(from_seq, names, partial))
        self._streams = [each for each in self._streams if not each.is_over]
        self._streams.append(stream)
        return stream

    async def _ask(self, params: Params, kind: type[T]) -> T:
        data = await self.request(params)
        assert isinstance(data, kind)
        return data

    def _close_events(self) -> None:
        for stream in self._streams:
            stream.close()


class EventStream:
    """A Pod's events: ``async for event in stream``.

    An event that this version does not know is an UnknownEvent; fields that it
    does not know are left out. Raises ReadTooSlowly, Disconnected.
    """

    def __init__(self, path: Path, wanted: Subscribe) -> None:
        self._path = path
        self._wanted = wanted
        self._wire: _Wire | None = None
        self.is_over = False
        """Whether it was closed, or has ended; of a broken one, when it is closed."""
        self.line = b""
        """The line of the last event, as it came."""
        self.seq = (wanted.from_seq or 1) - 1
        """The number of the last durable event that came."""

    async def begin(self) -> Subscribed:
        """Subscribe now, rather than when the first event is asked for."""
        wire = self._wire = await _open(self._path)
        try:
            await wire.snapshot()
            subscribed = await wire.ask(self._wanted)
        except BaseException:
            self.close()  # nothing would ever come on it
            raise
        assert isinstance(subscribed, Subscribed)
        self.seq = subscribed.from_seq - 1
        return subscribed

    def close(self) -> None:
        """Hear no more; twice is fine."""
        self.is_over = True
        if self._wire is not None:
            self._wire.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AnyEvent:
        if self.is_over:
            raise StopAsyncIteration
        if self._wire is None:
            await self.begin()
        assert self._wire is not None
        self.line, event = await self._wire.next_event()
        if isinstance(event, Dropped):
            self.close()
            raise ReadTooSlowly(event.message, self.seq + 1)
        if isinstance(event, Closing):
            self.close()
        self.seq = getattr(event, "seq", None) or self.seq
        return event


class _Wire:
    """A connected socket: requests out, responses and events in.

    There is no task that reads: whoever waits for a response does, for all.
    """

    def __init__(self, socket: trio.socket.SocketType, path: Path) -> None:
        self._path = path
        self._link = SocketLink(socket)
        self._lines = LineReader(self._link, LONGEST_LINE)
        self._sending = trio.Lock()
        self._is_reading = False
        self._read = trio.Event()
        self._last_id = 0
        self._answers: dict[int, Response] = {}
        self._waiting: set[int] = set()

    async def snapshot(self) -> Snapshot:
        _, first = await self._line()
        if isinstance(first, Response) and first.error is not None:
            raise RequestFailed(first.error.code, first.error.message)
        if not isinstance(first, Snapshot):
            raise Disconnected(f"{self._path} does not begin with a snapshot: no Pod?")
        return first

    async def ask(self, params: Params) -> Data:
        self._last_id += 1
        id = self._last_id
        line = encode_request(Request(id, params))
        if len(line) > MAX_LINE:  # a Pod could not say which request it refuses
            raise RequestFailed(
                "too_large", f"a request has at most {MAX_LINE:,} bytes"
            )
        self._waiting.add(id)
        try:
            async with self._sending:
                await self._send(line)
            while id not in self._answers:
                await self._read_on()
            return _data(self._answers.pop(id), method_of(params))
        finally:
            self._waiting.discard(id)
            self._answers.pop(id, None)  # it came, and who asked was cancelled

    async def _send(self, line: bytes) -> None:
        try:
            await self._link.send(line)
        except Gone as gone:
            raise Disconnected(f"the Pod at {self._path}: {gone}") from None
        except BaseException:
            # A part of the line may be out: nothing that follows would be read.
            self._link.close()
            raise

    async def next_event(self) -> tuple[bytes, AnyEvent]:
        while True:
            line, found = await self._line()
            if not isinstance(found, Response):
                return line, found

    def close(self) -> None:
        self._link.close()

    async def _read_on(self) -> None:
        """Read a line, or wait until another task has."""
        if self._is_reading:
            await self._read.wait()
            return
        self._is_reading = True
        try:
            _, found = await self._line()
            if isinstance(found, Response) and found.id in self._waiting:
                assert isinstance(found.id, int)
                self._answers[found.id] = found
        finally:
            self._is_reading = False
            self._read.set()
            self._read = trio.Event()

    async def _line(self) -> tuple[bytes, AnyEvent | Response]:
        line = await self._lines.next()
        if line is None or line == "too_long":
            raise Disconnected(f"the Pod at {self._path} has closed the connection")
        try:
            return line, read(line)
        except BadMessage as error:
            raise Disconnected(f"the Pod at {self._path} sent {error}") from None


async def _open(path: Path) -> _Wire:
    check_path(path)
    socket = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    try:
        await socket.connect(str(path))
    except OSError as error:
        socket.close()
        raise NotThere(f"no Pod listens on {path}: {error.strerror}") from None
    except BaseException:
        socket.close()
        raise
    return _Wire(socket, path)


_decoders: dict[str, msgspec.json.Decoder[Data]] = {
    method: msgspec.json.Decoder(kind) for method, kind in DATA.items()
}


def _data(response: Response, method: str) -> Data:
    if response.error is not None:
        raise RequestFailed(response.error.code, response.error.message)
    try:
        return _decoders[method].decode(response.data)
    except msgspec.DecodeError as error:
        raise Disconnected(f"an answer that cannot be read: {error}") from None
