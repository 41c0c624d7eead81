"""A Pod that stays and does nothing but what its test tells it, and its server."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import msgspec
import trio

from pod.compaction.job import Outcome, Skipped
from pod.entries import (
    FORMAT,
    DeliveredEntry,
    Header,
    InputEntry,
    ItemEntry,
    Mode,
    RunEnd,
    RunStart,
)
from pod.events import PROTOCOL, Init, Standing, Status
from pod.protocol.client import Client, connect
from pod.protocol.endpoint import listening
from pod.protocol.hub import Hub
from pod.protocol.link import LineReader
from pod.protocol.reading import AnyEvent, Response, read
from pod.protocol.server import Server
from pod.protocol.snapshot import Following, PodState, Snapshot
from pod.session import Session
from worker.items import AssistantText, UserText

AT = "2026-01-01T00:00:00.000Z"


class Moved(msgspec.Struct, frozen=True):
    old_leaf: str | None
    new_leaf: str | None
    text: str = ""
    entry: None = None
    cancelled: bool = False


class StandIn:
    """Keeps what it is asked, and runs until it is told to finish."""

    def __init__(self, session: Session, hub: Hub) -> None:
        self.session = session
        self.hub = hub
        self.asked: list[str] = []
        self.state: Standing = "idle"
        self.changed = trio.Event()
        self.compacted = trio.Event()
        self.aborted = trio.Event()
        self.errors: dict[str, Exception] = {}
        """What is raised, by method."""

    async def prompt(self, text: str) -> str:
        self._note(f"prompt {text}")
        self.become("running")
        run = f"r{len(self.asked)}"
        self.session.append(
            RunStart(run=run, model="m"),
            InputEntry(input="i", text=text),
            ItemEntry(item=UserText(text)),
            DeliveredEntry(inputs=("i",)),
        )
        await trio.lowlevel.checkpoint()
        return run

    async def settled(self) -> None:
        while self.state == "running":
            await self.changed.wait()

    def finish(self, text: str = "done") -> None:
        """Bring the run to its end."""
        self.session.append(
            ItemEntry(item=AssistantText(text, "x")),
            RunEnd(outcome="finished", reason="done", exit_code=0, text=text),
        )
        self.become("idle")

    def become(self, state: Standing) -> None:
        self.state = state
        self.hub.live(Status(state))
        self.changed.set()
        self.changed = trio.Event()

    def steer(self, text: str) -> str:
        self._note(f"steer {text}")
        return "in"

    def follow_up(self, text: str) -> str:
        self._note(f"follow_up {text}")
        return "in"

    async def interrupt(self) -> None:
        self._note("interrupt")
        await trio.lowlevel.checkpoint()

    async def pause(self) -> None:
        self._note("pause")
        await trio.lowlevel.checkpoint()

    async def resume(self) -> str:
        self._note("resume")
        await trio.lowlevel.checkpoint()
        return "resumed"

    async def compact(
        self, instructions: str = "", mode: Mode | None = None
    ) -> Outcome:
        self._note(f"compact {instructions}")
        await self.aborted.wait()
        self.compacted.set()
        return Skipped("aborted", "no")

    def abort_compaction(self) -> bool:
        self._note("abort_compaction")
        self.aborted.set()
        return True

    async def navigate(
        self,
        target: str | None,
        *,
        summarize: bool | None,
        instructions: str,
        replace_instructions: bool,
        label: str,
    ) -> Moved:
        self._note(f"navigate {target}{' anew' * replace_instructions}")
        await trio.lowlevel.checkpoint()
        return Moved("old", target, "text")

    async def fork(self, entry: str | None) -> str:
        self._note(f"fork {entry}")
        await trio.lowlevel.checkpoint()
        return "forked"

    async def set_model(self, name: str) -> None:
        self._note(f"set_model {name}")
        await trio.lowlevel.checkpoint()

    async def shutdown(self) -> None:
        self._note("shutdown")
        await trio.lowlevel.checkpoint()

    def _note(self, asked: str) -> None:
        self.asked.append(asked)
        if error := self.errors.get(asked.partition(" ")[0]):
            raise error


class Served:
    """A stand-in that clients can connect to."""

    def __init__(
        self, path: Path, pod: StandIn, server: Server, hub: Hub, said: list[str]
    ) -> None:
        self.path = path
        self.pod = pod
        self.server = server
        self.hub = hub
        self.said = said
        self.over = trio.Event()

    @asynccontextmanager
    async def raw(self) -> AsyncIterator["Raw"]:
        """Connect without a client of ours; the snapshot is read."""
        stream = await trio.open_unix_socket(str(self.path))
        async with stream:
            raw = Raw(stream.socket)
            raw.snapshot = await raw.event()
            yield raw

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        async with connect(self.path) as client:
            yield client


class Raw:
    """A connection, line by line."""

    snapshot: AnyEvent

    def __init__(self, socket: trio.socket.SocketType) -> None:
        self.socket = socket
        self._lines = LineReader(self, 64 * 1024 * 1024)

    async def receive(self) -> bytes:
        try:
            return await self.socket.recv(65_536)
        except OSError:
            return b""

    async def send(self, data: bytes | str) -> None:
        data = data.encode() if isinstance(data, str) else data
        while data:
            data = data[await self.socket.send(data) :]

    async def line(self) -> bytes | None:
        line = await self._lines.next()
        assert line != "too_long"
        return line

    async def event(self) -> AnyEvent:
        line = await self.line()
        assert line is not None, "the connection was closed"
        found = read(line)
        assert not isinstance(found, Response), found
        return found

    async def response(self) -> tuple[object, object]:
        """Return id and error code (True: it went well) of the next response."""
        line = await self.line()
        assert line is not None, "the connection was closed"
        found = read(line)
        assert isinstance(found, Response), found
        return found.id, found.ok if found.error is None else found.error.code

    async def ask(self, text: str) -> tuple[object, object]:
        await self.send(text + "\n")
        return await self.response()


def header() -> Header:
    return Header(format=FORMAT, id="s", at=AT, cwd="/", system="Test.")


def opened(log: Path) -> Session:
    """Open the session at *log*, or begin it; time and ids are the same always."""
    if log.exists():
        return Session.open(log, durability="flush", clock=lambda: AT)
    random = Random(1)
    return Session.create(
        log, header(), durability="flush", clock=lambda: AT, random=random
    )


@asynccontextmanager
async def served(
    folder: Path, *, greet: Callable[[PodState], Snapshot] | None = None
) -> AsyncIterator[Served]:
    """Serve a stand-in on a socket in *folder*, which must have a short path."""
    said: list[str] = []
    with opened(folder / "s.jsonl") as session:
        hub = Hub(
            Following(
                session=session.id,
                seq=session.seq,
                model="m",
                leaf=session.leaf,
                inputs=tuple(session.pending_inputs),
            ),
            leaf=lambda: session.leaf,
            warn=said.append,
            clock=lambda: AT,
        )
        session.on_entry = hub.entry
        pod = StandIn(session, hub)
        server = Server(
            pod, hub, greet=greet or greeting, log=session.path, say=said.append
        )
        path = folder / "s.sock"
        with listening(path) as socket:
            async with trio.open_nursery() as nursery:
                made = Served(path, pod, server, hub, said)

                async def run(
                    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
                ) -> None:
                    await server.run([socket], task_status=task_status)
                    made.over.set()

                await nursery.start(run)
                with trio.fail_after(30):
                    yield made
                nursery.cancel_scope.cancel()


def greeting(state: PodState) -> Snapshot:
    about = Init(
        protocol=PROTOCOL,
        pod="test",
        version="1",
        model="m",
        provider="scripted",
        context_window=None,
        max_tokens=1,
        tools=(),
        cwd="/w",
        log=None,
        resumed=False,
        sandbox="off",
    )
    return Snapshot(protocol=PROTOCOL, pid=1, about=about, state=state)
