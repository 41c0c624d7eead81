"""kill -9 at any moment of a run with tools loses nothing, and the job gets done."""

import random
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from pod.context import context
from pod.entries import RunEnd
from pod.log import read_log
from pod.tree import Tree
from tests.command import start
from tests.tools.sandbox.tiers import some_bash
from worker.history import faults
from worker.items import AssistantText, ToolCall, ToolResult

CALLS = 12
MANIFEST = f"""
[model]
provider = "scripted"
id = "echo:{CALLS}"
[tools]
builtin = ["bash"]
[session]
dir = "../sessions"
""" + some_bash()
MOST_LINES = 9 * CALLS
"""About as many events as a run has: the last kills come after its end."""


class Acknowledged(Struct, frozen=True):
    """What a listener knows of an entry."""

    session: str
    type: str
    seq: int = 0
    id: str = ""


def run_and_kill(
    arguments: list[str], work: Path, after: int
) -> tuple[list[Acknowledged], int]:
    """Run ``pod``, kill it behind the line *after*; return what it had told.

    What was in the pipe when it died was told, too.
    """
    told = []
    with start([*arguments, "--output-format", "stream-json", "-q"], work) as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout, start=1):
            if line.endswith(b"\n"):
                told.append(msgspec.json.decode(line, type=Acknowledged))
            if number == after:
                process.kill()
    return told, process.returncode


def check_log(log: Path, told: list[Acknowledged]) -> None:
    """Hold the log to what was told of it."""
    scan = read_log(log)
    written = {entry.seq: entry.id for entry in scan.entries}
    lost = [event for event in told if event.seq and written.get(event.seq) != event.id]
    assert lost == []
    assert scan.damage == ()


def kill_until_done(work: Path, chance: random.Random) -> int:
    """Kill a run again and again until one gets through; return how often."""
    told: list[Acknowledged] = []
    arguments = ["run", "go"]
    kills = 0
    while True:
        heard, code = run_and_kill(arguments, work, chance.randint(1, MOST_LINES))
        told += heard
        (log,) = (work.parent / "sessions").glob("*.jsonl")
        check_log(log, told)
        if code != -9:
            break
        kills += 1
        arguments = ["run", "--resume", log.stem]
        if not any(event.type == "input" for event in told):
            arguments = ["run", "go", "--resume", log.stem]  # it never heard of it
    scan = read_log(log)
    if code == 2:
        # Killed behind the end of its run, told or not: nothing is left to do.
        ends = [entry for entry in scan.entries if isinstance(entry, RunEnd)]
        assert ends[-1].outcome == "finished"
    else:
        assert code == 0
    tree = Tree(scan.entries)
    items = context(tree.path(tree.leaf))
    calls = [item.call_id for item in items if isinstance(item, ToolCall)]
    answers = [item.call_id for item in items if isinstance(item, ToolResult)]
    assert faults(items) == []
    assert answers == calls
    assert len(calls) == CALLS
    assert isinstance(items[-1], AssistantText)
    assert items[-1].text == f"Done after {CALLS} calls."
    return kills


def kill_sessions(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    done = 0
    number = 0
    while done < kills:
        number += 1
        work = folder / str(number) / "work"
        work.mkdir(parents=True)
        (work / "pod.toml").write_text(MANIFEST)
        done += kill_until_done(work, chance)


@pytest.mark.timeout(400)
def test_ten_kills_lose_nothing_and_every_job_gets_done(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  shown when it fails

    kill_sessions(tmp_path, 10, seed)
