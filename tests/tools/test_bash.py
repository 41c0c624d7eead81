import os
import re
import sys
from pathlib import Path
from typing import IO

import msgspec
import pytest
import trio
from trio.testing import MockClock

from tests.tools.processes import Marker, names_in, zombies
from tools import bash as module, process
from tools.base import Call, Spill, ToolError, ToolOutput
from tools.bash import CAP, Bash, command_environment
from tools.spill import SpillFolder


class Full:
    """A spill folder on a disk that is full."""

    def open(self, name: str) -> tuple[Path, IO[bytes]]:
        raise OSError(28, "No space left on device")


class Shell:
    """A bash tool in a folder of its own, called as the loop calls it."""

    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "work"
        self.cwd.mkdir()
        self.spill: Spill = SpillFolder(folder / "spill")
        self.progress: list[str] = []
        self.bash = Bash(self.cwd)

    async def run(self, command: str, **more: float) -> ToolOutput:
        arguments = msgspec.json.encode({"command": command, **more})
        call = Call("call_1", self.spill, self.progress.append)
        output = await self.bash.run(arguments, call)
        return msgspec.structs.replace(
            output,
            summary=_without_times(output.summary),
            content=_without_times(output.content or ""),
        )


def _without_times(text: str) -> str:
    return re.sub(r"(?<!timed out )after \d+\.\d s", "after _ s", text)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


async def test_a_command_answers_with_its_output_and_exit_code(shell: Shell) -> None:
    output = await shell.run("echo out; echo err >&2; pwd")

    assert output == ToolOutput(
        summary="bash: exit 0 after _ s: echo out; echo err >&2; pwd",
        content=f"out\nerr\n{shell.cwd}\n[exit 0 after _ s]",
    )


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("true", "[no output]\n[exit 0 after _ s]"),
        ("echo no; exit 3", "no\n[exit 3 after _ s]"),
        ("exit 255", "[no output]\n[exit 255 after _ s]"),
        ("kill -SEGV $$", "[no output]\n[killed by SIGSEGV after _ s]"),
        ("(exit 139)", "[no output]\n[exit 139 (SIGSEGV) after _ s]"),
        ("kill -40 $$", "[no output]\n[killed by signal 40 after _ s]"),
        ("printf ' a\\n\\n b\\n\\n'", " a\n\n b\n[exit 0 after _ s]"),
        ("-x", "{bash}: line 1: -x: command not found\n[exit 127 after _ s]"),
        ("cat", "[no output]\n[exit 0 after _ s]"),
        ("printf '10%%\\r50%%\\r100%%\\n'", "100%\n[exit 0 after _ s]"),
        (
            "printf '\\033[31mred\\033[0m'",
            "red\n[escape sequences taken out]\n[exit 0 after _ s]",
        ),
        (
            "printf 'a\\0\\377z'",
            "a␀\ufffdz\n[control characters shown as ␀-like pictures]\n[exit 0 after _ s]",
        ),
        ("echo „Größe“", "„Größe“\n[exit 0 after _ s]"),
    ],
)
async def test_the_content_says_all_there_is(
    shell: Shell, command: str, content: str
) -> None:
    output = await shell.run(command)

    path = output.content and output.content.partition(": line")[0]
    assert output.content == content.replace("{bash}", path or "")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("  true  ", "true"),
        ("true\nfalse || true", "true …"),
        ("true " + "x" * 200, "true " + "x" * 75 + "…"),
    ],
)
async def test_the_summary_shows_the_first_line_of_the_command(
    shell: Shell, command: str, shown: str
) -> None:
    output = await shell.run(command)

    assert output.summary == f"bash: exit 0 after _ s: {shown}"


async def test_at_its_time_limit_a_command_is_ended_and_its_output_kept(
    shell: Shell, mock_clock: MockClock
) -> None:
    marker = Marker()
    os.mkfifo(shell.cwd / "begun")
    command = f"echo begun; echo > begun; {marker.sleep}; echo never"
    outputs: list[ToolOutput] = []

    async def run() -> None:
        outputs.append(await shell.run(command, timeout=0.3))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.to_thread.run_sync((shell.cwd / "begun").read_text)
        mock_clock.jump(0.3)
        mock_clock.rate = 1

    [output] = outputs
    assert output.summary.startswith("bash: timed out after 0.3 s: echo begun")
    assert output.content == (
        "begun\n[everything the command had started was ended]\n[timed out after 0.3 s]"
    )
    assert (marker.alive(), zombies()) == ([], [])


