"""A machine where no sandbox works: an old kernel, a container, gVisor.

Nothing runs unconfined there unless somebody says so, and everybody is told how.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pod.exits import Exit
from tests.command import POD, Done, environment
from tests.tools.sandbox.tiers import need
from tools.sandbox.policy import Tier

LESSER = (sys.executable, "-P", "-m", "tests.tools.sandbox.lesser")
NEITHER = ("bwrap", "landlock", "--")
GVISOR = ("bwrap", "landlock", "openat2", "pidfd", "--")
SCRIPTED = ("-c", "model.provider=scripted", "-c", "model.id=echo")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("def f() -> int:\n    return 1\n")
    return folder


def pod(machine: tuple[str, ...], work: Path, *arguments: str) -> Done:
    done = subprocess.run(
        [*LESSER, *machine, *POD, *arguments],
        cwd=work,
        env=environment(work.parent),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("machine", [NEITHER, GVISOR], ids=["neither", "gvisor"])
def test_the_demo_works_and_says_that_there_is_no_sandbox(
    machine: tuple[str, ...], work: Path
) -> None:
    done = pod(machine, work, "demo")

    assert done.code == Exit.DONE, done.err
    assert done.err.splitlines()[0].startswith("pod: no sandbox works here")
    assert (work / "pod-report.md").is_file()
    assert "pod: " not in pod(machine, work, "demo", "-q").err


def test_no_run_starts_and_what_to_do_is_said(work: Path) -> None:
    done = pod(NEITHER, work, "run", "hi", *SCRIPTED)

    first, bwrap, landlock, last = done.err.splitlines()
    assert (done.code, done.out) == (Exit.USAGE, "")
    assert first == "pod: no sandbox for bash: none works on this machine"
    assert bwrap.startswith("  bwrap: ")
    assert bwrap.endswith(" --security-opt seccomp=unconfined.")
    assert landlock == (
        "  landlock: there is no Landlock. Linux 6.2 has what is needed."
    )
    assert last.startswith("  Or let commands do whatever you can: -c sandbox.mode=off")
    assert not list(work.parent.glob("state/**/*.jsonl"))


@pytest.mark.parametrize(
    "way_out",
    ["sandbox.mode=off", 'tools.builtin=["read_file"]'],
    ids=["off", "no bash"],
)
def test_what_is_said_helps(work: Path, way_out: str) -> None:
    done = pod(NEITHER, work, "run", "hi", "-q", *SCRIPTED, "-c", way_out)

    assert (done.code, done.err) == (Exit.DONE, "")


def test_the_doctor_says_what_a_run_would(work: Path) -> None:
    done = pod(NEITHER, work, "doctor", "--offline", *SCRIPTED)

    assert done.code == Exit.USAGE
    assert "error    sandbox " in done.out
    assert "-> let commands do whatever you can: -c sandbox.mode=off" in done.out
    assert done.out.endswith("A run would not start: 1 to mend.\n")


@pytest.mark.parametrize(
    ("missing", "tier"), [("landlock", "bwrap"), ("bwrap", "landlock")]
)
def test_one_of_the_two_is_enough(missing: str, tier: Tier, work: Path) -> None:
    need(tier)
    stream = ("--output-format", "stream-json")

    done = pod((missing, "--"), work, "run", "hi", "-q", *stream, *SCRIPTED)

    assert done.code == Exit.DONE, done.err
    assert json.loads(done.out.splitlines()[0])["sandbox"] == tier
