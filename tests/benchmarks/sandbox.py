"""What a sandbox adds to ``bash -c true``: each tier beside none, in turns.

The least of the figures is what an idle machine would show; a busy one adds to
the median several times over, since a sandbox is some processes more.
"""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Literal

import trio

from tests.benchmarks.table import Cell, show
from tools.bash import command_environment
from tools.launch import Launcher
from tools.process import UNCONFINED, run
from tools.sandbox.box import Box
from tools.sandbox.policy import Policy
from tools.sandbox.probe import find_bwrap, probe, surroundings_here

COMMANDS = 200


def main() -> None:
    """Run the commands, and print what each tier adds."""
    with TemporaryDirectory(prefix="pod-bench-") as name, ExitStack() as stack:
        folder = os.path.realpath(name)
        policy = Policy(cwd=folder, write=(folder,))
        environment = command_environment()
        around = surroundings_here(policy, environment["PATH"], environment.get("HOME"))
        ways: dict[str, tuple[Launcher, dict[str, str]]] = {
            "no sandbox": (UNCONFINED, environment)
        }
        for tier in _tiers():
            box = Box(tier, policy, around, find_bwrap() or "")
            opened = stack.enter_context(box.open())
            ways[tier] = (opened, opened.environment(environment))
        taken = trio.run(partial(_take, Path(folder), ways))
    base = taken["no sandbox"]
    rows: list[Sequence[Cell]] = [
        [
            name,
            median(each),
            min(each),
            median(each) - median(base),
            min(each) - min(base),
        ]
        for name, each in taken.items()
    ]
    load = os.getloadavg()[0]
    show(
        f"bash -c true, {COMMANDS} times (load {load:.1f} on {os.cpu_count()} cores)",
        ["", "median ms", "least ms", "added", "added to the least"],
        rows,
    )


def _tiers() -> list[Literal["bwrap", "landlock"]]:
    """Return the tiers that work here."""
    tiers: tuple[Literal["bwrap", "landlock"], ...] = ("bwrap", "landlock")
    return [tier for tier in tiers if probe(tier).tier == tier]


async def _take(
    folder: Path, ways: dict[str, tuple[Launcher, dict[str, str]]]
) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(COMMANDS):
        for name, (launcher, environment) in ways.items():
            taken[name].append(1_000 * await _one(folder, launcher, environment))
    return taken


async def _one(folder: Path, launcher: Launcher, environment: dict[str, str]) -> float:
    async def receive(chunk: bytes) -> None:
        pass

    started = time.perf_counter()
    await run(
        ["/bin/bash", "-c", "true"],
        cwd=folder,
        env=environment,
        receive=receive,
        launcher=launcher,
    )
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
