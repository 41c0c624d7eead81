"""A session on the disk that is gone on with, step by step, and compacted each time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from msgspec import Struct

from pod.compaction.job import Done
from pod.entries import FORMAT, Compaction, Header, ItemEntry, Mode
from pod.load_manifest import Loaded
from pod.merge import merge
from pod.open_model import model_of
from pod.pod import Pod
from pod.session import Session
from pod.setup import Parts, assemble, open_pod
from tests.measure.planted import Step
from tests.tools.sandbox.tiers import some_mode
from worker.api import Request
from worker.policy import Policy
from worker.scripted import ScriptedClient
from worker.turn import Setup
from worker.wire import to_request


class Opened(Struct, frozen=True):
    """A session as a process has it that loaded it from the disk."""

    session: Session
    setup: Setup
    pod: Pod

    @property
    def request(self) -> Request:
        """What the model would be sent now."""
        setup = self.setup
        return to_request(
            self.session.items,
            system=setup.system,
            tools=setup.specs,
            model=setup.model,
            cache=setup.cache,
        )


class Compacting(Struct, frozen=True):
    """A session in *folder*, and the policy that summarises it."""

    folder: Path
    policy: Policy
    mode: Mode = "worker"
    settings: tuple[str, ...] = ()

    @property
    def log(self) -> Path:
        return self.folder / "log" / "s.jsonl"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def begin(self) -> None:
        """Make the folder and the session."""
        self.work.mkdir(parents=True)
        header = Header(
            format=FORMAT,
            id="s",
            at="2026-01-01T00:00:00.000Z",
            cwd=str(self.work),
            system=self._parts().system,
        )
        Session.create(self.log, header, durability="flush").close()

    async def step(self, step: Step) -> Compaction:
        """Load the session, add *step*, and compact it."""
        self.add(step)
        async with self.opened() as opened:
            outcome = await opened.pod.compact(mode=self.mode)
        if not isinstance(outcome, Done):
            raise AssertionError(f"not compacted: {outcome}")
        return outcome.entry

    def add(self, step: Step) -> None:
        """Put what happens in *step* into the session and the folder."""
        for path, text in step.files.items():
            Path(path).write_text(text, encoding="utf-8")
        with Session.open(self.log, durability="flush") as session:
            session.append(*(ItemEntry(item=item) for item in step.items))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Opened]:
        """Load the session from the disk."""
        parts = self._parts()
        with Session.open(self.log, durability="flush") as session:
            async with parts.opened(session) as opened:
                agent = open_pod(
                    parts,
                    opened,
                    session,
                    tell=lambda event: None,
                    settled=trio.lowlevel.checkpoint,
                )
                yield Opened(session, opened.setup, agent)

    def _parts(self) -> Parts:
        settings = (
            'model.provider="scripted"',
            'model.id="planted"',
            "model.context_window=200000",
            "compaction.retained_tokens=2000",
            f"sandbox.mode={some_mode()}",
            *self.settings,
        )
        merged = merge(None, "", settings)
        loaded = Loaded(merged.manifest, merged.sources, self.work, None)
        client = ScriptedClient(self.policy, model_of(loaded.manifest))
        return assemble(loaded, self.work, lambda: client)
