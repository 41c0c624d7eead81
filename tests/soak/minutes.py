"""A soak: all kinds of faults in turns, on all processors, until the time is up."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count, cycle
from math import ceil
from multiprocessing import get_context
from typing import TypeVar

from msgspec import Struct

from tests.soak.disks import fail_disks
from tests.soak.kills import kill
from tests.soak.lines import spoil_lines
from tests.soak.processes import kill_processes
from tests.soak.races import RaceFindings, race_all

KINDS: dict[str, tuple[Callable[[int, int], Struct], int]] = {
    "kills": (kill, 400),
    "disks": (fail_disks, 20),
    "lines": (spoil_lines, 20),
    "races": (race_all, 1),
    "processes": (kill_processes, 3),
}
"""What one piece of work does, and how much of it."""

PIECE = 5
"""Seeds that a process takes at a time."""

T = TypeVar("T", bound=Struct)


def soak(
    minutes: float,
    seed: int,
    say: Callable[[str], None],
    events: Callable[[], list[str]] = list,
) -> list[str]:
    """Break things for so many minutes; return the promises that were broken.

    *say* hears the figures of each kind in the end, and once a minute. *events*
    gives what was wrong with events so far, and is asked now and then.
    """
    until = time.monotonic() + minutes * 60
    told = time.monotonic()
    found: dict[str, Struct] = {}
    processors = os.cpu_count() or 1
    # spawn: a forked child would have the parent's threads' locks
    with ProcessPoolExecutor(processors, mp_context=get_context("spawn")) as pool:
        work = _work(seed)
        running: dict[Future[Struct], str] = {}
        while running or time.monotonic() < until:
            while len(running) < processors and time.monotonic() < until:
                kind, seed_of_work = next(work)
                act, amount = KINDS[kind]
                running[pool.submit(act, amount, seed_of_work)] = kind
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                kind = running.pop(done)
                result = done.result()
                found[kind] = added(found[kind], result) if kind in found else result
            wrong_events = events()
            if time.monotonic() - told > 60:
                told = time.monotonic()
                broken = [*_wrong(found), *wrong_events]
                say(f"{(until - told) / 60:.1f} minutes left; broken: {broken}")
    for one in found.values():
        say(str(one))
    return [*_wrong(found), *events()]


def race_everywhere(seeds: int, seed: int) -> RaceFindings:
    """Let every pair race with so many seeds, on all processors.

    On two processes at least: some races wait for commands and for hooks.
    """
    processes = max(os.cpu_count() or 1, 2)
    size = min(PIECE, ceil(seeds / processes))
    found = RaceFindings()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running = [
            pool.submit(race_all, min(size, seeds - first), seed, first)
            for first in range(0, seeds, size)
        ]
        for done in running:
            found = added(found, done.result())
    return found


def _work(seed: int) -> Iterator[tuple[str, int]]:
    """Give pieces of work without end, each with a seed of its own."""
    for kind, number in zip(cycle(KINDS), count()):
        yield kind, seed * 1_000_003 + number


def added(one: T, other: T) -> T:
    """Return the sum of two findings, field by field."""
    sums: dict[str, object] = {}
    for name in one.__struct_fields__:
        a, b = getattr(one, name), getattr(other, name)
        sums[name] = Counter(a) + Counter(b) if isinstance(a, Counter) else a + b
    return type(one)(**sums)


def _wrong(found: dict[str, Struct]) -> list[str]:
    return [problem for one in found.values() for problem in getattr(one, "wrong", [])]
