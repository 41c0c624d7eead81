"""Memory and processes of commands are limited, by whatever can do it here."""

import os
from pathlib import Path

import pytest

from tests.tools.sandbox.boxes import boxed
from tests.tools.sandbox.tiers import need
from tools.launch import limits
from tools.sandbox.groups import can_make_group, joining, make_group
from tools.sandbox.policy import Tier

TIERS = pytest.mark.parametrize("tier", ["bwrap", "landlock", "off"])
MIB = 1 << 20


def test_limits_are_words_for_a_shell() -> None:
    assert limits(None) == "ulimit -c 0"
    assert limits(7, processes=9, memory=MIB) == (
        "ulimit -c 0; ulimit -q 7; ulimit -u 9; ulimit -d 1024"
    )
    assert joining(("/a b", "/c'd")) == (
        "echo $$ >'/a b' || exit 125; echo $$ >'/c'\\''d' || exit 125; "
    )


def test_without_limits_there_is_no_group() -> None:
    assert make_group(None, None) is None


@TIERS
async def test_memory_is_limited(tier: Tier, tmp_path: Path) -> None:
    need(tier)
    with boxed(tier, tmp_path, memory=40 * MIB) as box:
        small = await box.run("head -c 8M /dev/zero | tail -c 8M | wc -c")
        assert (small.returncode, box.said) == (0, f"{8 * MIB}\n")

        large = await box.run("head -c 90M /dev/zero | tail -c 90M | wc -c")
        assert (large.returncode, box.said) != (0, f"{90 * MIB}\n")


@TIERS
async def test_processes_are_limited(tier: Tier, tmp_path: Path) -> None:
    need(tier)
    if os.geteuid() == 0 and not can_make_group():
        pytest.skip("root's number of processes cannot be limited here")
    if os.geteuid() != 0 and tier != "bwrap" and not can_make_group():
        pytest.skip("here it is the number of all of the user's processes")
    with boxed(tier, tmp_path, processes=40) as box:
        few = await box.run("for i in {1..5}; do sleep 0.1 & done; wait; echo done")
        assert (few.returncode, box.said) == (0, "done\n")

        await box.run(
            "for i in {1..80}; do sleep 0.3 & done 2>/dev/null; jobs -r | wc -l"
        )

    assert "fork: " in box.said or int(box.said.split()[-1]) < 60


async def test_a_group_is_gone_with_its_sandbox(tmp_path: Path) -> None:
    if not can_make_group():
        pytest.skip("no cgroup can be made here")
    with boxed("off", tmp_path, memory=40 * MIB) as box:
        await box.run(
            "grep -o 'memory:.*pod-.*' /proc/self/cgroup || cat /proc/self/cgroup"
        )
        name = "pod-" + box.said.split("pod-")[-1].split()[0]

    assert not _groups(name)


def _groups(name: str) -> list[Path]:
    return [Path(at) for at, _, _ in os.walk("/sys/fs/cgroup") if at.endswith(name)]
