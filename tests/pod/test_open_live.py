"""A Pod that stays, opened from a manifest, over a session file."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pod.clock import now
from pod.entries import FORMAT, Header, Known, ModelChange, RunEnd, RunStart
from pod.errors import InvalidRequest
from pod.live import LivePod
from pod.load_manifest import load
from pod.log import read_log
from pod.open_live import open_live
from pod.session import Session
from pod.setup import Parts, assemble
from tests.fakes import Heard
from tests.pod.lives import until


class Opened:
    """A Pod of ``echo`` calls, and what was told of it."""

    def __init__(self, folder: Path) -> None:
        self.heard = Heard()
        self.told: list[Known] = []
        settings = (
            'model.provider="scripted"',
            'model.id="echo:1"',
            f'session.dir="{folder / "log"}"',
            'session.durability="flush"',
        )
        work = folder / "work"
        work.mkdir()
        loaded = load(None, settings, work)
        self.parts: Parts = assemble(loaded, work)
        header = Header(
            format=FORMAT,
            id=self.parts.store.new_id(),
            at=now(),
            cwd=str(work),
            system=self.parts.system,
        )
        self.session = Session.create(self.parts.store.path(header.id), header)
        self.session.on_entry = self.told.append

    @asynccontextmanager
    async def living(self) -> AsyncIterator[LivePod]:
        with self.session:
            async with (
                self.parts.opened(self.session) as opened,
                trio.open_nursery() as nursery,
            ):
                live = open_live(
                    self.parts,
                    opened,
                    self.session,
                    tell=self.heard,
                    settled=trio.lowlevel.checkpoint,
                )
                await nursery.start(live.serve)
                yield live
                await live.shutdown()


async def test_its_model_can_be_changed_between_runs(tmp_path: Path) -> None:
    one = Opened(tmp_path)

    async with one.living() as live:
        await live.prompt("go")
        await until(live, "idle")
        await live.set_model("echo:2")
        await live.prompt("go")
        await until(live, "idle")
        with pytest.raises(InvalidRequest, match="names a policy"):
            await live.set_model("no such policy")

    assert [e.model for e in one.told if isinstance(e, RunStart)] == [
        "echo:1",
        "echo:2",
    ]
    assert [e.previous for e in one.told if isinstance(e, ModelChange)] == ["echo:1"]
    ends = [e for e in one.told if isinstance(e, RunEnd)]
    assert [(e.outcome, e.tool_calls) for e in ends] == [("finished", 1)] * 2


async def test_a_fork_is_a_session_of_its_own(tmp_path: Path) -> None:
    one = Opened(tmp_path)

    async with one.living() as live:
        await live.prompt("go")
        await until(live, "idle")
        id = await live.fork()
        assert one.session.leaf is not None

    path = one.parts.store.find(id)
    fork, source = read_log(path), read_log(one.parts.store.path(one.session.id))
    assert fork.header is not None
    assert fork.header.parent_session == one.session.id
    assert len(fork.entries) == len(source.entries)


async def test_compaction_by_hand_says_that_there_is_nothing_to_do(
    tmp_path: Path,
) -> None:
    one = Opened(tmp_path)

    async with one.living() as live:
        outcome = await live.compact()

    assert getattr(outcome, "reason", "") == "empty"
