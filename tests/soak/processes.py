"""Real processes and real SIGKILL: sessions that are killed until their job is done."""

import tempfile
from pathlib import Path
from random import Random

from msgspec import Struct, field

from tests.pod.cli.test_kill import kill_sessions


class ProcessFindings(Struct):
    """What came of real kills. *wrong* are promises broken, each with its seed."""

    kills: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} processes killed with SIGKILL, every job done in the end;"
            f" broken promises: {len(self.wrong)}"
        )


def kill_processes(kills: int, seed: int) -> ProcessFindings:
    """Kill so many processes in the middle of a run, and let the next go on."""
    found = ProcessFindings(kills)
    with tempfile.TemporaryDirectory() as folder:
        try:
            kill_sessions(Path(folder), kills, Random(seed).getrandbits(32))
        except AssertionError as error:
            found.wrong.append(f"{error} (seed {seed})")
    return found
