"""Two processes, one session: one writes, the others read, or are told who has it."""

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from pod.entries import RunEnd, RunStart
from pod.log import SessionLog, read_log
from tests.command import POD, environment
from tests.constrained import unconstrained
from tests.pod.logs import talk, written
from tests.soak.promises import broken

MANIFEST = """
[model]
provider = "scripted"
id = "echo:1"
[tools]
builtin = ["bash"]
[sandbox]
mode = "off"
[session]
dir = "../sessions"
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pod.toml").write_text(MANIFEST)
    return folder


@pytest.fixture
def log(work: Path) -> Path:
    """A session of two messages of *work*'s."""
    path = work.parent / "sessions" / "s1.jsonl"
    path.parent.mkdir()
    path.write_bytes(written(talk(2)).replace(b'"/work"', b'"%s"' % bytes(work)))
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("run", "more", "--resume", "s1"),
        ("run", "more", "--continue"),
        ("serve", "--resume", "s1", "--listen", "stdio://"),
        ("compact", "s1"),
        ("session", "goto", "s1", "e1"),
        ("session", "label", "s1", "e1", "x"),
        ("session", "repair", "s1"),
    ],
    ids=" ".join,
)
def test_who_would_write_is_told_who_does_and_changes_nothing(
    command: tuple[str, ...], work: Path, log: Path
) -> None:
    with SessionLog.open(log).log:
        before = log.read_bytes()
        done = unconstrained(work, *command)
        after = log.read_bytes()

    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1] == (
        f"pod: session s1 is in use by process {os.getpid()}: end that one first, or"
        " fork it"
    )
    assert after == before


@pytest.mark.parametrize(
    "command",
    [
        ("session", "list"),
        ("session", "show", "s1"),
        ("session", "tree", "s1"),
        ("session", "fork", "s1"),
        ("export", "s1"),
        ("compact", "s1", "--mode", "mechanical", "--dry-run"),
    ],
    ids=" ".join,
)
def test_who_reads_or_forks_waits_for_nobody(
    command: tuple[str, ...], work: Path, log: Path
) -> None:
    with SessionLog.open(log).log:
        before = log.read_bytes()
        done = unconstrained(work, *command)

    assert "in use" not in done.err
    assert done.code in (0, 7), done.err  # 7: there is nothing to compact
    assert log.read_bytes() == before


def test_of_many_at_once_those_that_have_it_write_and_the_others_say_so(
    work: Path, log: Path
) -> None:
    words = ["run", "more", "-q", "--resume", "s1"]
    running = [
        subprocess.Popen(
            [*POD, *words],
            cwd=work,
            env=environment(work.parent),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    said = [process.communicate(timeout=60) for process in running]

    codes = Counter(process.returncode for process in running)
    entries = read_log(log).entries
    assert set(codes) <= {0, 1}
    assert codes[0] >= 1
    assert [out for out, _ in said].count(b"Done after 1 call.\n") == codes[0]
    assert sum(b"is in use by process" in err for _, err in said) == codes[1]
    assert sum(isinstance(entry, RunStart) for entry in entries) == codes[0]
    assert sum(isinstance(entry, RunEnd) for entry in entries) == codes[0]
    assert broken(log, {entry.seq: entry.id for entry in entries}) == []
