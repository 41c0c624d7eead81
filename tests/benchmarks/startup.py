"""How long until something happens: each command beside the bare SDK.

*pod run* is timed to its first request: with the scripted provider to the
``request_start`` event, with the real client to the request at the provider.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.benchmarks.table import Cell, show, times
from tests.benchmarks.turns import run_floor, run_pod
from tests.command import POD, environment

ROUNDS = 7


def main() -> None:
    """Take all of them in turns, so that what the machine does meets all."""
    with TemporaryDirectory(prefix="pod-bench-") as name:
        folder = Path(name)
        (folder / "scripted.toml").write_text(
            '[model]\nprovider = "scripted"\nid = "echo:1"\n', encoding="utf-8"
        )
        ways = _ways(folder)
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                taken[name].append(1_000 * way())
    base = median(taken["import anthropic"])
    rows: list[Sequence[Cell]] = [
        [name, median(each), min(each), times(median(each), base)]
        for name, each in taken.items()
    ]
    show("Start", ["", "ms", "least ms", "x the SDK's import"], rows)


def _ways(folder: Path) -> dict[str, Callable[[], float]]:
    python = [sys.executable, "-c"]
    scripted = [*POD, "run", "Go on.", "--quiet", "-m", "scripted.toml"]
    stream = [*scripted, "--output-format", "stream-json"]
    return {
        "python": lambda: _whole([*python, "pass"], folder),
        "import anthropic": lambda: _whole([*python, "import anthropic"], folder),
        "pod --help": lambda: _whole([*POD, "--help"], folder),
        "pod session list": lambda: _whole([*POD, "session", "list"], folder),
        "pod run, scripted: first request": lambda: _until(
            stream, folder, b'"type":"request_start"'
        ),
        "pod run, scripted: whole": lambda: _whole(scripted, folder),
        "pod run, SDK: first request": lambda: run_pod(1).first,
        "bare trio + httpx2: first request": lambda: run_floor(1).first,
    }


def _whole(command: Sequence[str], folder: Path) -> float:
    started = time.perf_counter()
    subprocess.run(
        command,
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started


def _until(command: Sequence[str], folder: Path, sign: bytes) -> float:
    """Return the seconds until a line with *sign* in it is on stdout."""
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as client:
        assert client.stdout is not None
        found = any(sign in line for line in client.stdout)
        seconds = time.perf_counter() - started
        client.stdout.read()
    assert found, f"{command} never got so far"
    return seconds