async def test_the_usual_time_limit_holds_where_none_is_asked_for(
    shell: Shell,
) -> None:
    shell.bash = Bash(shell.cwd, default_timeout=0.2)

    output = await shell.run("sleep 60")

    assert output.summary == "bash: timed out after 0.2 s: sleep 60"


async def test_ended_background_processes_are_named(shell: Shell) -> None:
    marker = Marker()

    output = await shell.run(
        f"{marker.sleep} & {marker.sleep} & setsid {marker.sleep} & echo up; sleep 0.1"
    )

    assert output.content == (
        "up\n[3 processes left in the background ended too: sleep (3)]\n"
        "[exit 0 after _ s]"
    )
    assert marker.alive() == []


async def test_a_cancel_leaves_nothing_behind_and_closes_the_file(
    shell: Shell, tmp_path: Path
) -> None:
    marker = Marker()

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shell.run, f"yes | head -c 200000; {marker.sleep}; true")
            await marker.wait_asleep()
            scope.cancel()

    assert (scope.cancelled_caught, marker.alive(), zombies()) == (True, [], [])
    assert names_in(tmp_path / "spill") == ["bash.txt"]


async def test_long_output_keeps_both_ends_and_goes_to_a_file(
    shell: Shell, tmp_path: Path
) -> None:
    whole = "".join(f"{number}\n" for number in range(1, 50_001))

    output = await shell.run("seq 50000")

    path = tmp_path / "spill" / "bash.txt"
    head, gap, tail = re.split(r"(\[… \d+ bytes left out …\])", output.content or "")
    *lines, where, end = tail.strip("\n").splitlines()
    last = "\n".join(lines)
    assert whole.startswith(head)
    assert whole.endswith(last + "\n")
    assert f" {len(whole) - len(head) - len(last) - 1} bytes" in gap
    assert where == f"[the complete output ({len(whole)} bytes) is in {path}]"
    assert end == "[exit 0 after _ s]"
    assert _text(path) == whole
    assert len(output.content or "") < 65_536


def _text(path: Path) -> str:
    return path.read_text()


