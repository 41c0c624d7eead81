"""One command and all it starts: run, read as it goes, and end to the last child.

The command leads a session, and so a process group, of its own; whatever it
starts is normally in that group. What leaves the group (setsid, double forks)
is found by a mark in its environment, through /proc. Why not as a child
subreaper: that changes the whole process we run in, and every orphan of
anybody's children would stay a zombie of ours. Without /proc the group is all
that is ended, and a process that cleans its environment *and* leaves the group
gets away: only a pid namespace holds it, and that is the sandbox's part.
"""

import contextlib
import fcntl
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import trio
from msgspec import Struct

PIPE_GRACE = 0.25
"""Seconds that output may still come once the command itself has ended."""
TERM_GRACE = 2.0
"""Seconds between asking everything to end and killing it."""
KILL_GRACE = 5.0
"""Seconds to wait for killed processes; one stuck in the kernel takes longer."""
DRAIN = 1.0
"""Seconds to read what is left in the pipe after everything was killed."""
PIPE_BYTES = 1 << 20
"""Linux lets any user have this much by default (fs.pipe-max-size)."""
MARK = "POD_COMMAND"


Receive = Callable[[bytes], Awaitable[None]]


class Exit(Struct, frozen=True):
    """How a command ended; *returncode* is negative for a signal, as in subprocess.

    *left* names the processes it had left running, which were ended.
    """

    returncode: int
    left: tuple[str, ...] = ()


_running: dict[int, str] = {}
"""The mark of each command under way, by its process group."""


def kill_running() -> None:
    """Kill all commands under way, for a process that ends at once. Waits for nothing."""
    for group, mark in _running.items():
        _signal_all(group, mark, signal.SIGKILL)


async def run(
    argv: Sequence[str | bytes],
    *,
    cwd: Path,
    env: Mapping[str, str],
    receive: Receive,
    receive_errors: Receive | None = None,
    stdin: int = subprocess.DEVNULL,
) -> Exit:
    """Run *argv*; stdout and stderr go to *receive* in one stream.

    With *receive_errors* stderr goes there instead. *stdin* is a descriptor to
    read from; without one there is no input.

    It has ended when its first process has: background children do not keep
    it, they are ended with it. On cancellation everything is asked to end
    (SIGTERM), then killed, before Cancelled goes on; output until then is
    received. So a time limit is the caller's trio.move_on_after.

    Raises OSError where it cannot be started. What receives must not raise.
    """
    mark = secrets.token_hex(8)
    marked = {**env, MARK: f"{os.environ.get(MARK, '')}:{mark}"}
    apart = receive_errors is not None
    process, pipes = await trio.to_thread.run_sync(
        _start, argv, cwd, marked, stdin, apart
    )
    reading = trio.CancelScope(shield=True)
    all_read = trio.Event()

    async def read_pipe(pipe: int, receive: Receive) -> None:
        async with trio.lowlevel.FdStream(pipe) as stream:
            while chunk := await stream.receive_some(PIPE_BYTES):
                await receive(chunk)

    async def read() -> None:
        receivers = [receive, receive_errors or receive]
        with reading:
            async with trio.open_nursery() as readers:
                for pipe, receiver in zip(pipes, receivers, strict=False):
                    readers.start_soon(read_pipe, pipe, receiver)
        all_read.set()

    _running[process.pid] = mark
    has_exited = False
    left: tuple[str, ...] = ()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        try:
            await _wait_exit(process.pid)
            has_exited = True
            with trio.move_on_after(PIPE_GRACE):
                await all_read.wait()
        finally:
            with trio.CancelScope(shield=True):
                if not has_exited:
                    await _ask_to_end(process.pid, mark, all_read)
                left = await _kill(process, mark)
                del _running[process.pid]
                with trio.move_on_after(DRAIN):
                    await all_read.wait()
            reading.cancel()
    returncode = process.poll()
    assert returncode is not None  # it had exited, or we were cancelled
    return Exit(returncode, left)


