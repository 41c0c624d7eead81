"""One command and all it starts: run, read as it goes, and end to the last child.

The command leads a session, and so a process group, of its own; whatever it
starts is normally in that group. What leaves the group (setsid, double forks)
is found as what it is, a descendant of ours: `tools.offspring`. In a sandbox
with a pid namespace the kernel ends all with its first process.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import trio
from msgspec import Struct

from tools.launch import Launcher, Order, Started, Unconfined
from tools.off_loop import is_no_thread, off_loop
from tools.offspring import Offspring, give_back, take_stamp
from tools.proc import children, give_way

PIPE_BYTES = 1 << 20
"""Linux lets any user have this much by default (fs.pipe-max-size)."""
PIPE_GRACE = 0.25
"""Seconds that output may still come once the command itself has ended."""
TERM_GRACE = 0.4
"""Seconds between asking everything to end and killing it."""
KILL_GRACE = 5.0
"""Seconds to wait for killed processes; one stuck in the kernel takes longer."""
DRAIN = 1.0
"""Seconds to read what is left in the pipe after everything was killed."""
_MOST_SAID = 16
"""Bytes of what a sandbox says: "s", and an exit code."""
_LOOK = 0.005
"""Seconds between two looks at what a command has left running."""


Receive = Callable[[bytes], Awaitable[None]]


class Exit(Struct, frozen=True):
    """How a command ended; *returncode* is negative for a signal, as in subprocess.

    *left* names the processes it had left running, which were ended. *notes*
    say what the sandbox had to put right afterwards.
    """

    returncode: int
    left: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class SandboxFailed(OSError):
    """The sandbox could not be set up; the command has not run. Its output says why."""


UNCONFINED = Unconfined()
_running: set["_Command"] = set()
"""The commands under way."""


def kill_running() -> None:
    """Kill all commands under way, for a process that ends at once. Waits for nothing."""
    for command in list(_running):
        command.offspring.kill_at_once()
        command.process.kill()


async def run(
    argv: Sequence[str | bytes],
    *,
    cwd: Path,
    env: Mapping[str, str],
    receive: Receive,
    receive_errors: Receive | None = None,
    stdin: int = subprocess.DEVNULL,
    launcher: Launcher = UNCONFINED,
) -> Exit:
    """Run *argv*; stdout and stderr go to *receive* in one stream.

    With *receive_errors* stderr goes there instead. *stdin* is a descriptor to
    read from; without one there is no input. *launcher* decides what holds it.

    It has ended when its first process has: background children do not keep
    it, they are ended with it. On cancellation everything is asked to end
    (SIGTERM), then killed, before Cancelled goes on; output until then is
    received. So a time limit is the caller's trio.move_on_after.

    Raises OSError where it cannot be started, SandboxFailed where *launcher*'s
    sandbox cannot be set up. What receives must not raise.
    """
    receivers = [receive] if receive_errors is None else [receive, receive_errors]
    stamp = take_stamp()
    try:
        command, pipes = await off_loop(
            lambda: _start(argv, cwd, env, stdin, len(receivers), launcher, stamp)
        )
        return await _see_through(command, pipes, receivers, launcher)
    finally:
        give_back(stamp)


async def _see_through(
    command: "_Command",
    pipes: Sequence[int],
    receivers: Sequence[Receive],
    launcher: Launcher,
) -> Exit:
    reading = trio.CancelScope(shield=True)
    all_read = trio.Event()

    async def read_pipe(pipe: int, receive: Receive) -> None:
        async with trio.lowlevel.FdStream(pipe) as stream:
            while chunk := await stream.receive_some(PIPE_BYTES):
                await receive(chunk)

    async def read() -> None:
        with reading:
            async with trio.open_nursery() as readers:
                for pipe, receiver in zip(pipes, receivers, strict=True):
                    readers.start_soon(read_pipe, pipe, receiver)
        all_read.set()

    _running.add(command)
    has_ended = False
    left: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        try:
            await command.wait()
            has_ended = True
            with trio.move_on_after(PIPE_GRACE):
                await command.calm(all_read)
        finally:
            try:
                with trio.CancelScope(shield=True):
                    if not has_ended:
                        await command.ask_to_end(all_read)
                    left, notes = await off_loop(lambda: _end(command, launcher))
                    await command.close()
                    with trio.move_on_after(DRAIN):
                        await all_read.wait()
            finally:  # or whoever reads would keep us for ever
                _running.discard(command)
                reading.cancel()
    return Exit(command.returncode(), left, notes)


def _end(
    command: "_Command", launcher: Launcher
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Kill all of *command*; return what still ran, and what had to be put right."""
    return command.end(), launcher.ended()


