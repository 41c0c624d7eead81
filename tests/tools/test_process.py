import os
import signal
import sys
from pathlib import Path

import pytest
import trio

from tests.tools.processes import Marker, names_in, open_files, zombies
from tools import process
from tools.process import PIPE_GRACE, Exit, run


class Output:
    def __init__(self) -> None:
        self.data = b""
        self.arrived = trio.Event()

    async def receive(self, chunk: bytes) -> None:
        self.data += chunk
        self.arrived.set()


async def bash(command: str, output: Output, cwd: Path = Path("/")) -> Exit:
    return await run(
        ["bash", "-c", command],
        cwd=cwd,
        env={"PATH": os.environ["PATH"]},
        receive=output.receive,
    )


async def test_stdout_and_stderr_come_in_order() -> None:
    output = Output()

    ended = await bash("echo 1; echo 2 >&2; echo 3; exit 7", output)

    assert (ended, output.data) == (Exit(7), b"1\n2\n3\n")


async def test_a_signal_is_a_negative_returncode() -> None:
    ended = await bash("kill -SEGV $$", Output())

    assert ended == Exit(-signal.SIGSEGV)


async def test_stdin_is_empty_and_there_is_no_terminal() -> None:
    output = Output()

    await bash("cat; (: < /dev/tty) 2>/dev/null || echo none", output)

    assert output.data == b"none\n"


async def test_only_the_environment_given_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_KEY", "hunter2")
    output = Output()

    await bash("env", output)

    assert b"hunter2" not in output.data


async def test_no_other_file_of_ours_is_open_in_the_child(tmp_path: Path) -> None:
    output = Output()
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)

        await bash("ls -l /proc/self/fd", output)

    assert b"open" not in output.data


@pytest.mark.parametrize(
    "command",
    [
        "{sleep} & echo started",
        "{sleep} >/dev/null 2>&1 & echo started",
        "nohup {sleep} 2>&1 & echo started",
        "set -m; {sleep} & echo started",
        "setsid {sleep} & echo started",
        "setsid bash -c '{sleep} & {sleep}' >/dev/null 2>&1 & echo started; sleep 0.1",
        "(setsid bash -c '(setsid {sleep} &)' &); echo started; sleep 0.1",
    ],
)
async def test_background_children_neither_hold_the_call_nor_outlive_it(
    command: str,
) -> None:
    marker = Marker()
    output = Output()

    with trio.fail_after(PIPE_GRACE + 3):
        ended = await bash(command.format(sleep=marker.sleep), output)

    assert (ended.returncode, b"started" in output.data) == (0, True)
    assert ended.left
    assert (marker.alive(), zombies()) == ([], [])


async def test_a_child_that_ignores_every_polite_signal_is_ended() -> None:
    marker = Marker()

    ended = await bash(
        f"(trap '' TERM HUP INT; {marker.sleep}; {marker.sleep}) & echo", Output()
    )

    assert ended.left
    assert marker.alive() == []


async def test_output_written_just_after_the_exit_is_read() -> None:
    output = Output()

    ended = await bash("(sleep 0.05; echo late) & echo early", output)

    assert (ended, output.data) == (Exit(0), b"early\nlate\n")


async def test_output_of_a_process_substitution_is_read() -> None:
    output = Output()

    await bash("for i in {1..2000}; do echo $i; done > >(cat)", output)

    assert output.data.split() == [b"%d" % i for i in range(1, 2001)]


async def test_on_cancel_everything_is_asked_to_end_and_its_last_words_are_read() -> (
    None
):
    marker = Marker()
    output = Output()

    with trio.fail_after(30), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                bash, f"trap 'echo bye; exit' TERM; {marker.sleep} & wait", output
            )
            await marker.wait_asleep()
            scope.cancel()

    assert scope.cancelled_caught
    assert output.data == b"bye\n"
    assert (marker.alive(), zombies()) == ([], [])


