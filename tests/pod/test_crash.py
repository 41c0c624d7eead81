"""Kills a writer with SIGKILL, again and again, and looks at what is left."""

import subprocess
import sys
from pathlib import Path
from random import Random
from select import select

from pod.log import read_log
from pod.session import Session
from tests.pod.logs import HEADER

ROUNDS = 15


def killed(path: Path, random: Random) -> list[list[bytes]]:
    """Let a writer write for a random while; return what it said was safe."""
    command = [sys.executable, "-m", "tests.pod.crash_writer", str(path)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [*command, str(random.getrandbits(32))], stdout=subprocess.PIPE, cwd=root
    ) as writer:
        out = writer.stdout
        assert out
        assert out.readline() == b"open\n"
        select([], [], [], random.expovariate(1 / 0.03))
        writer.kill()
        lines = out.read().split(b"\n")[:-1]
    return [line.split() for line in lines]


def test_no_acknowledged_entry_is_lost_to_a_kill(tmp_path: Path) -> None:
    random = Random()
    path = tmp_path / "s1.jsonl"
    Session.create(path, HEADER).close()
    acknowledged: dict[int, str] = {}
    torn = 0

    for _ in range(ROUNDS):
        acknowledged.update({int(seq): id.decode() for seq, id in killed(path, random)})
        left = read_log(path)
        torn += left.torn is not None
        by_seq = {entry.seq: entry.id for entry in left.entries}

        assert left.damage == ()
        assert {seq: by_seq.get(seq) for seq in acknowledged} == acknowledged
        with Session.open(path) as session:
            assert len(session.items) == len(session.tree) - torn
        assert read_log(path).torn is None
    assert acknowledged
