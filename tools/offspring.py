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
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from threading import Lock

from msgspec import Struct

from tools.proc import PAUSE, Process, children, kill, look_at, read, send
from tools.sandbox.kernel import adopt_orphans

_STAMPS = 4000
"""Commands at once that can be told apart."""
_QUEUES = re.compile(rb"^Max msgqueue size +\S+ +(\d+)", re.MULTILINE)


class Offspring:
    """What the process *leader*, a child of ours, has started.

    Without /proc there is nothing to be found but its process group.
    """

    def __init__(self, leader: int, stamp: int | None) -> None:
        self.leader = leader
        self._stamp = stamp
        self._known: dict[int, Process] = {}

    def remember(self, pids: Iterable[int]) -> None:
        """Count these in even where nothing shows any more that they are ours."""
        for pid in pids:
            if pid != self.leader and (process := look_at(pid)) is not None:
                self._known[pid] = process

    def find(self) -> list[Process]:
        """Return what there is now: all that it has started, without the leader."""
        census = _CENSUSES.take()
        found = census.below(self.leader)
        for orphan, limit in census.orphans.items():
            if orphan != self.leader and self._is_ours(limit):
                found += [orphan, *census.below(orphan)]
        looked = map(look_at, found)
        return [process for process in looked if process is not None]

    def has_others(self, spared: Collection[int]) -> bool:
        """Tell whether anything but those *spared* still runs."""
        return any(not p.is_dead for p in self.find() if p.pid not in spared)

    def _is_ours(self, limit: int | None) -> bool:
        if self._stamp is None or limit is None or limit >= _OUR_LIMIT:
            return False  # started by us ourselves, or by something beside us
        # One with a stamp that nobody has now had its limit lowered by hand.
        return limit == self._stamp or limit not in _stamps

    def signal(
        self, numbers: Iterable[signal.Signals], spared: Collection[int] = ()
    ) -> None:
        """Send *numbers* to all but those *spared*, and to the leader's group."""
        others = [p for p in self.find() if p.pid not in spared]
        # First those that may have last words about the end of the others.
        for number in numbers:
            if self.leader not in spared:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.leader, number)
            for process in others:
                send(process, number)

    def end(self, seconds: float, spared: Collection[int] = ()) -> tuple[str, ...]:
        """Kill all; return the names of what still ran, without those *spared*.

        Blocks until nothing is left, or *seconds* are over: what is stuck in
        the kernel takes longer.
        """
        deadline = time.monotonic() + seconds
        ended: dict[tuple[int, int], str] = {}
        known = self._known
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
            kill(known.values(), deadline)
            left = _reap(known.values())
            calm = 0 if known else calm + 1
            if known and time.monotonic() > deadline:
                break
            if left and all(process.is_dead for process in left):
                time.sleep(PAUSE)  # whoever is to wait for them is at it
        return tuple(ended.values())

    def kill_at_once(self) -> None:
        """Kill all there is; waits for nothing."""
        self.signal([signal.SIGKILL])


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
    """Put *stamp* on a process that runs already, and on what it has started."""
    waiting = [pid] if stamp is not None else []
    while waiting and stamp is not None:
        pid = waiting.pop()
        with suppress(OSError, ValueError):  # it has ended
            resource.prlimit(pid, resource.RLIMIT_MSGQUEUE, (stamp, stamp))
        # Those it starts from here on have it from the beginning.
        waiting += children(pid)


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


class Census(Struct, frozen=True):
    """All of our descendants at one moment.

    *children* are those of each process, the oldest first; *orphans* are ours,
    with the limit that stamps them.
    """

    children: dict[int, list[int]]
    orphans: dict[int, int | None]

    def below(self, pid: int) -> list[int]:
        """Return the descendants of *pid*; parents come before their children."""
        found: list[int] = []
        waiting = [pid]
        while waiting:
            below = self.children.get(waiting.pop(), [])
            found += below
            waiting += below
        return found


class _Censuses:
    """Takes censuses for many at a time: one that began after you asked is yours, too."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._begun = 0.0
        self._last = Census({}, {})

    def take(self) -> Census:
        asked = time.monotonic()
        with self._lock:
            if self._begun < asked:
                self._begun = time.monotonic()
                self._last = _count()
            return self._last


_CENSUSES = _Censuses()


def _count() -> Census:
    us = os.getpid()
    found = {us: children(us)}
    waiting = list(found[us])
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found[pid] = children(pid)
            waiting += found[pid]
    return Census(found, {pid: _queue_limit(pid) for pid in found[us]})


def _queue_limit(pid: int) -> int | None:
    """Return the bytes of message queues *pid* may have at most; None for no limit."""
    found = _QUEUES.search(read(f"/proc/{pid}/limits"))
    return int(found[1]) if found else None


def _still(processes: Iterable[Process]) -> Iterator[Process]:
    """Yield those that are there still, as they are now."""
    for process in processes:
        now = look_at(process.pid)
        if now is not None and now.started == process.started:
            yield now


def _reap(found: Iterable[Process]) -> list[Process]:
    """Wait for those that have ended and are our own children by now.

    Return the others that are there still.
    """
    left = []
    for process in _still(found):
        try:
            is_gone = process.is_dead and os.waitpid(process.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:  # not ours
            is_gone = False
        if not is_gone:
            left.append(process)
    return left


def reap_group(group: int, seconds: float) -> None:
    """Wait for what is left of a killed process group and has become our child."""
    deadline = time.monotonic() + seconds
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
            time.sleep(PAUSE)