def _start(
    argv: Sequence[str | bytes],
    cwd: Path,
    env: Mapping[str, str],
    stdin: int,
    streams: int,
    launcher: Launcher,
    stamp: int | None,
) -> tuple["_Command", list[int]]:
    """Start *argv*; return it with the read ends of its output, one or two."""
    pipes: list[tuple[int, int]] = []
    try:
        for _ in range(streams):
            pipes.append(os.pipe())
            with contextlib.suppress(AttributeError, OSError):  # not Linux; no quota
                fcntl.fcntl(pipes[-1][0], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        order = Order(
            argv=tuple(argv),
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=pipes[0][1],
            stderr=pipes[-1][1],
            stamp=stamp,
        )
        started = launcher.start(order)
    except BaseException:
        for read_end, _ in pipes:
            os.close(read_end)
        raise
    finally:
        for _, write_end in pipes:
            os.close(write_end)
    give_way(started.process.pid)
    return _Command(started, stamp), [read_end for read_end, _ in pipes]


class _Command:
    """A started command, until nothing of it is left."""

    def __init__(self, started: Started, stamp: int | None) -> None:
        self.process = started.process
        self.offspring = Offspring(self.process.pid, stamp)
        self._line = started.supervisor
        self._said = b""
        self._status = (
            trio.lowlevel.FdStream(started.supervisor.status)
            if started.supervisor
            else None
        )

    async def wait(self) -> None:
        """Wait until the command itself has ended. Raises SandboxFailed."""
        if self._status is None:
            await _wait_exit(self.process.pid)
            return
        # The command can get at the shell that says it: it may say anything.
        while not self._said.endswith(b"\n") and len(self._said) < _MOST_SAID:
            said = await self._status.receive_some(_MOST_SAID)
            if not said:  # the sandbox has ended before the command had
                await _wait_exit(self.process.pid)
                return
            if not self._said:
                # What holds it, for when it is gone before we look.
                self.offspring.remember(self.spared())
            self._said += said

    async def calm(self, all_read: trio.Event) -> None:
        """Wait until there is no more output to come."""
        if self._status is None:
            await all_read.wait()
            return
        # The sandbox itself holds the pipe: ask for who else does.
        while self.offspring.has_others(self.spared()):  # noqa: ASYNC110  the kernel tells nobody
            await trio.sleep(_LOOK)

    def spared(self) -> tuple[int, ...]:
        """Return the processes that belong to the sandbox, not to the command."""
        if self._line is None:
            return ()
        first = children(self.process.pid)[:1]  # process 1 of the namespace
        shell = children(first[0])[:1] if first else []
        return (self.process.pid, *first, *shell)

    async def ask_to_end(self, all_read: trio.Event) -> None:
        # A stopped process hears of it only once it goes on.
        await off_loop(self._ask)
        with trio.move_on_after(TERM_GRACE):
            await self.wait()
            await self.calm(all_read)

    def _ask(self) -> None:
        self.offspring.signal((signal.SIGTERM, signal.SIGCONT), self.spared())

    def end(self) -> tuple[str, ...]:
        """Kill all of it; return the names of what still ran. Blocks."""
        return self.offspring.end(KILL_GRACE, self.spared())

    async def close(self) -> None:
        """Let go of the command, whose processes are gone."""
        with trio.move_on_after(KILL_GRACE):
            await _wait_exit(self.process.pid)
        self.process.poll()
        if self._line is not None:
            os.close(self._line.control)
        if self._status is not None:
            await self._status.aclose()

    def returncode(self) -> int:
        """Return how it ended. Raises SandboxFailed."""
        code = self.process.returncode
        assert code is not None  # it had exited, or we were cancelled
        if self._status is None:
            return code
        if not self._said and code >= 0:
            raise SandboxFailed(f"the sandbox ended with exit code {code}")
        said = self._said.removeprefix(b"s").strip()
        return int(said) if said.isdigit() and int(said) < 256 else code


async def _wait_exit(pid: int) -> None:
    """Wait until *pid*, a child of ours, has ended.

    It is not reaped: as long as it is a zombie, its process group's number
    cannot come to mean another group.
    """
    try:
        exited = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or forbidden by a container
        await _wait_by_number(pid)
        return
    try:
        await trio.lowlevel.wait_readable(exited)
    finally:
        os.close(exited)


async def _wait_by_number(pid: int) -> None:
    flags = os.WEXITED | os.WNOWAIT
    try:
        await trio.to_thread.run_sync(
            os.waitid, os.P_PID, pid, flags, abandon_on_cancel=True
        )
    except RuntimeError as error:
        if not is_no_thread(error):
            raise
        while os.waitid(os.P_PID, pid, flags | os.WNOHANG) is None:  # noqa: ASYNC110, ASYNC222  it does not block
            await trio.sleep(_LOOK)
