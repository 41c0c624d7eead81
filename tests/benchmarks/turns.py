"""What a turn costs beside the model: the whole ``pod run``, beside a bare loop.

The overhead of a turn is the time from the last byte of an answer to the last
byte of the next request: reading, log, tool, the next request, sending it.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from tests.benchmarks.made import source_text
from tests.benchmarks.provider import FILE, Noted
from tests.benchmarks.table import Cell, show, times
from tests.command import POD, ROOT, environment

TURNS = (50, 200, 400)
FILE_BYTES = 2_700
ROUNDS = 3
EDGE = 10
"""As many turns from either end are compared."""

MANIFEST = """
[model]
base_url = "http://127.0.0.1:{port}"
context_window = 10_000_000
[tools]
builtin = ["read_file"]
[compaction]
enabled = false
"""


class Took(Struct, frozen=True):
    """One run: seconds to its first request, ms of each turn, and what it used.

    *cpu* in seconds, *rss* in MB, *body* the last request's KB.
    """

    first: float
    overheads: list[float]
    cpu: float
    rss: float
    body: float

    @property
    def edges(self) -> tuple[float, float]:
        """The median overhead of the first turns, and of the last."""
        return median(self.overheads[:EDGE]), median(self.overheads[-EDGE:])


def main() -> None:
    """Measure both, in turns, so that what the machine does meets both."""
    rows: list[Sequence[Cell]] = []
    for turns in TURNS:
        runs: dict[str, list[Took]] = {"pod": [], "floor": []}
        for _ in range(ROUNDS):
            runs["floor"].append(run_floor(turns))
            runs["pod"].append(run_pod(turns))
        base = _middle(runs["floor"])
        for name, taken in runs.items():
            took = _middle(taken)
            rows.append(_row(f"{name}, {turns} turns", took, base))
    show(
        f"Overhead of a turn with {FILE_BYTES} bytes of tool output",
        [
            "",
            "first s",
            "ms/turn",
            "x floor",
            f"first {EDGE}",
            f"last {EDGE}",
            "last/first",
            "CPU s",
            "RSS MB",
            "body KB",
        ],
        rows,
    )


def _row(name: str, took: Took, base: Took) -> Sequence[Cell]:
    early, late = took.edges
    middle = median(took.overheads)
    return [
        name,
        took.first,
        middle,
        times(middle, median(base.overheads)),
        early,
        late,
        times(late, early),
        took.cpu,
        took.rss,
        took.body,
    ]


def _middle(taken: Sequence[Took]) -> Took:
    return sorted(taken, key=lambda took: median(took.overheads))[len(taken) // 2]


def run_floor(turns: int) -> Took:
    """Run the bare loop."""
    return _run(turns, _floor_command)


def run_pod(turns: int) -> Took:
    """Run ``pod run`` with the SDK."""
    return _run(turns, _pod_command)


Command = Callable[[int, Path], list[str]]
"""Given a port and a folder to work in, the command that runs against it."""


def _run(turns: int, command: Command) -> Took:
    """Run one client against a provider of its own."""
    with TemporaryDirectory(prefix="pod-bench-") as name, _provider(turns) as provider:
        folder = Path(name)
        (folder / FILE).write_text(source_text(FILE_BYTES), encoding="utf-8")
        assert provider.stdout is not None
        port = int(provider.stdout.readline())
        arguments = command(port, folder)
        started = time.monotonic()
        client = subprocess.Popen(
            arguments,
            cwd=folder,
            env=environment(folder, ANTHROPIC_API_KEY="none"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        noted = msgspec.json.decode(provider.stdout.readline(), type=list[Noted])
        _, status, used = os.wait4(client.pid, 0)
        client.returncode = os.waitstatus_to_exitcode(status)
    assert client.returncode == 0, f"{arguments} failed"
    return Took(
        first=noted[0].received - started,
        overheads=[
            1_000 * (after.received - before.sent) for before, after in pairwise(noted)
        ],
        cpu=used.ru_utime + used.ru_stime,
        rss=used.ru_maxrss / 1024,
        body=noted[-1].size / 1024,
    )


def _provider(turns: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.provider", str(turns)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )


def _floor_command(port: int, _: Path) -> list[str]:
    return [sys.executable, "-m", "tests.benchmarks.floor", str(port)]


def _pod_command(port: int, folder: Path) -> list[str]:
    (folder / "pod.toml").write_text(MANIFEST.format(port=port), encoding="utf-8")
    return [*POD, "run", "Go on and look.", "--quiet", "--output-format", "stream-json"]
