"""Nothing of a command is there when it is over, in every tier."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.recorded import inherited
from tests.tools.processes import Marker, open_files, wait_until, zombies
from tests.tools.sandbox.boxes import boxed
from tests.tools.sandbox.tiers import need
from tools.process import PIPE_GRACE
from tools.sandbox.policy import Tier

TIERS = pytest.mark.parametrize("tier", ["bwrap", "landlock", "off"])

STUBBORN = (
    "trap '' TERM HUP INT;"
    " setsid bash -c \"trap '' TERM; {sleep} & {sleep}; {sleep}\" &"
    " (setsid env -i /bin/bash -c \"trap '' TERM; {sleep}; {sleep}\" &);"
    " {sleep}; {sleep}"
)
"""Ignores every request, and leaves its group, its session and its environment."""


@TIERS
async def test_a_stubborn_command_ends_a_second_after_its_time_at_the_latest(
    tier: Tier, tmp_path: Path
) -> None:
    need(tier)
    marker = Marker()
    with boxed(tier, tmp_path) as box:
        started = trio.current_time()
        with trio.move_on_after(0.5):
            await box.run(STUBBORN.format(sleep=marker.sleep))
        taken = trio.current_time() - started

    assert taken < 1.5
    assert (marker.alive(), zombies()) == ([], [])


@TIERS
async def test_fifty_stubborn_commands_at_once_do_likewise(
    tier: Tier, tmp_path: Path
) -> None:
    need(tier)
    marker = Marker()
    taken: list[float] = []
    with boxed(tier, tmp_path) as box:

        async def one() -> None:
            started = trio.current_time()
            with trio.move_on_after(4):
                await box.run(STUBBORN.format(sleep=marker.sleep))
            taken.append(trio.current_time() - started)

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(one)

    # Four seconds they may run; ended one after the other they would take twenty more.
    assert max(taken) < 14
    assert (len(taken), marker.alive(), zombies()) == (50, [], [])


@TIERS
async def test_what_was_left_running_is_named_and_ended(
    tier: Tier, tmp_path: Path
) -> None:
    need(tier)
    marker = Marker()
    with boxed(tier, tmp_path) as box:
        with trio.fail_after(PIPE_GRACE + 5):
            ended = await box.run(
                f"{marker.sleep} & setsid {marker.sleep} & echo up; sleep 0.1"
            )

    assert (ended.returncode, ended.left, box.said) == (0, ("sleep", "sleep"), "up\n")
    assert (marker.alive(), zombies()) == ([], [])


@TIERS
async def test_what_a_command_says_last_is_read(tier: Tier, tmp_path: Path) -> None:
    need(tier)
    with boxed(tier, tmp_path) as box:
        late = await box.run("(sleep 0.05; echo late) & echo early")
        assert (late.returncode, box.said) == (0, "early\nlate\n")

        await box.run("for i in {1..2000}; do echo $i; done > >(cat)")
        assert box.said.split() == [str(i) for i in range(1, 2001)]


@TIERS
async def test_on_a_cancel_its_last_words_are_read(tier: Tier, tmp_path: Path) -> None:
    need(tier)
    marker = Marker()
    with boxed(tier, tmp_path) as box, trio.fail_after(20), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                box.run, f"trap 'echo bye; exit' TERM; {marker.sleep} & wait"
            )
            await marker.wait_asleep()
            scope.cancel()

    assert (scope.cancelled_caught, box.said) == (True, "bye\n")
    assert (marker.alive(), zombies()) == ([], [])


@TIERS
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 7", {7}),
        ("kill -SEGV $$", {-11, 139}),
        ("kill -9 $$", {-9, 137}),
        ("kill -9 -1", {-9, 137}),
    ],
)
async def test_the_exit_code_is_the_commands_own(
    tier: Tier, command: str, code: set[int], tmp_path: Path
) -> None:
    need(tier)
    if tier != "bwrap" and command == "kill -9 -1":
        pytest.skip("there it means all processes of the user")
    with boxed(tier, tmp_path) as box:
        ended = await box.run(command)

    assert ended.returncode in code
    assert zombies() == []


@TIERS
async def test_one_command_does_not_end_the_processes_of_another(
    tier: Tier, tmp_path: Path
) -> None:
    need(tier)
    with boxed(tier, tmp_path) as box:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                box.run,
                "(setsid env -i /bin/bash -c 'echo > begun; sleep 0.5; echo > whole' &);"
                " sleep 1",
            )
            await wait_until(lambda: _is_there(tmp_path / "begun"))
            with boxed(tier, tmp_path) as other:
                await other.run("sleep 60 &")

    assert _is_there(tmp_path / "whole")


def _is_there(path: Path) -> bool:
    return path.exists()


@TIERS
async def test_no_descriptor_and_no_folder_stays(tier: Tier, tmp_path: Path) -> None:
    need(tier)
    with boxed(tier, tmp_path) as box:
        await box.run("true")
    before = open_files()

    with boxed(tier, tmp_path) as box:
        for _ in range(3):
            await box.run("mkdir -p $TMPDIR/a/b && chmod 500 $TMPDIR/a; touch $HOME/x")
        private = Path(box.environment.get("TMPDIR", ""))

    assert open_files() == before
    assert tier != "landlock" or not _is_there(private)


def start(command: list[str]) -> "subprocess.Popen[bytes]":
    environment = {"PATH": os.environ["PATH"], **inherited()}
    return subprocess.Popen(command, env=environment)


KILLED = """
import os, sys, trio
from pathlib import Path
from tests.tools.sandbox.boxes import boxed

