"""Started from a folder with packages of the same names, it is ours that run."""

import subprocess
import sys
from pathlib import Path

import pytest

from pod.__main__ import misplaced
from tests.command import ROOT, environment


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Make a workspace with a tools package of its own that must not be run."""
    tools = tmp_path / "work" / "tools"
    tools.mkdir(parents=True)
    (tools / "__init__.py").write_text('open("was-run", "w").close()\n')
    (tools / "base.py").write_text('open("was-run", "w").close()\n')
    return tools.parent


def run(flags: list[str], work: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *flags, "-m", "pod", "schema"],
        cwd=work,
        env=environment(work.parent),
        capture_output=True,
        text=True,
        check=False,
    )


def test_in_their_place_nothing_is_wrong() -> None:
    assert misplaced() is None


def test_a_workspaces_own_tools_are_not_run(work: Path) -> None:
    done = run(["-P"], work)

    assert done.returncode == 0, done.stderr
    assert not (work / "was-run").exists()


def test_without_p_it_says_what_is_in_the_way_and_runs_nothing(work: Path) -> None:
    done = run([], work)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"pod: the package 'tools' was found at {work / 'tools' / '__init__.py'},"
        f" not beside {ROOT / 'pod'}."
    )
    assert "python -P -m pod" in done.stderr
    assert not (work / "was-run").exists()


def test_a_folder_without_init_is_in_the_way_too(work: Path) -> None:
    """A regular package is found before it, wherever it is on the path."""
    for file in (work / "tools").iterdir():
        file.unlink()

    done = run([], work)

    assert done.returncode == 0, done.stderr