@pytest.mark.parametrize(
    "command",
    [
        "trap '' TERM; {sleep}; {sleep}",
        "(trap '' TERM; {sleep}; {sleep}) & wait",  # the leader itself goes at once
        "setsid bash -c \"trap '' TERM; {sleep}; {sleep}\"",
    ],
)
async def test_what_ignores_the_request_to_end_is_killed(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_GRACE", 0.3)
    marker = Marker()

    started = trio.current_time()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bash, command.format(sleep=marker.sleep), Output())
            await marker.wait_asleep()
            scope.cancel()

    assert trio.current_time() - started < 2
    assert (marker.alive(), zombies()) == ([], [])


async def test_a_stopped_child_is_ended() -> None:
    marker = Marker()

    with trio.move_on_after(0.3) as scope:
        await bash(f"{marker.sleep} & kill -STOP $!; wait", Output())

    assert (scope.cancelled_caught, marker.alive()) == (True, [])


async def test_a_process_that_floods_the_pipe_can_be_ended() -> None:
    marker = Marker()
    output = Output()

    with trio.move_on_after(0.1):
        await bash(f"{marker.sleep} & yes", output)

    assert (output.data[:2], marker.alive()) == (b"y\n", [])


async def test_nothing_starts_in_a_scope_that_is_already_cancelled(
    tmp_path: Path,
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await bash(f"touch {tmp_path}/ran", Output())

    assert names_in(tmp_path) == []


async def test_twenty_at_once() -> None:
    outputs = [Output() for _ in range(20)]

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for number, output in enumerate(outputs):
                nursery.start_soon(bash, f"sleep 0.1; echo {number}", output)

    assert [int(output.data) for output in outputs] == list(range(20))
    assert zombies() == []


async def test_one_command_does_not_end_the_children_of_another() -> None:
    output = Output()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bash, "echo; (setsid sleep 0.4; echo whole) & wait", output)
        await output.arrived.wait()
        await bash("sleep 60 &", Output())

    assert output.data == b"\nwhole\n"


async def test_what_cannot_be_started_is_an_error_and_leaks_nothing(
    tmp_path: Path,
) -> None:
    before = open_files()

    with pytest.raises(FileNotFoundError):
        await bash("true", Output(), cwd=tmp_path / "gone")

    assert open_files() == before


async def test_a_command_leaves_no_descriptor_open() -> None:
    await bash("true", Output())
    before = open_files()

    for _ in range(5):
        await bash("true", Output())

    assert open_files() == before


NESTED = """
import os, sys, trio
from pathlib import Path
from tools.process import run

async def receive(chunk): pass

async def main():
    print(os.getpid(), flush=True)
    env = {"PATH": os.environ["PATH"]}
    await run(["bash", "-c", sys.argv[1]], cwd=Path("/"), env=env, receive=receive)

trio.run(main)
"""


async def test_what_a_killed_runner_had_started_is_found_by_the_outer_one() -> None:
    """A Pod whose command is a Pod: the inner mark does not hide the outer one."""
    marker = Marker()
    output = Output()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: run(
                [sys.executable, "-c", NESTED, f"{marker.sleep}; true"],
                cwd=Path(__file__).parents[2],
                env={"PATH": os.environ["PATH"]},
                receive=output.receive,
            )
        )
        await marker.wait_asleep()
        os.kill(int(output.data), signal.SIGKILL)

    assert marker.alive() == []


async def test_stderr_can_come_apart_and_input_be_given(tmp_path: Path) -> None:
    given, output, errors = tmp_path / "given", Output(), Output()
    given.write_bytes(b"in")

    with given.open("rb") as stdin:
        ended = await run(
            ["sh", "-c", "echo out; echo error >&2; cat"],
            cwd=Path("/"),
            env={"PATH": os.environ["PATH"]},
            receive=output.receive,
            receive_errors=errors.receive,
            stdin=stdin.fileno(),
        )

    assert (ended, output.data, errors.data) == (Exit(0), b"out\nin", b"error\n")


async def test_a_program_that_cannot_be_started_leaves_no_pipe_open() -> None:
    before = open_files()

    with pytest.raises(FileNotFoundError):
        await run(
            ["/no/such/program"],
            cwd=Path("/"),
            env={},
            receive=Output().receive,
            receive_errors=Output().receive,
        )

    assert open_files() == before
