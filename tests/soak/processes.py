"""Real processes and real SIGKILL, over sessions with runs, tools, compactions, navigation."""

import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired

from msgspec import Struct, field

from pod.entries import Compaction, ItemEntry, Leaf, RunEnd
from pod.log import read_log
from tests.command import start
from tests.pod.cli.test_kill import Acknowledged, run_and_kill
from tests.soak.promises import broken

CALLS = 12
MANIFEST = f"""
[model]
provider = "scripted"
id = "echo:{CALLS}"
[tools]
builtin = []
python = ["work.py:bash"]
[session]
dir = "../sessions"
[compaction]
mode = "mechanical"
order = ["mechanical"]
compact_threshold = 6_000
retained_tokens = 600
auto_read_budget = 300
directive_budget = 300
summary_cap = 1_000
summary_target = 600
[prune]
enabled = false
"""
TOOL = '''
def bash(command: str) -> str:
    """Do some work.

    Args:
        command: what to do
    """
    return "worked " * 700
'''
MOST_LINES = 7 * CALLS
"""Fewer events than a run has: most are killed, some get through."""
MOST_DELAY = 0.6
"""Seconds within which a navigation is killed; it takes about half as long."""


class ProcessFindings(Struct):
    """What came of real kills. *wrong* are promises broken, each with its seed."""

    kills: int = 0
    sessions: int = 0
    navigations: int = 0
    compactions: int = 0
    acknowledged: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} processes killed with SIGKILL in {self.sessions} sessions"
            f" with {self.compactions} compactions and {self.navigations}"
            f" navigations, {self.acknowledged} acknowledgements checked; broken"
            f" promises: {len(self.wrong)}"
        )


def kill_processes(kills: int, seed: int) -> ProcessFindings:
    """Kill so many processes in the middle of their work, and let the next go on."""
    found = ProcessFindings()
    while found.kills < kills:
        found.sessions += 1
        with tempfile.TemporaryDirectory() as folder:
            _kill_session(Path(folder), kills, f"{seed}/{found.sessions}", found)
    return found


def _kill_session(folder: Path, kills: int, seed: str, found: ProcessFindings) -> None:
    """Run, kill, navigate, kill, until a run got through three times."""
    random = Random(seed)
    work = folder / "work"
    work.mkdir()
    (work / "pod.toml").write_text(MANIFEST)
    (work / "work.py").write_text(TOOL)
    told: list[Acknowledged] = []
    arguments = ["run", "go"]
    finished = 0
    while finished < 3 and found.kills < kills:
        heard, code = run_and_kill(arguments, work, random.randint(1, MOST_LINES))
        told += heard
        found.kills += code == -9
        finished += code == 0
        if code not in (0, -9):
            found.wrong.append(f"pod {arguments} ended with {code} (seed {seed})")
            return
        logs = list((folder / "sessions").glob("*.jsonl"))
        if not logs:
            continue  # killed before there was a session
        (log,) = logs
        if random.random() < 0.5:
            found.kills += _navigate_and_kill(log, work, random)
        acknowledged = {event.seq: event.id for event in told if event.seq}
        problems = broken(log, acknowledged)
        found.acknowledged += len(acknowledged)
        found.wrong += [f"{problem} (seed {seed})" for problem in problems]
        if problems:
            return
        arguments = ["run", "on", "--resume", log.stem]
    (log,) = (folder / "sessions").glob("*.jsonl")
    entries = read_log(log).entries
    found.compactions += sum(isinstance(entry, Compaction) for entry in entries)
    found.navigations += sum(isinstance(entry, Leaf) for entry in entries)
    if not any(isinstance(entry, RunEnd) for entry in entries):
        found.wrong.append(f"no run came to an end (seed {seed})")


def _navigate_and_kill(log: Path, work: Path, random: Random) -> bool:
    """Start a navigation to any item and kill it anywhere; whether that came to be."""
    items = [entry for entry in read_log(log).entries if isinstance(entry, ItemEntry)]
    if not items:
        return False
    target = random.choice(items).id
    with start(["session", "goto", log.stem, target], work) as process:
        with suppress(TimeoutExpired):
            process.wait(random.uniform(0.05, MOST_DELAY))
        process.kill()
    return process.returncode == -9
