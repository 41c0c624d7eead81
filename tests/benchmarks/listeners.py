"""What listeners cost a run: 50 clients of which ten never read, beside none.

Runs come in pairs, one with and one without, in turns, so that whatever else the
machine does falls on both. The clients are a process of their own, as they would be:
what the Pod does for them is in the CPU time of this one, what they do is not. The
wall time has both in it, where there are fewer cores than there is work.
"""

import os
import select
import socket as sockets
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import trio
from msgspec import Struct

from pod.cli.options import Options
from pod.cli.serve import Where, serve_loaded
from pod.entries import RunEnd
from pod.load_manifest import load
from pod.protocol.client import Client, NotThere, connect
from tests.benchmarks.made import source_text
from tests.benchmarks.table import show
from tests.command import ROOT
from tests.recorded import inherited
from worker.api import Request, ToolResult
from worker.model import Model
from worker.policy import Decide, Reply, call, say
from worker.scripted import ScriptedClient

PAIRS = 20
CLIENTS = 50
SILENT = 10
"""Clients that subscribe and never read."""
LIMIT = 1.25
"""Times as long a run may take with them (issue 5)."""
CALLS = 100
FILE_BYTES = 8_000
MODEL = Model(provider="scripted", id="echo", window=10_000_000, max_tokens=32_000)

MANIFEST = """
[model]
provider = "scripted"
id = "echo"
[tools]
builtin = ["read_file"]
[permissions]
write_roots = []
[session]
dir = "sessions"
"""


class Taken(Struct, frozen=True):
    """Seconds that a run took: on the clock, and of this process's CPU time."""

    wall: float
    cpu: float


class Pair(Struct, frozen=True):
    """A run without and one with listeners."""

    without: Taken
    with_them: Taken


def main() -> None:
    """Measure, print, and end with 1 where the limit is passed."""
    pairs = trio.run(measure, PAIRS)
    walls = [(pair.without.wall, pair.with_them.wall) for pair in pairs]
    cpus = [(pair.without.cpu, pair.with_them.cpu) for pair in pairs]
    show(
        f"A run of {CALLS + 1} requests, {PAIRS} interleaved pairs (seconds)",
        ("", "median", "least", "most"),
        [*_rows("wall time", walls), *_rows("CPU time of the Pod", cpus)],
    )
    wall, cpu = _ratio(walls), _ratio(cpus)
    sys.stdout.write(
        f"{wall:.2f} times the wall time, {cpu:.2f} times the CPU time;"
        f" the limit of both is {LIMIT}\n"
    )
    if max(wall, cpu) > LIMIT:
        sys.exit("too much")


def _rows(what: str, pairs: list[tuple[float, float]]) -> list[tuple[str | float, ...]]:
    return [
        (f"{what}, without listeners", *_row([without for without, _ in pairs])),
        (
            f"{what}, with {CLIENTS}, {SILENT} of which never read",
            *_row([with_them for _, with_them in pairs]),
        ),
        (
            f"{what}, ratio of a pair",
            *_row([after / before for before, after in pairs]),
        ),
    ]


def _ratio(pairs: list[tuple[float, float]]) -> float:
    return median(with_them / without for without, with_them in pairs)


async def measure(pairs: int) -> list[Pair]:
    """Run *pairs* pairs."""
    with TemporaryDirectory(prefix="pod-b-") as name:
        async with _serving(Path(name)) as client:
            await _seconds(client)  # what a first run loads is in neither
            found = []
            for number in range(pairs):
                if number % 2:
                    with_them = await _heard(client)
                    found.append(Pair(await _seconds(client), with_them))
                else:
                    without = await _seconds(client)
                    found.append(Pair(without, await _heard(client)))
    return found


async def _heard(client: Client) -> Taken:
    with _listeners(client.path):
        return await _seconds(client)


def reply(request: Request) -> Reply:
    """Read the file CALLS times, then say so; a prompt begins anew."""
    seen = 0
    for message in reversed(request.messages):
        results = sum(isinstance(block, ToolResult) for block in message.content)
        if message.role == "user" and not results:
            break
        seen += results
    if seen >= CALLS:
        return say("All of it is read, over and over.")
    path = '{"path":"file.txt"}'
    return call((f"c{seen}", "read_file", path), text="Once more, from the beginning.")


async def _seconds(client: Client) -> Taken:
    await client.navigate(None, summarize=False)
    events = client.events(types=["result"])
    await events.begin()
    started, used = time.perf_counter(), time.process_time()
    await client.prompt("go")
    async for event in events:
        if isinstance(event, RunEnd):
            break
    events.close()
    return Taken(time.perf_counter() - started, time.process_time() - used)


@asynccontextmanager
async def _serving(folder: Path) -> AsyncIterator[Client]:
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    (folder / "pod.toml").write_text(MANIFEST, encoding="utf-8")
    loaded = load(None, [], folder)
    path = folder / "b.sock"
    (folder / "file.txt").write_text(source_text(FILE_BYTES), encoding="utf-8")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            serve_loaded,
            loaded,
            folder,
            Options(quiet=True),
            Where((path,)),
            lambda: ScriptedClient(Decide(reply), MODEL),
        )
        while not await _is_there(path):
            await trio.lowlevel.checkpoint()
        async with connect(path) as client:
            yield client
            await client.shutdown(now=True)


async def _is_there(path: Path) -> bool:
    try:
        async with connect(path):
            return True
    except NotThere:
        return False


@contextmanager
def _listeners(path: Path) -> Iterator[None]:
    """Have the clients connected, all of them subscribed, while the context lasts."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.benchmarks.listeners", str(path)],
        cwd=ROOT,
        env={**os.environ, **inherited()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.communicate()


def listen(path: str) -> None:
    """Connect CLIENTS times; read what comes to all but SILENT of them.

    As little work as can be: nothing is looked at, into one buffer.
    """
    waiting, reading, buffer = select.poll(), {}, bytearray(1 << 18)
    kept = []
    for number in range(CLIENTS):
        socket = sockets.socket(sockets.AF_UNIX)
        socket.connect(path)
        socket.sendall(b'{"method":"subscribe","params":{"partial":true}}\n')
        kept.append(socket)
        if number >= SILENT:
            waiting.register(socket, select.POLLIN)
            reading[socket.fileno()] = socket
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        for fd, _ in waiting.poll():
            if not reading[fd].recv_into(buffer):
                waiting.unregister(fd)


def _row(figures: list[float]) -> tuple[float, float, float]:
    return median(figures), min(figures), max(figures)


if __name__ == "__main__":
    listen(sys.argv[1])