async def test_one_endless_line_is_cut_inside(shell: Shell) -> None:
    output = await shell.run("head -c 1000000 /dev/zero | tr '\\0' x")

    gap = f"[… {1_000_000 - CAP} bytes left out …]"
    half = "x" * (CAP // 2)
    assert (output.content or "").startswith(f"{half}\n{gap}\n{half}\n[")


async def test_a_flood_neither_fills_the_memory_nor_takes_long(
    tmp_path: Path,
) -> None:
    """200 MB in a process of its own, whose peak is its own too."""
    program = (
        "import resource, sys, trio; from pathlib import Path\n"
        "from tools.base import Call; from tools.bash import Bash\n"
        "from tools.spill import SpillFolder\n"
        "call = Call('1', SpillFolder(Path(sys.argv[1])), lambda line: None)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        'trio.run(Bash(Path("/")).run, b\'{"command": "yes | head -c 200M"}\', call)\n'
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )

    with trio.fail_after(20):
        ran = await trio.run_process(
            [sys.executable, "-c", program, str(tmp_path)],
            capture_stdout=True,
            cwd=Path(__file__).parents[2],
        )

    assert _size(tmp_path / "bash.txt") == 200 * 1024**2
    assert int(ran.stdout) < 16 * 1024  # KiB
    _remove(tmp_path / "bash.txt")


def _size(path: Path) -> int:
    return path.stat().st_size


def _remove(path: Path) -> None:
    path.unlink()


async def test_a_full_disk_does_not_lose_the_answer(shell: Shell) -> None:
    shell.spill = Full()

    output = await shell.run("seq 50000; exit 4")

    assert (output.content or "").startswith("1\n2\n")
    assert (output.content or "").endswith(
        "\n50000\n"
        "[the complete output was not kept: writing failed: No space left on device]\n"
        "[exit 4 after _ s]"
    )


async def test_progress_is_the_newest_line_and_comes_slowly(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROGRESS_INTERVAL", 0.2)

    await shell.run('for i in {1..30}; do echo; echo "line $i"; sleep 0.02; done')

    assert 2 <= len(shell.progress) <= 5
    assert all(re.fullmatch(r"line \d+", line) for line in shell.progress)


async def test_a_very_long_command_runs(shell: Shell) -> None:
    text = "x" * 300_000

    output = await shell.run(f"printf %s '{text}' | wc -c; echo $PWD; cat")

    assert output.content == f"300000\n{shell.cwd}\n[exit 0 after _ s]"


async def test_a_very_long_command_on_a_full_disk_is_a_clear_error(
    shell: Shell,
) -> None:
    shell.spill = Full()

    with pytest.raises(ToolError) as caught:
        await shell.run("x" * 200_000)

    assert str(caught.value) == (
        "a command of 200000 bytes needs a file, and that failed: No space left on "
        "device. Send at most 100000 bytes."
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (b"{}", "missing: command. The arguments are: command, timeout."),
        (
            b'{"command": "x", "timeout": 3601}',
            "timeout: expected a number <= 3600.0, got 3601",
        ),
        (b'{"command": "x", "timeout": 0}', "timeout: expected a number > 0.0, got 0"),
        (
            b'{"cmd": "x"}',
            "there is no argument cmd (did you mean command?); missing: command. The arguments are: command, timeout.",
        ),
        (
            b'{"command": "a\\u0000b"}',
            "command: it contains a NUL, which no command line can: write \\0 for printf, say",
        ),
    ],
)
async def test_wrong_arguments_say_what_to_do(
    shell: Shell, arguments: bytes, error: str
) -> None:
    call = Call("call_1", shell.spill, shell.progress.append)

    with pytest.raises(ToolError) as caught:
        await shell.bash.run(arguments, call)

    assert str(caught.value) == error


async def test_a_machine_without_bash_is_a_clear_error(
    shell: Shell, tmp_path: Path
) -> None:
    shell.bash = Bash(shell.cwd, environment={"PATH": str(tmp_path)})

    with pytest.raises(ToolError, match="there is no bash on this machine"):
        await shell.run("true")


async def test_a_working_directory_that_is_gone_is_a_clear_error(
    shell: Shell,
) -> None:
    await shell.run('rmdir "$PWD"')

    with pytest.raises(ToolError, match="work is gone: no command can be run"):
        await shell.run("true")


async def test_nothing_waits_for_a_person(shell: Shell) -> None:
    with trio.fail_after(20):
        output = await shell.run(
            "git init -q . && git config user.name n && git config user.email e && "
            "git commit -q --allow-empty -m first && git commit -q --amend --allow-empty && "
            "git log --oneline | wc -l; read answer; echo [$answer]; $EDITOR file; "
            "git fetch -q https://localhost:9/none 2>/dev/null; python3 -c 'input()' "
            "2>&1 | tail -1"
        )

    assert output.content == (
        "1\n[]\nEOFError: EOF when reading a line\n[exit 0 after _ s]"
    )


async def test_twenty_commands_at_once(shell: Shell) -> None:
    outputs: dict[int, str | None] = {}

    async def run(number: int) -> None:
        outputs[number] = (await shell.run(f"sleep 0.1; echo {number}")).content

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(run, number)

    assert outputs == {n: f"{n}\n[exit 0 after _ s]" for n in range(20)}


async def test_a_child_that_ignores_the_time_limit_is_killed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_GRACE", 0.2)
    marker = Marker()

    with trio.fail_after(30):
        await shell.run(
            f"(trap '' TERM; {marker.sleep}; {marker.sleep}) & wait", timeout=0.2
        )

    assert (marker.alive(), zombies()) == ([], [])


def test_the_environment_is_a_short_list_and_the_names_given() -> None:
    source = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LC_ALL": "C.UTF-8",
        "ANTHROPIC_API_KEY": "key",
        "AWS_SECRET_ACCESS_KEY": "key",
        "BASH_ENV": "/evil",
        "LD_PRELOAD": "evil.so",
        "VIRTUAL_ENV": "/venv",
        "PAGER": "less",
    }

    seen = command_environment(["VIRTUAL_ENV", "ANTHROPIC_API_KEY"], source=source)

    inherited = {key: source[key] for key in ("PATH", "HOME", "LC_ALL", "VIRTUAL_ENV")}
    assert seen == {**module.UNATTENDED, **inherited}


def test_a_person_may_name_what_is_set_for_nobody_being_there() -> None:
    seen = command_environment(["PAGER"], source={"PAGER": "less"})

    assert (seen["PAGER"], seen["PATH"]) == ("less", os.defpath)


async def test_the_key_of_the_provider_is_not_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hunter2")
    shell = Shell(tmp_path)

    output = await shell.run("env")

    assert "hunter2" not in (output.content or "")


def test_the_model_is_told_where_and_how_long_a_command_runs(tmp_path: Path) -> None:
    bash = Bash(tmp_path, default_timeout=90)

    assert f"working directory {tmp_path}:" in bash.description
    assert "Time limit: 90 seconds unless" in bash.description
    assert b"at most 3600" in bash.parameters
