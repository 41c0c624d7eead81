"""Seeing from outside which processes a test left behind."""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import trio


class Marker:
    """A sleep nobody else runs, so that it can be looked for."""

    def __init__(self) -> None:
        self._seconds = f"{1000 + secrets.randbelow(1000)}.{secrets.randbelow(10**9)}"
        self.sleep = f"sleep {self._seconds}"

    def alive(self) -> list[str]:
        """The command lines of the processes that carry it, without zombies."""
        found = []
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal():
                try:
                    line = Path(entry.path, "cmdline").read_bytes()
                except OSError:
                    continue
                if self._seconds.encode() in line:
                    found.append(line.replace(b"\0", b" ").decode())
        return found

    async def wait_asleep(self) -> None:
        """Wait until the sleep itself runs, not just a shell that will start it."""
        while not any(line.startswith(self.sleep) for line in self.alive()):  # noqa: ASYNC110  nobody tells us
            await trio.sleep(0.005)


async def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for something that nobody tells us."""
    while not is_so():  # noqa: ASYNC110
        await trio.sleep(0.01)


def zombies() -> list[str]:
    """The names of our children that ended and that nobody has waited for."""
    return list(_zombies().values())


def bury() -> None:
    """Wait for the orphans that killed processes of other tests have left us.

    Whoever has run a command adopts orphans (tools.offspring), pytest too.
    """
    for pid in _zombies():
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _zombies() -> dict[int, str]:
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                stat = Path(entry.path, "stat").read_text()
            except OSError:
                continue
            name, _, rest = stat.partition("(")[2].rpartition(")")
            state, parent = rest.split()[:2]
            if state == "Z" and int(parent) == os.getpid():
                found[int(entry.name)] = name
    return found


def open_files() -> int:
    """How many descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
