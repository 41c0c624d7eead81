"""Repositories are pinned as they were found, whatever is put in their place."""

import os
from pathlib import Path

import pytest
import trio

from tests.tools.processes import wait_until
from tests.tools.sandbox.boxes import boxed
from tests.tools.sandbox.tiers import need
from tools.process import SandboxFailed
from tools.sandbox.pinned import Pinned, takes_descriptors
from tools.sandbox.policy import Pins
from tools.sandbox.probe import find_bwrap


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / ".git/hooks").mkdir(parents=True)
    (folder / ".git/config").write_text("[core]\n")
    return folder


def test_while_a_command_runs_nothing_is_looked_at_anew(work: Path) -> None:
    pinned = Pinned((str(work),))
    first = pinned.take()
    (work / ".git/config").rename(work / ".git/config2")

    second = pinned.take()
    pinned.release()
    pinned.release()
    third = pinned.take()

    assert second.pins == first.pins
    assert f"{work}/.git/config" in third.pins.absent
    pinned.close()


def test_what_is_found_through_a_link_is_left_out(work: Path, tmp_path: Path) -> None:
    """As where another Pod's command puts it there just now."""
    (tmp_path / "other").symlink_to(work)

    held = Pinned((str(tmp_path / "other"),)).take()

    assert held.pins == Pins(
        absent=tuple(
            f"{tmp_path}/other/.git/{n}" for n in ("config.worktree", "commondir")
        )
    )
    assert held.descriptors == {}


async def test_a_link_put_in_place_of_a_pin_leads_nowhere(
    work: Path, tmp_path: Path
) -> None:
    need("bwrap")
    if not takes_descriptors(find_bwrap() or ""):
        pytest.skip("this bubblewrap does not take descriptors")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("hunter2")
    with boxed("bwrap", work) as box:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(box.run, "echo > begun; sleep 60")
            await wait_until(lambda: (work / "begun").exists())
            swap(work, secret)
            with pytest.raises(SandboxFailed):
                await box.run("cat .git/hooks/key")
            nursery.cancel_scope.cancel()

    assert "hunter2" not in box.said


def swap(work: Path, secret: Path) -> None:
    (work / ".git/hooks").rename(work / ".git/hooks2")
    (work / ".git/hooks").symlink_to(secret)


def test_descriptors_are_closed(work: Path) -> None:
    pinned = Pinned((str(work),))
    descriptors = pinned.take().descriptors.values()

    pinned.close()

    for fd in list(descriptors):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
