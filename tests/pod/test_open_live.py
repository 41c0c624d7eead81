"""A Pod that stays, opened from a manifest, over a session file."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest
import trio

from pod.clock import now
from pod.entries import (
    FORMAT,
    Header,
    Known,
    ModelChange,
    PromptChange,
    RunEnd,
    RunStart,
)
from pod.errors import InvalidRequest
from pod.live import LivePod
from pod.load_manifest import load
from pod.log import read_log
from pod.open_live import open_live
from pod.session import Session
from pod.setup import Parts, assemble
from tests.fakes import Heard, StepClient, said
from tests.pod.lives import until
from tests.tools.sandbox.tiers import some_mode
from worker.client import OpenClient


class Opened:
    """A Pod of ``echo`` calls, and what was told of it."""

    def __init__(
        self, folder: Path, *more: str, open_client: OpenClient | None = None
    ) -> None:
        self.heard = Heard()
        self.told: list[Known] = []
        settings = (
            'model.provider="scripted"',
            'model.id="echo:1"',
            f'session.dir="{folder / "log"}"',
            'session.durability="flush"',
            f'sandbox.mode="{some_mode()}"',
            *more,
        )
        work = folder / "work"
        work.mkdir()
        loaded = load(None, settings, work)
        self.parts: Parts = assemble(loaded, work, open_client)
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


async def test_a_branch_is_gone_on_with_by_its_own_system_prompt(
    tmp_path: Path,
) -> None:
    """A prompt that was taken later is that of the branches behind it alone."""
    client = StepClient(*[[said("Yes.")]] * 4)
    settings = ('model.provider="anthropic"', 'model.id="claude-a"')
    one = Opened(tmp_path, *settings, open_client=lambda: nullcontext(client))
    async with one.living() as live:
        await live.prompt("go")
        await until(live, "idle")
        before = one.session.leaf
    one.session = Session.open(one.parts.store.path(one.session.id))
    [change] = one.session.append(PromptChange(system="Another prompt."))

    async with one.living() as live:
        for target in (before, change.id):
            await live.navigate(target)
            await live.prompt("go on")
            await until(live, "idle")
        await live.set_model("claude-b")
        await live.prompt("go on")
        await until(live, "idle")

    old = one.parts.system
    systems = [request.system[0].text for request in client.requests]
    assert systems == [old, old, "Another prompt.", "Another prompt."]
