"""What a command leaves behind does not lead the next one, or Pod itself, out."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.tools.sandbox.boxes import boxed
from tests.tools.sandbox.tiers import need
from tools.process import run
from tools.sandbox.box import Box
from tools.sandbox.policy import Policy, Tier
from tools.sandbox.probe import find_bwrap, surroundings_here

TIERS = pytest.mark.parametrize("tier", ["bwrap", "landlock"])


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "on/the/way/work"
    for name in ("sub", "data", "venv/bin"):
        (folder / name).mkdir(parents=True)
    return folder


@pytest.fixture
def hidden(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "hidden"
    folder.mkdir()
    (folder / "secret").write_text("hunter2")
    yield folder
    assert [path.name for path in folder.rglob("*")] == ["secret"]


async def both(box: Box, first: str, second: str) -> str:
    """Run two commands, one after the other; return what the second says."""
    said = bytearray()

    async def receive(chunk: bytes) -> None:
        said.extend(chunk)

    with box.open() as opened:
        for command in (first, second):
            said.clear()
            await run(
                ["/bin/bash", "-c", command],
                cwd=Path(opened.policy.cwd),
                env=opened.environment({"PATH": os.environ["PATH"]}),
                receive=receive,
                launcher=opened,
            )
    return said.decode(errors="replace")


@TIERS
@pytest.mark.parametrize("kind", ["write root", "read root", "folder on the PATH"])
async def test_a_link_in_place_of_a_granted_folder_grants_nothing(
    tier: Tier, kind: str, work: Path, hidden: Path
) -> None:
    need(tier)
    place = {"write root": "sub", "read root": "data"}.get(kind, "venv/bin")
    inner = (str(work / place),)
    policy = Policy(
        cwd=str(work),
        read=inner if kind == "read root" else (),
        write=(str(work), *(inner if kind == "write root" else ())),
    )
    path = f"{work}/venv/bin:{os.environ['PATH']}"
    around = surroundings_here(policy, path, "/nonexistent")

    said = await both(
        Box(tier, policy, around, find_bwrap() or ""),
        f"rm -rf {place} && ln -s {hidden} {place} && echo done",
        f"cat {place}/secret; echo x > {place}/new",
    )

    assert "hunter2" not in said


async def test_a_link_on_the_way_to_a_mount_leads_nowhere(
    work: Path, hidden: Path
) -> None:
    """Bubblewrap sees the whole machine as /oldroot while it sets up."""
    need("bwrap")
    with boxed("bwrap", work) as box:
        on_the_way = work.parents[2]
        await box.run(
            f"cd /; mv {on_the_way} {on_the_way}.old;"
            f" ln -s /oldroot{hidden} {on_the_way}"
        )
        await box.run("pwd")

    assert box.said == f"{work}\n"


async def test_bubblewrap_itself_is_told_nothing_by_the_environment_of_a_command(
    work: Path,
) -> None:
    """LD_LIBRARY_PATH would have it load what lies in the workspace, outside."""
    need("bwrap")
    with boxed("bwrap", work) as box:
        box.environment |= {"LD_LIBRARY_PATH": str(work), "ODD": "a=b\nc", "NONE": ""}
        await box.run("wc -c </proc/1/environ; printf '%s|' $LD_LIBRARY_PATH \"$ODD\"")
        assert box.said == f"0\n{work}|a=b\nc|"

        await box.run("echo ${NONE-unset}")
        assert box.said == "\n"


@pytest.mark.parametrize("forged", ["yes", "yes 99999", "printf 7; yes ''"])
async def test_what_a_command_says_in_the_name_of_its_sandbox_is_bounded(
    forged: str, work: Path
) -> None:
    need("bwrap")
    with boxed("bwrap", work) as box, trio.fail_after(20):
        ended = await box.run(
            "for fd in /proc/$PPID/fd/*; do"
            f" [[ -p $fd && $fd != */[12] ]] && {{ {forged}; }} >$fd; done; sleep 60"
        )

    assert -64 < ended.returncode < 256