def _start(
    argv: Sequence[str | bytes],
    cwd: Path,
    env: Mapping[str, str],
    stdin: int,
    apart: bool,
) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Start *argv*; return it with the read ends of its output, *apart* or one."""
    pipes: list[tuple[int, int]] = []
    try:
        for _ in range(1 + apart):
            pipes.append(os.pipe())
            with contextlib.suppress(AttributeError, OSError):  # not Linux; no quota
                fcntl.fcntl(pipes[-1][0], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=pipes[0][1],
            stderr=pipes[-1][1],
            start_new_session=True,
        )
    except BaseException:
        for read_end, _ in pipes:
            os.close(read_end)
        raise
    finally:
        for _, write_end in pipes:
            os.close(write_end)
    return process, [read_end for read_end, _ in pipes]


async def _wait_exit(pid: int) -> None:
    """Wait until *pid*, a child of ours, has ended.

    It is not reaped: as long as it is a zombie, its process group's number
    cannot come to mean another group.
    """
    try:
        exited = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or forbidden by a container
        await trio.to_thread.run_sync(
            os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT, abandon_on_cancel=True
        )
        return
    try:
        await trio.lowlevel.wait_readable(exited)
    finally:
        os.close(exited)


async def _ask_to_end(pid: int, mark: str, all_read: trio.Event) -> None:
    # A stopped process hears of it only once it goes on.
    for number in (signal.SIGTERM, signal.SIGCONT):
        await trio.to_thread.run_sync(_signal_all, pid, mark, number)
    with trio.move_on_after(TERM_GRACE):
        await _wait_exit(pid)
        await all_read.wait()


async def _kill(process: subprocess.Popen[bytes], mark: str) -> tuple[str, ...]:
    """Kill the group and what left it; return the names of what was still alive."""
    left = await trio.to_thread.run_sync(_kill_all, process.pid, mark)
    with trio.move_on_after(KILL_GRACE):
        await _wait_exit(process.pid)
    process.poll()
    return left


def _kill_all(group: int, mark: str) -> tuple[str, ...]:
    deadline = time.monotonic() + KILL_GRACE
    left = alive = _signal_all(group, mark, signal.SIGKILL)
    while alive and time.monotonic() < deadline:
        time.sleep(0.002)  # they die, and what they were just starting is found
        alive = _signal_all(group, mark, signal.SIGKILL)
        left |= alive
    for pid in left:
        if pid != group:  # that one is the caller's to reap
            _reap(pid, deadline)
    return tuple(left.values())


def _reap(pid: int, deadline: float) -> None:
    """Where we are process 1, say, orphans become our children."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.001)


def _signal_all(group: int, mark: str, number: signal.Signals) -> dict[int, str]:
    """Signal the group and every marked process; return the marked, by pid."""
    found = _find_marked(mark.encode())
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for pid in found:
        _signal_marked(pid, mark.encode(), number)
    return found


def _find_marked(mark: bytes) -> dict[int, str]:
    try:
        with os.scandir("/proc") as entries:
            pids = [int(entry.name) for entry in entries if entry.name.isdecimal()]
    except OSError:  # no /proc here
        return {}
    return {pid: _name(pid) for pid in pids if _has_mark(pid, mark)}


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return False


def _name(pid: int) -> str:
    try:
        name = Path(f"/proc/{pid}/comm").read_bytes()
    except OSError:
        return "?"
    return name.decode(errors="replace").strip()


def _signal_marked(pid: int, mark: bytes, number: signal.Signals) -> None:
    try:
        process = os.pidfd_open(pid)
    except OSError:  # it has ended
        return
    try:
        # Looked at again with the process in hand: its number may be another's now.
        if _has_mark(pid, mark):
            signal.pidfd_send_signal(process, number)
    except OSError:  # it has ended meanwhile, or became somebody else's
        pass
    finally:
        os.close(process)
