"""One process as /proc shows it, and signals that reach that one and no other."""

import os
import select
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

PAUSE = 0.001
"""Seconds between two looks at processes that are just ending.

For what only /proc tells: that a killed process has ended, that its parent, or
process 1, has waited for it. It takes some microseconds, on a busy machine
milliseconds, and everybody waits; always in a worker thread, up to a deadline."""
GIVES_WAY = 500
"""Added to what the kernel finds a process guilty of, in thousandths of all memory."""
_EXITING = 0x4  # PF_EXITING in <linux/sched.h>


class Process(Struct, frozen=True):
    """One process. *started* is in clock ticks since the machine was."""

    pid: int
    name: str
    is_dead: bool
    """It is ending, or has ended and nobody has waited for it yet (a zombie)."""
    started: int


def children(pid: int) -> list[int]:
    """Return the children of *pid*, the oldest first; none where that is not told."""
    if not _TELLS_CHILDREN:
        return _children_by_search(pid)
    found: list[int] = []
    with suppress(OSError):
        # Quickly: there may be hundreds, and somebody waits.
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            found += map(int, read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def read(path: str) -> bytes:
    """Read a file of /proc; b"" where its process has ended."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = part = os.read(fd, _CHUNK)
        while part and len(data) % _CHUNK == 0:
            part = os.read(fd, _CHUNK)
            data += part
    except OSError:
        return b""
    finally:
        os.close(fd)
    return data


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


_CHUNK = 16 * 1024
_TELLS_CHILDREN = Path("/proc/thread-self/children").exists()
"""Whether the kernel was built so (CONFIG_PROC_CHILDREN)."""


def _children_by_search(pid: int) -> list[int]:
    found: list[tuple[int, int]] = []
    with suppress(OSError):
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                text = (folder / "stat").read_text(errors="replace")
                fields = text.rpartition(")")[2].split()
                if int(fields[1]) == pid:
                    found.append((int(fields[19]), int(folder.name)))
    return [child for _, child in sorted(found)]


def look_at(pid: int) -> Process | None:
    """Return what there is to know of *pid*; None if there is no such process."""
    text = read(f"/proc/{pid}/stat").decode(errors="replace")
    if not text:
        return None
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    return Process(
        pid=pid,
        name=head.partition("(")[2],
        is_dead=fields[0] in ("Z", "X") or bool(int(fields[6]) & _EXITING),
        started=int(fields[19]),
    )


def send(process: Process, number: signal.Signals) -> None:
    """Send *number* to *process*, if it is still the one that was looked at."""
    if not _HAS_HANDLES:
        _send_by_number(process, number)
        return
    if (handle := _handle(process)) is None:
        return
    with suppress(OSError):  # it has ended meanwhile
        signal.pidfd_send_signal(handle, number)
    os.close(handle)


def kill(processes: Collection[Process], deadline: float) -> None:
    """Kill *processes* and wait until they have ended, or for the *deadline*.

    It is a time of the monotonic clock. Blocks.
    """
    if not _HAS_HANDLES:
        _kill_by_number(processes, deadline)
        return
    handles: list[int] = []
    try:
        for process in processes:
            if (handle := _handle(process)) is not None:
                handles.append(handle)
                with suppress(OSError):  # it has ended meanwhile
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
        waiting = select.poll()
        for handle in handles:
            waiting.register(handle, select.POLLIN)
        left = len(handles)
        while left and (seconds := deadline - time.monotonic()) > 0:
            for handle, _ in waiting.poll(1000 * seconds):
                waiting.unregister(handle)
                left -= 1
    finally:
        for handle in handles:
            os.close(handle)


def give_way(pid: int) -> None:
    """Have the kernel end *pid* before us, where memory runs out.

    What it has started and will start, too. Anybody may do that to processes of
    theirs.
    """
    waiting = [pid]
    while waiting:
        pid = waiting.pop()
        path = f"/proc/{pid}/oom_score_adj"
        with suppress(OSError, ValueError):  # not Linux, or it has ended
            if int(read(path)) < GIVES_WAY:
                _write(path, b"%d" % GIVES_WAY)
        # Those it starts from here on have it from the beginning.
        waiting += children(pid)


def _handle(process: Process) -> int | None:
    """Open *process*, which its number may not mean any more; None where that is so."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:  # it has ended
        return None
    if not _is_there(process):
        os.close(handle)
        return None
    return handle


def _is_there(process: Process) -> bool:
    now = look_at(process.pid)
    return now is not None and now.started == process.started


def _send_by_number(process: Process, number: signal.Signals) -> None:
    # Between the look and the signal it may end, and its number be another's: only
    # where the kernel goes through all its numbers in these microseconds.
    if _is_there(process):
        with suppress(OSError):  # it has ended meanwhile
            os.kill(process.pid, number)


def _kill_by_number(processes: Collection[Process], deadline: float) -> None:
    for process in processes:
        _send_by_number(process, signal.SIGKILL)
    while any(map(_runs, processes)) and time.monotonic() < deadline:
        time.sleep(PAUSE)


def _runs(process: Process) -> bool:
    now = look_at(process.pid)
    return now is not None and now.started == process.started and not now.is_dead


def _has_handles() -> bool:
    """Tell whether a process can be held by a descriptor.

    Linux can since 5.3; gVisor cannot, and some containers do not let us.
    """
    try:
        handle = os.pidfd_open(os.getpid())
    except (AttributeError, OSError):
        return False
    try:
        signal.pidfd_send_signal(handle, 0)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


_HAS_HANDLES = _has_handles()
