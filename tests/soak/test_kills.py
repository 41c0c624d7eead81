"""Kill points and failing disks, some of those that ``python -m tests.soak`` tries.

The seed is another one each time and is in the message of what fails.
"""

import os
import subprocess
from collections import Counter
from pathlib import Path
from random import Random, SystemRandom

import pytest
import trio

from pod.log import read_log
from tests.soak.disks import fail_disks
from tests.soak.images import killed, moments, powerless
from tests.soak.kills import kill
from tests.soak.lines import LineFindings, spoil_lines
from tests.soak.minutes import added, race_everywhere
from tests.soak.promises import broken
from tests.soak.racers import PAIRS
from tests.soak.races import left_running
from tests.soak.story import story
from tests.soak.traced import Told, TracedDisk, Wrote
from tools.proc import children

POINTS = 500
STORIES = 60
LINES = 20
SEEDS = 10


def new_seed() -> int:
    return SystemRandom().randrange(2**32)


def test_nothing_acknowledged_is_lost_at_five_hundred_kill_points() -> None:
    found = kill(POINTS, new_seed())

    assert found.wrong == []
    assert found.points >= POINTS
    assert min(found.power, found.again, found.acknowledged) > 0


def test_a_session_on_a_disk_that_fails_loses_nothing_and_goes_on() -> None:
    found = fail_disks(STORIES, new_seed())

    assert found.wrong == []
    assert found.failures.total() > STORIES / 4


def test_answers_over_a_bad_line_leave_sessions_whole() -> None:
    found = spoil_lines(LINES, new_seed())

    assert found.wrong == []
    assert found.spoiled.total() > LINES


@pytest.mark.timeout(300)
def test_any_two_things_at_once_leave_the_session_whole() -> None:
    found = race_everywhere(SEEDS, new_seed())

    assert found.wrong == []
    assert found.pairs == dict.fromkeys(map(" x ".join, PAIRS), SEEDS)
    assert found.compactions > len(PAIRS)
    assert min(found.commands, found.hung, found.dropped) > SEEDS


def test_a_process_that_a_race_left_behind_is_told_until_it_is_buried() -> None:
    before = {*children(os.getpid())}

    with subprocess.Popen(["sleep", "600"]) as process:
        running = left_running(before)
        process.kill()
    buried = left_running(before)

    assert (running, buried) == (["left running: sleep"], [])


def test_findings_add_up() -> None:
    one = LineFindings(2, Counter(cut=1), 5, ["a"])
    other = LineFindings(3, Counter(cut=2, late=1), 4, ["b"])

    assert added(one, other) == LineFindings(5, Counter(cut=3, late=1), 9, ["a", "b"])


def told_story(path: Path, seed: int) -> TracedDisk:
    disk = TracedDisk()
    trio.run(story, path, disk, Random(seed))
    return disk


def test_the_trace_of_a_story_is_its_log_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    disk = told_story(path, 1)

    written = b"".join(op.data for op in disk.trace if isinstance(op, Wrote))
    assert written == path.read_bytes()
    told = {op.seq: op.id for op in disk.trace if isinstance(op, Told)}
    assert told == {entry.seq: entry.id for entry in read_log(path).entries}


def test_a_killed_process_leaves_what_it_wrote_and_the_power_what_was_synced(
    tmp_path: Path,
) -> None:
    disk = told_story(tmp_path / "s.jsonl", 1)
    shortest = 1.0

    for at in moments(disk.trace):
        kill_image = killed(b"", disk.trace, at, Random(at))
        power_image = powerless(b"", disk.trace, at, Random(at))
        common = power_image.data.rstrip(b"\0")
        assert kill_image.data.startswith(common)
        assert power_image.acknowledged.items() <= kill_image.acknowledged.items()
        shortest = min(shortest, len(common) / max(len(kill_image.data), 1))
    assert shortest < 0.9


def test_a_log_that_lost_an_acknowledged_entry_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    disk = told_story(path, 1)
    told = {op.seq: op.id for op in disk.trace if isinstance(op, Told)}
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    last = max(told)

    problems = broken(path, told)

    assert [problem for problem in problems if f"entry {last} " in problem] != []
