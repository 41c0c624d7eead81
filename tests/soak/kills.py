"""Kills at every write: what a process, or the power, leaves behind when it goes."""

import tempfile
from pathlib import Path
from random import Random

import trio
from msgspec import Struct

from tests.soak.images import Image, killed, moments, powerless
from tests.soak.promises import broken
from tests.soak.story import goes_on, story
from tests.soak.traced import TracedDisk

GOES_ON = 0.02
"""How many of the sessions are gone on with afterwards: a run costs much more than
opening."""


class KillFindings(Struct):
    """What came of kills. *wrong* are promises broken, each with its seed."""

    points: int = 0
    power: int = 0
    again: int = 0
    """Kills while a session that was killed before is opened."""
    stories: int = 0
    entries: int = 0
    acknowledged: int = 0
    gone_on: int = 0
    wrong: list[str] = []

    def __str__(self) -> str:
        return (
            f"{self.points} kill points in {self.stories} stories"
            f" ({self.power} by power loss, {self.again} while opening again),"
            f" {self.entries} entries written, {self.acknowledged} acknowledgements"
            f" checked, {self.gone_on} sessions gone on with; broken promises:"
            f" {len(self.wrong)}"
        )


def kill(points: int, seed: int) -> KillFindings:
    """Kill stories made from *seed* at *points* places at least; return what was found."""
    found = KillFindings()
    number = 0
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        while found.points < points:
            number += 1
            _kill_story(Path(folder), f"{seed}/{number}", points, found)
    return found


def _kill_story(folder: Path, seed: str, points: int, found: KillFindings) -> None:
    random = Random(seed)
    disk = TracedDisk()
    path = folder / "whole.jsonl"
    trio.run(story, path, disk, random)
    found.stories += 1
    found.entries += len(path.read_bytes().splitlines()) - 1
    clear(path)
    for at in moments(disk.trace)[1:]:  # before its header is written there is no log
        for crash in (killed, powerless):
            if found.points >= points:
                return
            image = crash(b"", disk.trace, at, random)
            if b"\n" not in image.data:
                continue
            found.points += 1
            found.power += crash is powerless
            found.acknowledged += len(image.acknowledged)
            found.wrong += [
                f"{problem} (seed {seed}, {crash.__name__} at {at})"
                for problem in _problems(folder / "s.jsonl", image, random, found)
            ]


def _problems(
    path: Path, image: Image, random: Random, found: KillFindings
) -> list[str]:
    """Open what the crash left; half of the time that is killed, too."""
    path.write_bytes(image.data)
    try:
        if random.random() < 0.5:
            disk = TracedDisk(len(image.data))
            problems = broken(path, image.acknowledged, disk)
            if (places := moments(disk.trace)) and not problems:
                found.points += 1
                found.again += 1
                again = killed(image.data, disk.trace, random.choice(places), random)
                path.write_bytes(again.data)
                problems = broken(path, image.acknowledged | again.acknowledged)
        else:
            problems = broken(path, image.acknowledged)
        if random.random() < GOES_ON and not problems:
            found.gone_on += 1
            problems = trio.run(goes_on, path)
        return problems
    finally:
        clear(path)


def clear(path: Path) -> None:
    for file in path.parent.glob(path.stem + "*"):
        if file.is_dir():
            for inner in file.iterdir():
                inner.unlink()
            file.rmdir()
        else:
            file.unlink()


def in_memory() -> str | None:
    """The folder of a file system in memory, where there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
