"""A Pod with prepared answers on a session of its own."""

import weakref
from collections.abc import Sequence
from pathlib import Path
from random import Random
from shutil import rmtree

import trio

from pod.compaction.opening import open_watch
from pod.disk import Disk
from pod.entries import (
    FORMAT,
    Header,
    Known,
)
from pod.manifest import Manifest
from pod.pod import Bounds, Pod
from pod.session import Session
from tests.fakes import FakeTool, Heard, Step, StepClient
from tests.turns import MODEL, done, setup_for
from tools.base import Tool
from tools.files_in_use import FilesInUse
from tools.scope import Scope
from worker.limits import Limits


def new_session(path: Path | None = None, disk: Disk | None = None) -> Session:
    header = Header(
        format=FORMAT, id="s", at="2026-01-01T00:00:00.000Z", cwd="/", system="Test."
    )
    if path is None:
        session = Session.ephemeral(header, random=Random(1))
        # Whatever becomes of the test, its folder goes with the session.
        weakref.finalize(session, rmtree, session.files, ignore_errors=True)
        return session
    return Session.create(path, header, disk=disk, random=Random(1))


class Case:
    """A Pod with prepared answers on a session of its own."""

    def __init__(
        self,
        *steps: tuple[Step, str] | Step,
        session: Session | None = None,
        tools: Sequence[Tool] = (FakeTool("do", done),),
        limits: Limits = Limits(),  # noqa: B008  frozen
        timeout: float | None = None,
        manifest: Manifest = Manifest(),  # noqa: B008  frozen
    ) -> None:
        self.session = session or new_session()
        self.tools = tools
        random = Random(len(self.session.tree))  # another in each process
        self.heard = Heard()
        self.entries: list[Known] = []
        self.session.on_entry = self.entries.append
        self.client = StepClient(*steps)
        setup = setup_for(
            self.client,
            tools,
            limits=limits,
            new_id=lambda: f"{random.getrandbits(32):08x}",
        )
        self.scope = Scope([], [], Path.cwd())
        files = FilesInUse()
        watch = open_watch(
            manifest,
            self.session,
            setup,
            scope=self.scope,
            worker_model=MODEL,
            files=files,
            tell=self.heard,
        )
        self.pod = Pod(
            self.session,
            setup,
            bounds=Bounds(timeout=timeout),
            listen=self.heard,
            settled=trio.lowlevel.checkpoint,
            watch=watch,
            files=files,
        )

    @property
    def kinds(self) -> list[type[Known]]:
        return [type(entry) for entry in self.entries]
