"""The manifest's listeners: files, commands and sockets that get a Pod's events."""

import errno
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from pod.beside import beside
from pod.errors import SetupError
from pod.events import Init, name_of
from pod.exits import Exit
from pod.hooks.open_hooks import find_program, hook_environment
from pod.load_manifest import Loaded
from pod.manifest import ListenerTable
from pod.pipe import write_all
from pod.protocol.endpoint import check_path
from pod.protocol.gathering import give_on
from pod.protocol.hub import Hub, Listener, Wanted
from pod.protocol.link import Gone, SocketLink
from pod.protocol.mailbox import Mailbox
from tools.process import run

LAST_SECONDS = 5.0
"""Seconds that listeners have at the end for what waits for them, all at once."""
FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
"""Seconds before a socket is tried again: doubled each time, at most this."""

Warn = Callable[[str], None]
"""Tells a person; returns at once."""


@asynccontextmanager
async def feeding(
    hub: Hub, loaded: Loaded, cwd: Path, init: Init, warn: Warn
) -> AsyncIterator[None]:
    """Give the manifest's listeners the events of *hub*, while the context lasts.

    The first line of each is *init*, the event that every stream begins with. At
    the end they get what waits for them, for LAST_SECONDS. A listener that
    fails is told by *warn*, and by nothing else.

    Raises SetupError for a file that cannot be opened.
    """
    tables = loaded.manifest.listeners
    if not tables:
        yield
        return
    listeners = [_Fed(table, hub, init, warn) for table in tables]
    async with beside() as nursery:
        for table, fed in zip(tables, listeners, strict=True):
            if table.file is not None:
                fd = open_for_lines(loaded.beside(table.file))
                nursery.start_soon(fed.write_file, fd)
            elif table.command is not None:
                nursery.start_soon(fed.feed_command, table.command, loaded, cwd)
            elif table.socket is not None:
                nursery.start_soon(fed.feed_socket, loaded.beside(table.socket))
        gathering = trio.CancelScope()

        async def gather() -> None:
            with gathering:
                await give_on(hub)

        nursery.start_soon(gather)
        try:
            yield
        finally:
            gathering.cancel()
            for fed in listeners:
                fed.close()
            nursery.cancel_scope.shield = True
            nursery.cancel_scope.deadline = trio.current_time() + LAST_SECONDS


def open_for_lines(path: Path) -> int:
    """Open a file of mode 0600 to append lines to. Raises SetupError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        what = error.strerror
        if error.errno in {errno.ELOOP, errno.ENXIO}:
            what = "it is not a plain file"
        raise SetupError(f"[[listeners]] file: {path}: {what}", Exit.FAILED) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise SetupError(f"[[listeners]] file: {path}: it is not a plain file")
    return fd


class _Fed:
    """One listener: its mailbox, and the ways to empty it."""

    def __init__(self, table: ListenerTable, hub: Hub, init: Init, warn: Warn) -> None:
        words = table.command or (table.file or table.socket or "",)
        self._name = f"the listener {' '.join(words)[:100]}"
        self._hub = hub
        self._warn = warn
        self._mailbox = Mailbox()
        self._listener = Listener(self._name, self._mailbox)
        types = frozenset(table.types) if table.types else None
        wanted = Wanted(types, table.partial)
        if wanted.takes(name_of(Init)):
            self._mailbox.put(hub.text(init))
        hub.join(self._listener)
        hub.hear(self._listener, wanted)

    def close(self) -> None:
        self._hub.leave(self._listener)
        self._mailbox.close()

    async def write_file(self, fd: int) -> None:
        """Append what is put to a file, and close it."""
        try:
            while (data := await self._next()) is not None:
                await trio.to_thread.run_sync(write_all, fd, data)
                self._mailbox.sent()
        except OSError as error:
            self._give_up(error.strerror or "it cannot be written")
        finally:
            os.close(fd)

    async def feed_command(
        self, words: tuple[str, ...], loaded: Loaded, cwd: Path
    ) -> None:
        """Run a command with the lines as its stdin; it ends when they do."""
        program = find_program(words[0], loaded) or words[0]
        key = loaded.manifest.model.api_key_env
        env = hook_environment(os.environ, key=key, cwd=cwd)
        stdin, lines = os.pipe2(os.O_CLOEXEC)
        async with trio.lowlevel.FdStream(lines) as stream:
            async with trio.open_nursery() as nursery:

                async def feed() -> None:
                    try:
                        while (data := await self._next()) is not None:
                            await stream.send_all(data)
                            self._mailbox.sent()
                    except (trio.BrokenResourceError, trio.ClosedResourceError):
                        pass  # it has ended, or reads no more: told below
                    await stream.aclose()

                nursery.start_soon(feed)
                try:
                    ended = await run(
                        (str(program), *words[1:]),
                        cwd=loaded.folder,
                        env=env,
                        receive=_to_stderr,
                        stdin=stdin,
                    )
                except OSError as error:
                    self._give_up(f"it cannot be started: {error.strerror}")
                else:
                    if not self._mailbox.is_closed or ended.returncode:
                        self._give_up(f"it ended with exit code {ended.returncode}")
                finally:
                    os.close(stdin)
                nursery.cancel_scope.cancel()

    async def feed_socket(self, path: Path) -> None:
        """Write the lines to a socket; connect again when it breaks."""
        try:
            check_path(path)
        except SetupError as error:
            self._give_up(str(error))
            return
        wait, is_told = FIRST_WAIT, False
        while not self._mailbox.is_closed:
            try:
                with trio.socket.socket(trio.socket.AF_UNIX) as socket:
                    await socket.connect(str(path))
                    link = SocketLink(socket)
                wait, is_told = FIRST_WAIT, False
                try:
                    await self._send_all(link)
                finally:
                    link.close()
            except (OSError, Gone) as error:
                if not is_told:
                    self._warn(f"{self._name} takes nothing: {error}; trying again")
                    is_told = True
                await self._forget_for(wait)
                wait = min(2 * wait, LONGEST_WAIT)

    async def _send_all(self, link: SocketLink) -> None:
        while (data := await self._next()) is not None:
            await link.send(data)
            self._mailbox.sent()

    async def _forget_for(self, seconds: float) -> None:
        """Wait, and let go of what is told meanwhile: nobody is there for it."""
        with trio.move_on_after(seconds):
            while not self._mailbox.is_closed:
                self._mailbox.sent()  # what could not be sent, before
                while self._mailbox.take():
                    self._mailbox.sent()
                await self._mailbox.wait()

    async def _next(self) -> bytes | None:
        """Return the next lines; None when there will be no more."""
        while not (data := self._mailbox.take()):
            if self._mailbox.is_closed:
                return None
            await self._mailbox.wait()
        return data

    def _give_up(self, why: str) -> None:
        self._hub.leave(self._listener)
        self._mailbox.close()
        self._warn(f"{self._name} gets no more events: {why}")


async def _to_stderr(data: bytes) -> None:
    await trio.to_thread.run_sync(write_all, 2, data, abandon_on_cancel=True)
