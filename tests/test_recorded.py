import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pod import events
from pod.events import Closing, Status, line
from tests.command import ROOT, environment, pod
from tests.events_check import Checker
from tests.recorded import NotRecorded, Recorded, holding, recording

WRONG = (
    "import os, sys; from pod.events import *; from worker.events import *\n"
    "line(Status(None), session='s', at='')\n"
)
GONE = "os.kill(os.getpid(), 9)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder for events that the tests' own check does not see."""
    made = tmp_path / "events"
    made.mkdir()
    return made


def python(code: str, folder: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=environment(folder, **recording(folder)),
        check=False,
    )
    return done.returncode


@pytest.mark.parametrize(("end", "code"), [("", 0), (GONE, -signal.SIGKILL)])
def test_a_wrong_event_of_another_process_is_noticed(
    folder: Path, end: str, code: int
) -> None:
    checker = Checker()

    ended = python(WRONG + end, folder)
    Recorded(folder).take(checker)

    assert ended == code
    assert checker.checked == 1
    assert "cannot be read by a client" in checker.wrong[0]


def test_a_wrong_event_of_a_forked_process_is_noticed(folder: Path) -> None:
    checker = Checker()
    fork = "if os.fork(): sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    before = "import os, sys\nfrom pod import events\n"
    told = "events.line(events.Status('idle'), session='s', at='')\n"

    assert python(before + told + fork + WRONG, folder) == 0
    Recorded(folder).take(checker)

    assert checker.checked == 2
    assert len(checker.wrong) == 1


def test_a_fork_of_the_tests_themselves_is_recorded() -> None:
    told = line(Status("idle"), session="s", at="")
    read, write = os.pipe()

    child = os.fork()
    if child == 0:
        (recorder,) = events.checks
        os.write(write, type(recorder).__name__.encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(read, 100) == b"Recorder"
    assert told
    os.close(read)
    os.close(write)


async def test_each_line_of_a_real_run_is_looked_at(
    folder: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    seen: list[bytes] = []

    done = await pod(
        *("run", "go", "--output-format", "stream-json"),
        *("-c", "model.provider=scripted", "-c", "model.id=echo:2"),
        cwd=work,
        env=recording(folder),
    )
    Recorded(folder).take(seen.append)

    assert done.code == 0, done.err
    assert b"".join(seen).decode() == done.out


def test_a_line_is_taken_once_and_a_torn_one_never(folder: Path) -> None:
    seen: list[bytes] = []
    recorded = Recorded(folder)
    ours = folder / f"{os.getpid()}.1"
    theirs = folder / "999999999.1"

    ours.write_bytes(b"one\ntw")
    theirs.write_bytes(b"three\nfo")
    recorded.take(seen.append)
    with ours.open("ab") as file:
        file.write(b"o\n")
    recorded.take(seen.append)

    assert seen == [b"one\n", b"three\n", b"two\n"]
    assert list(folder.iterdir()) == [ours]  # who is gone writes no more


def test_a_file_that_is_full_is_gone_once_it_was_read(folder: Path) -> None:
    seen: list[bytes] = []
    told = "from pod.events import Closing, line\n"
    told += "for number in range(5): line(Closing('x' * 3_000_000), session='s', at='')"

    assert python(told, folder) == 0
    files = sorted(path.suffix for path in folder.iterdir())
    Recorded(folder).take(seen.append)

    assert files == [".1", ".2", ".3"]
    assert seen == [line(Closing("x" * 3_000_000), session="s", at="")] * 5
    assert list(folder.iterdir()) == []


def test_a_command_holds_what_it_tells_and_what_it_starts(tmp_path: Path) -> None:
    before = dict(os.environ), list(events.checks)

    with holding() as held:
        line(Status("idle"), session="s", at="")
        code = "from pod.events import *; line(Status(None), session='s', at='')"
        command = [sys.executable, "-P", "-c", code]
        subprocess.run(command, env=environment(tmp_path), check=True)
        (wrong,) = held.wrong()
        again = held.wrong()

    assert "cannot be read by a client" in wrong
    assert (again, held.checked) == ([wrong], 2)
    assert (dict(os.environ), list(events.checks)) == before


def test_where_files_are_small_lines_go_on_in_the_next(folder: Path) -> None:
    seen: list[bytes] = []
    told = (
        "from pod.events import Closing, line\n"
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\n"
        "for number in range(20): line(Closing(str(number)), session='s', at='')\n"
    )

    assert python(told, folder) == 0
    Recorded(folder).take(seen.append)

    assert seen == [
        line(Closing(str(number)), session="s", at="") for number in range(20)
    ]


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-P", "-m", "pod", "schema"],
        [f"{sys.prefix}/bin/pod", "schema"],
        ["bash", "-c", "cd / && pod schema"],
        "pod schema",
        [sys.executable, "-c", "from pod import events"],
        [sys.executable, "-m", "tests.soak"],
    ],
)
def test_a_process_that_would_not_be_recorded_is_not_started(
    command: str | list[str],
) -> None:
    with pytest.raises(NotRecorded, match=r"tests\.command\.environment"):
        subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, check=False)


def test_what_is_none_of_our_code_may_be_started_in_any_environment() -> None:
    for command in (["echo", "pod"], ["ls", "/pod", "-d"], [sys.executable, "-V"]):
        subprocess.run(command, env={}, check=False, capture_output=True)
