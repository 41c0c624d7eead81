"""What takes all there is, processes or memory, is ended like any other command."""

import os
from pathlib import Path

import pytest
import trio

from tests.tools.processes import Marker, zombies
from tests.tools.sandbox.boxes import boxed
from tests.tools.sandbox.tiers import need
from tools.sandbox.groups import can_make_group
from tools.sandbox.policy import Tier

TIERS = pytest.mark.parametrize("tier", ["bwrap", "landlock", "off"])

BOMBS = {
    "of a shell": ":() {{ : | : & }}; {sleep} & :",
    "of a program": "{python} 'import os\nwhile 1:\n try: os.fork()\n"
    " except OSError: pass' {sleep}",
    "that leaves its session": "{python} 'import os\nwhile 1:\n try:\n  if not"
    " os.fork(): os.setsid()\n  elif not os.fork(): os._exit(0)\n"
    " except OSError: pass' {sleep}",
}


@TIERS
@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_fork_bomb_ends_with_its_time_and_nothing_of_it_is_left(
    tier: Tier, bomb: str, tmp_path: Path
) -> None:
    need(tier)
    if not can_make_group() and (os.geteuid() == 0 or tier != "bwrap"):
        pytest.skip("without a limit it would be everybody's")
    marker = Marker()
    command = BOMBS[bomb].format(python="python3 -c", sleep=marker.sleep)
    with boxed(tier, tmp_path, processes=60) as box:
        started = trio.current_time()
        with trio.move_on_after(0.5):
            await box.run(command)
        taken = trio.current_time() - started
        alive = marker.alive()
        again = await box.run("echo on we go")

    # On a busy machine 60 processes that spin hold up everybody, us too.
    assert taken < 5
    assert (alive, zombies()) == ([], [])
    assert (again.returncode, box.said) == (0, "on we go\n")


@TIERS
async def test_where_memory_runs_out_commands_are_ended_before_the_pod(
    tier: Tier, tmp_path: Path
) -> None:
    need(tier)
    with boxed(tier, tmp_path) as box:
        await box.run("sleep 0.1; cat /proc/self/oom_score_adj")

    assert box.said == "500\n"
