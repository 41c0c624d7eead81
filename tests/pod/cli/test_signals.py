"""Ctrl-C, TERM and a reader that goes away leave a session that resumes."""

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from pod.entries import RunEnd, ToolStart
from pod.log import read_log
from tests.command import start
from tests.tools.sandbox.tiers import some_bash
from worker.items import ToolResult

MANIFEST = """
[model]
provider = "scripted"
id = "echo"
[tools]
builtin = ["bash"]
[session]
dir = "../sessions"
""" + some_bash()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pod.toml").write_text(MANIFEST)
    return folder


def wait_for(process: subprocess.Popen[bytes], word: bytes) -> list[bytes]:
    """Read the process's stdout up to the line that contains *word*."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError(f"no {word!r} in {lines}")


def slow_command(work: Path) -> list[str]:
    """Return arguments for a run with a Python tool that never comes back."""
    (work / "slow.py").write_text(
        'import time\n\n\ndef bash(command: str) -> str:\n    """Run."""\n'
        "    time.sleep(3600)\n"
        '    return "never"\n'
    )
    return [
        "run",
        "go",
        "--output-format",
        "stream-json",
        "-c",
        "tools.builtin=[]",
        "-c",
        'tools.python=["slow.py:bash"]',
    ]


@pytest.mark.parametrize(
    ("sent", "code", "reason"),
    [(signal.SIGINT, 130, "sigint"), (signal.SIGTERM, 143, "sigterm")],
    ids=["ctrl-c", "term"],
)
def test_a_signal_ends_the_run_resumably(
    sent: signal.Signals, code: int, reason: str, work: Path
) -> None:
    with start(slow_command(work), work) as process:
        wait_for(process, b'"type":"tool_start"')
        process.send_signal(sent)
        out, err = process.communicate(timeout=20)

    (log,) = (work.parent / "sessions").glob("*.jsonl")
    entries = read_log(log).entries
    end = entries[-1]
    assert process.returncode == code, err
    assert b'"type":"result"' in out.splitlines()[-1]
    assert f"pod run --resume {log.stem}".encode() in err
    assert isinstance(end, RunEnd)
    assert (end.outcome, end.reason, end.exit_code) == ("cancelled", reason, code)
    assert sum(isinstance(e, ToolStart) for e in entries) == 1
    assert any(
        isinstance(getattr(entry, "item", None), ToolResult) for entry in entries
    )


def test_a_reader_that_goes_away_ends_the_run_resumably(work: Path) -> None:
    # The tool comes back after the reader has gone; there is more to write then.
    os.mkfifo(work / "gone")
    (work / "waiting.py").write_text(
        'def bash(command: str) -> str:\n    """Run."""\n'
        '    return open("gone").read()\n'
    )
    command = [
        "run",
        "go",
        "--output-format",
        "stream-json",
        "-q",
        "-c",
        "tools.builtin=[]",
        "-c",
        'tools.python=["waiting.py:bash"]',
    ]
    with start(command, work) as process:
        wait_for(process, b'"type":"tool_start"')
        assert process.stdout is not None
        process.stdout.close()
        (work / "gone").write_text("seen")
        assert process.stderr is not None
        err = process.stderr.read().decode()

    assert "Traceback" not in err
    assert "Exception ignored" not in err
    (log,) = (work.parent / "sessions").glob("*.jsonl")
    end = read_log(log).entries[-1]
    assert isinstance(end, RunEnd)
    assert (end.outcome, end.reason) == ("cancelled", "broken_pipe")


def test_a_reader_that_stops_reading_cannot_hold_up_a_signal(work: Path) -> None:
    # More than a pipe holds, so that the writer is stuck when the signal comes.
    (work / "long.py").write_text(
        'def bash(command: str) -> str:\n    """Run."""\n    return "x" * 60_000\n'
    )
    command = [
        "run",
        "go",
        "--output-format",
        "stream-json",
        "-c",
        "tools.builtin=[]",
        "-c",
        'tools.python=["long.py:bash"]',
    ]
    with start(command, work) as process:
        assert process.stderr is not None
        for line in process.stderr:  # progress goes on though stdout is stuck
            if b"\xe2\x86\x90" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.stderr.close()
        process.wait(timeout=30)
        assert process.returncode == 143


def test_a_second_signal_ends_everything_at_once(work: Path) -> None:
    # Two different ones: two of the same may come as one.
    command = ["run", "go", "-q", "--output-format", "stream-json"]
    stubborn = "trap '' TERM; echo $$ >pid; mkfifo go; echo >go; sleep 60"
    (work / "stubborn.py").write_text(
        "from tools.process import run\n"
        "import os\nfrom pathlib import Path\n\n\n"
        'async def bash(command: str) -> str:\n    """Run."""\n'
        "    async def receive(data: bytes) -> None: ...\n"
        f'    await run(["bash", "-c", {stubborn!r}], cwd=Path.cwd(),'
        " env=os.environ, receive=receive)\n"
        '    return "never"\n'
    )
    more = ["-c", "tools.builtin=[]", "-c", 'tools.python=["stubborn.py:bash"]']
    with start([*command, *more], work) as process:
        wait_for(process, b'"type":"tool_start"')
        while not (work / "go").exists():
            assert process.poll() is None
        (work / "go").read_bytes()  # the command is there, and deaf to TERM
        child = os.pidfd_open(int((work / "pid").read_text()))
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)

    assert process.returncode in {130, 143}
    ended, _, _ = select.select([child], [], [], 10)
    os.close(child)
    assert ended
    (log,) = (work.parent / "sessions").glob("*.jsonl")
    assert not any(isinstance(entry, RunEnd) for entry in read_log(log).entries)
