"""``pod serve``: a Pod that stays, on sockets and standard streams."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import TextIO, cast

import trio
from msgspec import Struct
from rich.console import Console

from pod.cli.failing import UsageError
from pod.cli.folder import working_folder
from pod.cli.opening import Choice, open_session
from pod.cli.options import Options
from pod.cli.progress import Progress
from pod.cli.streams import Forgiving, kept_for_results, say, write_result
from pod.clock import now
from pod.events import PROTOCOL, Init, Status
from pod.exits import Exit
from pod.live import LivePod
from pod.load_manifest import Loaded, load
from pod.open_live import open_live
from pod.path_text import path_text
from pod.protocol.connection import Connection
from pod.protocol.endpoint import listening
from pod.protocol.hub import Hub, hub_over, to_all
from pod.protocol.link import StreamsLink
from pod.protocol.listeners import feeding
from pod.protocol.questions import Questions
from pod.protocol.registry import Registered, default_socket, registered
from pod.protocol.server import Server
from pod.protocol.snapshot import PodState, Snapshot
from pod.session import Session
from pod.setup import Parts, assemble, init_event
from tools.process import kill_running
from worker.client import OpenClient

STDIO = "stdio://"
UNIX = "unix://"


class Where(Struct, frozen=True):
    """What a Pod listens on. No socket and no streams: the default socket."""

    sockets: tuple[Path, ...] = ()
    streams: bool = False


def run_serve(options: Options, listen: Sequence[str]) -> int:
    """Serve the Pod that *options* mean on *listen*; return the exit code."""
    cwd = working_folder(options.cd)
    where = where_of(listen, cwd)
    loaded = load(options.manifest, options.settings, cwd)
    return trio.run(serve_loaded, loaded, cwd, options, where, None)


def where_of(listen: Sequence[str], cwd: Path) -> Where:
    """Return what *listen* names. Raises UsageError."""
    sockets: list[Path] = []
    for each in listen:
        if each.startswith(UNIX) and each != UNIX:
            sockets.append(cwd / Path(each.removeprefix(UNIX)).expanduser())
        elif each not in {STDIO, "stdio"}:
            raise UsageError(
                f"--listen {each}: write unix:///path/to.sock, or stdio://"
            )
    return Where(tuple(sockets), streams=len(sockets) < len(listen))


async def serve_loaded(
    loaded: Loaded,
    cwd: Path,
    options: Options,
    where: Where,
    open_client: OpenClient | None,
) -> int:
    """Open the session and serve it; *open_client* in place of the manifest's."""
    parts = assemble(loaded, cwd, open_client)
    choice = Choice(
        resume=options.resume,
        newest=options.newest,
        refresh_prompt=options.refresh_prompt,
    )
    console = Console(
        file=cast(TextIO, Forgiving(sys.stderr)), highlight=False, emoji=False
    )
    progress = Progress(console, quiet=options.quiet, answers=False)
    with kept_for_results() as stdout:
        with open_session(choice, parts, on_entry=progress, warn=_warn) as session:
            serving = _Serving(parts, session, progress, where, stdout)
            return await serving.run()


class _Serving:
    """One Pod, served until it is to end."""

    def __init__(
        self,
        parts: Parts,
        session: Session,
        progress: Progress,
        where: Where,
        stdout: int,
    ) -> None:
        self._parts = parts
        self._session = session
        self._progress = progress
        self._where = where
        self._paths = where.sockets
        self._stdout = stdout
        self._exit = Exit.DONE
        self._hub = hub_over(session, parts.model.id, warn=_warn)
        session.on_entry = to_all(self._hub.entry, progress)
        self._tell = to_all(self._hub.live, progress)

    async def run(self) -> int:
        questions = Questions(self._hub)
        async with self._parts.opened(self._session, approver=questions.ask) as opened:
            owner = _Owner(self._hub)
            live = open_live(
                self._parts,
                opened,
                self._session,
                tell=self._tell,
                settled=owner.settled,
            )
            about = init_event(self._parts, self._session, opened.setup)
            server = Server(
                live,
                self._hub,
                greet=partial(_greeting, about),
                log=self._session.path,
                say=_warn,
                permit=questions.answer,
            )
            questions.clients = server
            self._hub.live(Status(live.state))  # an open turn may be paused
            if self._where.streams:
                link = StreamsLink(sys.stdin.fileno(), self._stdout)
                owner.connection = Connection(server, link, "the owner", owner=True)
            parts = self._parts
            async with feeding(self._hub, parts.loaded, parts.cwd, about, _warn):
                with self._listening() as sockets:
                    await self._serve(live, server, sockets, owner.connection)
        return self._exit

    async def _serve(
        self,
        live: LivePod,
        server: Server,
        sockets: Sequence[trio.socket.SocketType],
        owner: Connection | None,
    ) -> None:
        with self._progress.shown():
            async with trio.open_nursery() as nursery:
                await nursery.start(self._watch_signals, server)
                await nursery.start(live.serve)
                async with trio.open_nursery() as serving:
                    await serving.start(server.run, sockets, owner)
                    self._announce()
                nursery.cancel_scope.cancel()

    @contextmanager
    def _listening(self) -> Iterator[list[trio.socket.SocketType]]:
        """Listen, and be listed, for as long as the context lasts."""
        if not self._paths and not self._where.streams:
            self._paths = (default_socket(self._session.id),)
        paths = self._paths
        entry = Registered(
            name=self._parts.manifest.pod.name,
            session=self._session.id,
            pid=os.getpid(),
            socket=path_text(paths[0]) if paths else None,
            since=now(),
            cwd=path_text(self._parts.cwd),
            others=tuple(path_text(path) for path in paths[1:]),
        )
        with ExitStack() as stack:
            stack.enter_context(registered(entry))
            yield [stack.enter_context(listening(path)) for path in paths]

    def _announce(self) -> None:
        """Tell where it listens, now that it does."""
        for path in self._paths:
            _warn(f"session {self._session.id} listens on {UNIX}{path}")
            if not self._where.streams:
                write_result(self._stdout, f"{UNIX}{path}\n")

    async def _watch_signals(
        self,
        server: Server,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """End the Pod at the first signal, the process at the second."""
        with trio.open_signal_receiver(SIGINT, SIGTERM) as signals:
            task_status.started()
            async for signal in signals:
                if self._exit != Exit.DONE:
                    kill_running()
                    os._exit(128 + signal)
                self._exit = Exit.SIGINT if signal == SIGINT else Exit.SIGTERM
                server.shut_down(now=True)


class _Owner:
    """Who started the Pod on its standard streams; the run waits for it."""

    def __init__(self, hub: Hub) -> None:
        self.connection: Connection | None = None
        self._hub = hub

    async def settled(self) -> None:
        if self.connection is not None:
            self._hub.flush()
            await self.connection.mailbox.drained()


def _greeting(about: Init, state: PodState) -> Snapshot:
    return Snapshot(protocol=PROTOCOL, pid=os.getpid(), about=about, state=state)


def _warn(text: str) -> None:
    say(f"pod: {text}")