async def main():
    with boxed(sys.argv[1], Path(sys.argv[2])) as box:
        await box.run(sys.argv[3])

trio.run(main)
"""


async def test_in_bubblewrap_nothing_outlives_a_killed_pod(tmp_path: Path) -> None:
    need("bwrap")
    marker = Marker()
    command = f"setsid env -i {marker.sleep} & {marker.sleep}"
    with start([sys.executable, "-c", KILLED, "bwrap", str(tmp_path), command]) as pod:
        await marker.wait_asleep()
        pod.send_signal(signal.SIGKILL)

    with trio.fail_after(30):
        await wait_until(lambda: not marker.alive())


ENDED = """
import sys, time, trio
from pathlib import Path
from tests.tools.sandbox.lesser import lessen
lessen(sys.argv[5:])
from tests.tools.sandbox.boxes import boxed

async def main():
    with boxed(sys.argv[1], Path(sys.argv[2])) as box:
        started = time.monotonic()
        with trio.move_on_after(0.5):
            await box.run(sys.argv[3])
        print(time.monotonic() - started, flush=True)
        print((await box.run(sys.argv[4])).left, flush=True)
        sys.stdin.readline()  # until they have been looked for

trio.run(main)
"""


@pytest.mark.parametrize(
    ("tier", "without"),
    [
        # As in gVisor: no descriptor holds a process, only its number.
        ("bwrap", ("pidfd", "openat2")),
        ("landlock", ("pidfd", "openat2")),
        ("off", ("pidfd", "openat2")),
        # As where a command has started as many processes as there may be.
        ("off", ("threads",)),
        ("off", ("threads", "pidfd")),
    ],
)
def test_nothing_is_left_on_a_machine_that_lacks_something_either(
    tier: Tier, without: tuple[str, ...], tmp_path: Path
) -> None:
    need(tier)
    marker = Marker()
    commands = (
        STUBBORN.format(sleep=marker.sleep),
        f"{marker.sleep} & setsid {marker.sleep} & echo up; sleep 0.1",
    )
    with subprocess.Popen(
        [sys.executable, "-c", ENDED, tier, str(tmp_path), *commands, *without],
        env={"PATH": os.environ["PATH"], **inherited()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as pod:
        assert pod.stdin is not None
        assert pod.stdout is not None
        taken = float(pod.stdout.readline())
        left = pod.stdout.readline().decode().strip()
        alive = [line for line in marker.alive() if "lessen" not in line]
        pod.stdin.close()

    assert taken < 1.5
    assert (left, alive, pod.returncode) == ("('sleep', 'sleep')", [], 0)
