"""One client: what it asks, what it is answered, and the events it hears."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

import trio
from msgspec import Raw

from pod.errors import LogFailed
from pod.protocol.answers import (
    Accepted,
    Data,
    Entries,
    Subscribed,
    answer,
    refusal,
)
from pod.protocol.hub import Hub, Listener, Wanted
from pod.protocol.link import Gone, LineReader, Link, Stalled
from pod.protocol.mailbox import Mailbox
from pod.protocol.messages import (
    MAX_LINE,
    AnswerPermission,
    BadRequest,
    GetEntries,
    GetState,
    Request,
    Shutdown,
    Subscribe,
    parse,
)
from pod.protocol.perform import Action
from pod.protocol.reading import EVENTS
from pod.protocol.replay import LogReader
from pod.protocol.snapshot import Snapshot

MOST_PENDING = 64
"""Requests of one client that may be under way at once."""
LAST_SECONDS = 2.0
"""Seconds that a client has for what waits for it when its connection is closed."""
MOST_ENTRIES = 1_000
"""Events that one get_entries gives at most."""
PAGE = 1024 * 1024
"""Bytes of events that one get_entries gives at most, the first one apart."""
LOOK_SECONDS = 1.0
"""Seconds after which it is looked whether a client that only listens is gone."""
NOTHING = Wanted(types=frozenset())

Reply = Callable[[bytes], None]


class Host(Protocol):
    """What a connection needs of its server."""

    @property
    def hub(self) -> Hub: ...
    @property
    def log(self) -> Path | None: ...
    @property
    def readers(self) -> trio.CapacityLimiter: ...

    def snapshot(self) -> Snapshot: ...

    async def begin(self, request: Request, action: Action, reply: Reply) -> None:
        """Begin *action*, and have its answer given to *reply* when it is done."""

    def permit(self, answer: AnswerPermission) -> None:
        """Pass on *answer*. Raises BadRequest where nobody asked."""

    def shut_down(self, *, now: bool) -> None: ...


class Connection:
    """Talks to one client until it goes, is dropped, or the server closes.

    The *owner* is the program that started the Pod on its standard streams: it
    is never dropped, the run is held up for it at its commits, and so are its own
    requests while it does not read the answers. Where it has nothing more to say
    the Pod ends, and at once where it is gone.
    """

    def __init__(self, host: Host, link: Link, name: str, *, owner: bool = False):
        self._host = host
        self._link = link
        self._mailbox = Mailbox(at_once=link.send_now)
        self._listener = Listener(name, self._mailbox)
        self._listener.is_patient = owner
        self._replay: LogReader | None = None
        self._is_reading = False
        self._last: bytes | None = None
        """The last line, once the server closes."""
        self._pending = 0

    @property
    def mailbox(self) -> Mailbox:
        return self._mailbox

    async def run(self) -> None:
        """Serve the client to the end; never raises for what a client does."""
        hub = self._host.hub
        try:
            self._mailbox.put(hub.text(self._host.snapshot()))
            hub.join(self._listener)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write_all, nursery.cancel_scope)
                await self._read_requests()
                await self._stay()
                self._mailbox.close()
        finally:
            hub.leave(self._listener)
            self._mailbox.close()
            self._end_replay()
            self._link.close()
            if self._listener.is_patient:
                self._host.shut_down(now=True)

    def close(self, last: bytes) -> None:
        """Send what waits, and *last*, and then no more.

        A listener that is still reading the log gets the rest of it before, as
        far as the time allows.
        """
        self._last = last
        self._mailbox.ending.set()
        if self._replay is None:
            self._host.hub.mute(self._listener)
            self._mailbox.put(last)
            self._mailbox.close()
        self._mailbox.wake()

    async def _read_requests(self) -> None:
        lines = LineReader(self._link, MAX_LINE)
        while (line := await lines.next()) is not None:
            if line == "too_long":
                text = f"a request has at most {MAX_LINE:,} bytes"
                self._reply(refusal(None, "too_large", text))
            elif line.strip():
                await self._handle(line)
            while self._listener.is_patient and self._mailbox.is_full:
                await self._mailbox.wait()

    async def _handle(self, line: bytes) -> None:
        try:
            request = parse(line)
        except BadRequest as error:
            self._reply(refusal(error.id, error.code, str(error)))
            return
        try:
            data = await self._done(request)
        except BadRequest as error:
            self._reply(refusal(request.id, error.code, str(error)))
            return
        except LogFailed as error:
            self._reply(refusal(request.id, "failed", str(error)))
            return
        if data is not None:
            self._reply(answer(request.id, data))

    async def _done(self, request: Request) -> Data | None:
        """Do at once what can be; None where the answer comes later."""
        match request.params:
            case GetState():
                return self._host.hub.following.now()
            case GetEntries(from_seq, limit):
                return await self._entries(from_seq, limit)
            case Subscribe():
                return self._subscribe(request.params)
            case AnswerPermission():
                self._host.permit(request.params)
                return Accepted()
            case Shutdown(now):
                self._host.shut_down(now=now)
                return Accepted()
            case action:
                await self._begin(request, action)
                return None

    async def _begin(self, request: Request, action: Action) -> None:
        if self._pending >= MOST_PENDING:
            raise BadRequest(
                "too_many_requests", f"{MOST_PENDING} requests are under way: wait"
            )

        def reply(line: bytes) -> None:
            self._pending -= 1
            self._reply(line)
            self._mailbox.wake()  # it may be what the connection stayed open for

        self._pending += 1
        try:
            await self._host.begin(request, action, reply)
        except BadRequest:
            self._pending -= 1
            raise

    def _reply(self, line: bytes) -> None:
        """Put an answer behind the events that came before it."""
        self._host.hub.flush_for(self._listener)
        self._mailbox.put(line)
        if self._mailbox.is_full and not self._listener.is_patient:
            self._host.hub.drop(self._listener, "it does not read its answers")

    async def _entries(self, from_seq: int, limit: int) -> Entries:
        log, hub = self._host.log, self._host.hub
        if log is None:
            raise BadRequest("not_found", "this session is not kept: it has no log")
        if from_seq < 0 or not 1 <= limit <= MOST_ENTRIES:
            raise BadRequest(
                "invalid_request",
                f"from_seq is 0 or more, limit from 1 to {MOST_ENTRIES}",
            )
        last = min(hub.seq, max(from_seq, 1) + limit - 1)

        def read() -> list[bytes]:
            reader = LogReader(log, hub.session, from_seq)
            try:
                return [event.line for event in reader.read(last, most=PAGE)]
            finally:
                reader.close()

        lines = await trio.to_thread.run_sync(read, limiter=self._host.readers)
        next_seq = max(from_seq, 1) + len(lines)
        return Entries(
            events=tuple(Raw(line.rstrip(b"\n")) for line in lines),
            next_seq=next_seq if next_seq <= hub.seq else None,
        )

    def _subscribe(self, params: Subscribe) -> Subscribed:
        seq = self._host.hub.seq
        first = seq + 1 if params.from_seq is None else max(params.from_seq, 1)
        if not 0 <= (params.from_seq or 0) <= seq + 1:
            raise BadRequest(
                "invalid_request",
                f"from_seq is {params.from_seq}; the last event has {seq},"
                f" so it can be 0 to {seq + 1}",
            )
        if unknown := [name for name in params.types or () if name not in EVENTS]:
            near = get_close_matches(unknown[0], EVENTS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadRequest(
                "invalid_request",
                f"types: there is no event {unknown[0][:100]!r}{hint}",
            )
        replay: LogReader | None = None
        if first <= seq:
            log = self._host.log
            if log is None:
                raise BadRequest(
                    "not_found", "this session is not kept: leave from_seq out"
                )
            replay = LogReader(log, self._host.hub.session, first)
        self._end_replay()
        self._replay = replay
        types = None if params.types is None else frozenset(params.types)
        wanted = Wanted(types, params.partial)
        if replay is None:
            self._host.hub.hear(self._listener, wanted)
        else:
            self._host.hub.mute(self._listener)
            self._listener.wanted = wanted
        self._mailbox.wake()
        return Subscribed(seq=seq, from_seq=first)

    async def _stay(self) -> None:
        """Stay for a client that has sent all it will, as long as it may be reading."""
        if self._listener.is_patient:
            self._host.shut_down(now=self._link.is_gone())
            while not self._mailbox.is_closed:
                await self._mailbox.wait()
        while not self._mailbox.is_closed and not self._link.is_gone():
            if self._listener.wanted == NOTHING and not self._pending:
                return
            with trio.move_on_after(LOOK_SECONDS):
                await self._mailbox.wait()

    async def _write_all(self, connection: trio.CancelScope) -> None:
        """Write what is put into the mailbox; end the connection when it is over."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._limit_end, nursery.cancel_scope)
                while await self._write_some():
                    pass
                nursery.cancel_scope.cancel()
        finally:
            connection.cancel()

    async def _limit_end(self, writing: trio.CancelScope) -> None:
        """Give a client little time once its connection is closed."""
        await self._mailbox.ending.wait()
        await trio.sleep(LAST_SECONDS)
        writing.cancel()

    async def _write_some(self) -> bool:
        """Write the next lines, or read them first; whether there may be more."""
        if data := self._mailbox.take():
            try:
                await self._link.send(data)
            except Stalled as stalled:
                self._host.hub.drop(self._listener, str(stalled))
                return False
            except Gone:
                return False
            self._mailbox.sent()
        elif self._mailbox.is_closed:
            return False
        elif self._replay is not None:
            await self._read_more(self._replay)
        else:
            await self._mailbox.wait()
        return True

    async def _read_more(self, replay: LogReader) -> None:
        """Read the next events from the log; go live where there are none left.

        Between taking in the last one and going live nothing can happen, so that
        no event is missed and none comes twice.
        """
        hub = self._host.hub
        last = hub.seq
        self._is_reading = True
        try:
            events = await trio.to_thread.run_sync(
                replay.read, last, limiter=self._host.readers
            )
        except LogFailed as error:
            events = []
            hub.drop(self._listener, str(error))
        finally:
            self._is_reading = False
            if replay is not self._replay:  # it has subscribed anew meanwhile
                replay.close()
        if replay is not self._replay:
            return
        if not events and not self._mailbox.is_closed:
            hub.drop(self._listener, f"the log has no event {replay.next_seq}")
        for event in events:
            if self._listener.wanted.takes(event.name):
                self._mailbox.put(event.line)
        if replay.next_seq > hub.seq:
            self._end_replay()
            hub.hear(self._listener, self._listener.wanted)
            if self._last is not None:
                self.close(self._last)

    def _end_replay(self) -> None:
        if self._replay is not None and not self._is_reading:
            self._replay.close()
        self._replay = None
