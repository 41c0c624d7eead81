"""What a command has started, found wherever it went.

A process that leaves its group and session, drops its environment and whose
parents have ended is still our descendant, since orphans become our children
(`tools.sandbox.kernel.adopt_orphans`). Which command an orphan belongs to is
told by a resource limit that every process inherits, that nothing uses and
nobody but root can raise again: the size of POSIX message queues.
"""

import os
import re
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from tools.sandbox.kernel import adopt_orphans

_STAMPS = 4000
"""Commands at once that can be told apart."""
_EXITING = 0x4  # PF_EXITING in <linux/sched.h>
_QUEUES = re.compile(rb"^Max msgqueue size +\S+ +(\d+)", re.MULTILINE)


class Process(Struct, frozen=True):
    """One process. *started* is in clock ticks since the machine was."""

    pid: int
    name: str
    is_dead: bool
    """It is ending, or has ended and nobody has waited for it yet (a zombie)."""
    started: int


class Offspring:
    """What the process *leader*, a child of ours, has started.

    Without /proc there is nothing to be found but its process group.
    """

    def __init__(self, leader: int, stamp: int | None) -> None:
        self.leader = leader
        self._stamp = stamp

    def find(self) -> list[Process]:
        """Return what there is now: all that it has started, without the leader."""
        return [
            process for pid in self._pids() if (process := look_at(pid)) is not None
        ]

    def has_others(self, spared: Collection[int]) -> bool:
        """Tell whether anything but those *spared* still runs."""
        return any(not p.is_dead for p in self.find() if p.pid not in spared)

    def _pids(self) -> list[int]:
        found = descendants(self.leader)
        for orphan in children(os.getpid()):
            if orphan != self.leader and self._is_ours(orphan):
                found += [orphan, *descendants(orphan)]
        return found

    def _is_ours(self, orphan: int) -> bool:
        limit = _queue_limit(orphan)
        if self._stamp is None or limit is None or limit >= _OUR_LIMIT:
            return False  # started by us ourselves, or by something beside us
        # One with a stamp that nobody has now had its limit lowered by hand.
        return limit == self._stamp or limit not in _stamps

    def signal(self, number: signal.Signals, spared: Collection[int] = ()) -> None:
        """Send *number* to all but those *spared*, and to the leader's group."""
        for process in self.find():
            if process.pid not in spared:
                send(process, number)
        if self.leader not in spared:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, number)

    def end(self, seconds: float, spared: Collection[int] = ()) -> tuple[str, ...]:
        """Kill all; return the names of what still ran, without those *spared*.

        Blocks until nothing is left, or *seconds* are over: what is stuck in
        the kernel takes longer.
        """
        deadline = time.monotonic() + seconds
        ended: dict[tuple[int, int], str] = {}
        known: dict[int, Process] = {}
        calm = 0
        # Twice: a list of children may lack one while another just ends.
        while calm < 2:
            # What was ours once still is where its parent's end hides that.
            known = {process.pid: process for process in _still(known.values())}
            known |= {process.pid: process for process in self.find()}
            for process in known.values():
                if process.pid not in spared and not process.is_dead:
                    ended[process.pid, process.started] = process.name
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, signal.SIGKILL)
            _kill(known.values(), deadline)
            _reap(known.values())
            calm = 0 if known else calm + 1
            if known and time.monotonic() > deadline:
                break
            if known and all(process.is_dead for process in known.values()):
                time.sleep(0.001)  # whoever is to wait for them is at it
        return tuple(ended.values())

    def kill_at_once(self) -> None:
        """Kill all there is; waits for nothing."""
        self.signal(signal.SIGKILL)


def take_stamp() -> int | None:
    """Return a limit (bytes of message queues) for one command, and nobody else's.

    The command must start with it: ``ulimit -q``. None where there is no such
    thing; give_back() it once nothing of the command is left.
    """
    if not sys.platform.startswith("linux") or _OUR_LIMIT <= _STAMPS:
        return None
    with suppress(OSError):
        adopt_orphans()
    stamp = next(n for n in range(_OUR_LIMIT - 1, 0, -1) if n not in _stamps)
    _stamps.add(stamp)
    return stamp


def put_stamp(pid: int, stamp: int | None) -> None:
    """Put *stamp* on a process that runs already, if it can still be done."""
    if stamp is not None:
        with suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_MSGQUEUE, (stamp, stamp))


def give_back(stamp: int | None) -> None:
    """Say that a command is over."""
    if stamp is not None:
        _stamps.discard(stamp)


_stamps: set[int] = set()
"""Those in use."""


def _our_limit() -> int:
    if not sys.platform.startswith("linux"):
        return 0
    limit = resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1]
    return 1 << 40 if limit == resource.RLIM_INFINITY else limit


_OUR_LIMIT = _our_limit()


def _queue_limit(pid: int) -> int | None:
    """Return the bytes of message queues *pid* may have at most; None for no limit."""
    try:
        found = _QUEUES.search(Path(f"/proc/{pid}/limits").read_bytes())
    except OSError:
        return None
    return int(found[1]) if found else None


def descendants(pid: int) -> list[int]:
    """Return the processes below *pid*; parents come before their children."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def children(pid: int) -> list[int]:
    """Return the children of *pid*, the oldest first; none where that is not told."""
    if not _TELLS_CHILDREN:
        return _children_by_search(pid)
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                line = (thread / "children").read_bytes()
                found += map(int, line.split())
    return found


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
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
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
    if (handle := _handle(process)) is None:
        return
    with suppress(OSError):  # it has ended meanwhile
        signal.pidfd_send_signal(handle, number)
    os.close(handle)


def _handle(process: Process) -> int | None:
    """Open *process*, which its number may not mean any more; None where that is so."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:  # it has ended
        return None
    now = look_at(process.pid)
    if now is None or now.started != process.started:
        os.close(handle)
        return None
    return handle


def _kill(processes: Iterable[Process], deadline: float) -> None:
    """Kill *processes* and wait until they have ended, or for the *deadline*."""
    handles = {}
    try:
        for process in processes:
            if (handle := _handle(process)) is not None:
                handles[handle] = process
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


def _still(processes: Iterable[Process]) -> Iterator[Process]:
    """Yield those that are there still, as they are now."""
    for process in processes:
        now = look_at(process.pid)
        if now is not None and now.started == process.started:
            yield now


def _reap(found: Iterable[Process]) -> None:
    """Wait for those that have ended and are our own children by now."""
    for process in found:
        if process.is_dead:
            with suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def reap_group(group: int, seconds: float, pause: Callable[[float], None]) -> None:
    """Wait for what is left of a killed process group and has become our child."""
    deadline = time.monotonic() + seconds
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
            pause(0.001)
