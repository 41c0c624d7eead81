"""Sessions whose answers come over a bad line, on a disk that works."""

import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import trio
from msgspec import Struct, field

from pod.log import read_log
from tests.soak.kills import clear, in_memory
from tests.soak.promises import broken, undelivered, unended
from tests.soak.story import goes_on, story
from tests.soak.traced import Told, TracedDisk

RATE = 0.3
"""The part of the answers that are spoiled."""


class LineFindings(Struct):
    """What came of bad lines. *wrong* are promises broken, each with its seed."""

    stories: int = 0
    spoiled: Counter[str] = field(default_factory=Counter)
    entries: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(self.spoiled.items()))
        return (
            f"{self.stories} stories over bad lines ({kinds}), {self.entries} entries"
            f" written; broken promises: {len(self.wrong)}"
        )


def spoil_lines(stories: int, seed: int) -> LineFindings:
    """Play so many stories from *seed*, each with spoiled answers."""
    found = LineFindings()
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        for number in range(1, stories + 1):
            spoil(Path(folder), f"{seed}/{number}", found)
    return found


def spoil(folder: Path, seed: str, found: LineFindings) -> None:
    random = Random(seed)
    path = folder / "s.jsonl"
    disk = TracedDisk()
    found.spoiled += trio.run(story, path, disk, random, RATE)
    found.stories += 1
    told = {op.seq: op.id for op in disk.trace if isinstance(op, Told)}
    found.entries += len(told)
    problems = broken(path, told) + undelivered(read_log(path).entries)
    problems += [f"in the stream: {each}" for each in unended(disk.stream)]
    problems = problems or trio.run(goes_on, path)
    found.wrong += [f"{problem} (seed {seed})" for problem in problems]
    clear(path)
