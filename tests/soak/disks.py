"""Disks that fail under a story: what was told stays, and the session goes on."""

import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import trio
from msgspec import Struct, field

from pod.entries import RunEnd
from pod.errors import LogFailed
from pod.log import read_log
from tests.soak.failing import FailingDisk, some_failure
from tests.soak.kills import clear, in_memory
from tests.soak.promises import broken, ended_twice
from tests.soak.story import goes_on, story
from tests.soak.traced import Told, Wrote


class DiskFindings(Struct):
    """What came of failing disks. *wrong* are promises broken, each with its seed."""

    stories: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    disk_full: int = 0
    """Runs that ended with that reason, in the log."""
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(self.failures.items()))
        return (
            f"{self.stories} stories on failing disks ({kinds}), {self.acknowledged}"
            f" acknowledgements checked, {self.disk_full} runs ended with disk_full;"
            f" broken promises: {len(self.wrong)}"
        )


def fail_disks(stories: int, seed: int) -> DiskFindings:
    """Play so many stories from *seed*, each on a disk that fails somewhere."""
    found = DiskFindings()
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        for number in range(1, stories + 1):
            fail_disk(Path(folder), f"{seed}/{number}", found)
    return found


def fail_disk(folder: Path, seed: str, found: DiskFindings) -> None:
    random = Random(seed)
    path = folder / "s.jsonl"
    failure = some_failure(90, random)
    disk = FailingDisk(failure, folder / "s.jsonl.reserve")
    with suppress(LogFailed):  # a log that failed stays so until it is opened again
        trio.run(story, path, disk, random)
    told = {op.seq: op.id for op in disk.trace if isinstance(op, Told)}
    found.stories += 1
    found.acknowledged += len(told)
    if disk.has_come:
        found.failures[failure.kind] += 1
    is_begun = any(isinstance(op, Wrote) for op in disk.trace)
    if is_begun and path.exists():
        problems = broken(path, told)
        problems = problems or trio.run(goes_on, path)
        ends = [e for e in read_log(path).entries if isinstance(e, RunEnd)]
        found.disk_full += sum(end.reason == "disk_full" for end in ends)
        problems += ended_twice(disk.stream)
        found.wrong += [f"{problem} (seed {seed}, {failure})" for problem in problems]
    clear(path)
