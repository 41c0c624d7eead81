"""From a manifest to what a run works with: model, tools, client, system prompt."""

import platform
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from math import ceil
from pathlib import Path
from random import Random

from msgspec import Raw, Struct

from pod import collector
from pod.check import check, finding_line
from pod.check_facts import gather
from pod.compaction.compactor import Tell
from pod.compaction.limits import limits_problem
from pod.compaction.opening import files_of, open_watch
from pod.compaction.watch import ContextWatch
from pod.entries import Known
from pod.errors import SetupError
from pod.events import PROTOCOL, Init, ToolInfo
from pod.hooks.hook import Hook
from pod.hooks.hooks import Hooks
from pod.hooks.open_hooks import open_hooks
from pod.load_manifest import Loaded, system_text
from pod.maintenance import Maintenance
from pod.manifest import Manifest
from pod.manifest_errors import ManifestError
from pod.open_model import client_of, model_of, price_of, summary_models, unpriced
from pod.open_tools import open_scope, open_tools
from pod.path_text import path_text
from pod.permissions.permit import Approver, Permissions, for_compact_worker
from pod.permissions.rulebook import rulebook_of
from pod.pod import Bounds, Pod
from pod.sandbox import find_sandbox, open_box
from pod.session import Session
from pod.store import Store
from pod.version import VERSION
from prompts import load
from tools.base import Tool
from tools.files_in_use import FilesInUse
from tools.sandbox.probe import Report
from tools.scope import Scope
from tools.spill import SpillFolder
from tools.text import clean
from worker.api import ToolSpec
from worker.calls import OutputLimits, Toolbox
from worker.client import Client, OpenClient
from worker.counters import O200k
from worker.limits import Limits
from worker.model import Model
from worker.permit import Permit, allow_all
from worker.retry import RetryPolicy
from worker.tokens import count_tool, factor_for, tool_bytes
from worker.turn import Setup
from worker.wire import Cache


class Parts(Struct, frozen=True):
    """What a manifest stands for, before a session is open.

    *system* is the system prompt a new session gets.
    """

    loaded: Loaded
    cwd: Path
    model: Model
    store: Store
    system: str
    open_client: OpenClient
    sandbox: Report | None = None
    """What holds commands here; None where nothing is to run any."""

    @property
    def runs_commands(self) -> bool:
        return self.sandbox is not None

    @property
    def tier(self) -> str:
        """What sessions and listeners are told of the sandbox."""
        return "none" if self.sandbox is None else self.sandbox.tier or "none"

    @property
    def manifest(self) -> Manifest:
        return self.loaded.manifest

    @property
    def bounds(self) -> Bounds:
        return Bounds(timeout=self.manifest.limits.timeout)

    @asynccontextmanager
    async def opened(
        self,
        session: Session,
        *,
        approver: Approver | None = None,
        tools: Sequence[Tool] = (),
    ) -> AsyncIterator["Opened"]:
        """Open the client and the tools for runs on *session*.

        *tools* come behind the manifest's. *approver* is asked about calls that
        somebody has to allow; without one they are denied. Raises SetupError for a tool that cannot be had.
        """
        with (
            open_scope(self.loaded, self.cwd, session.files) as scope,
            open_box(self.manifest, scope, self.sandbox) as box,
        ):
            tools = open_tools(self.loaded, self.cwd, scope, tools, box=box)
            hooks = open_hooks(self.loaded, self.cwd)
            async with self.open_client() as client:
                collector.resume()
                permissions = Permissions(
                    rulebook=rulebook_of(self.manifest.permissions),
                    cwd=scope.cwd,
                    effects={tool.name: tool.has_effects for tool in tools},
                    approver=approver,
                )
                setup = _setup(self, client, tools, session, permit=permissions)
                yield Opened(setup, scope, hooks, for_compact_worker(permissions))


class Opened(Struct, frozen=True):
    """What runs on a session work with, while it is open."""

    setup: Setup
    scope: Scope
    hooks: tuple[Hook, ...] = ()
    worker_permit: Permit = allow_all
    """Which calls of compact workers may run."""


def open_pod(
    parts: Parts,
    opened: Opened,
    session: Session,
    *,
    tell: Tell,
    settled: Callable[[], Awaitable[None]],
) -> Pod:
    """Return the Pod of *session*. *tell* hears its live events.

    Whoever hears the session's entries does so before this is called.
    """
    files = files_of(session)
    refuse_limits(parts, opened.setup)
    hooks = Hooks(opened.hooks, tell=tell)
    watch = watch_over(
        parts, opened, session, opened.setup, files=files, tell=tell, hooks=hooks
    )
    pod = Pod(
        session,
        opened.setup,
        bounds=parts.bounds,
        listen=tell,
        settled=settled,
        watch=watch,
        files=files,
        hooks=hooks,
    )
    on_entry = session.on_entry

    def heard(entry: Known) -> None:
        on_entry(entry)
        if (context := pod.watch.told(entry)) is not None:
            tell(context)

    session.on_entry = heard
    return pod


def watch_over(
    parts: Parts,
    opened: Opened,
    session: Session,
    setup: Setup,
    *,
    files: FilesInUse,
    tell: Tell,
    hooks: Hooks,
    maintenance: Maintenance | None = None,
    asked: Setup | None = None,
) -> ContextWatch:
    """Return the watch over *session*'s context for runs with *setup*.

    *asked* is what makes the summaries, where that is another: see open_watch.
    """
    table = parts.manifest.compaction
    model = (asked or setup).model
    return open_watch(
        parts.manifest,
        session,
        setup,
        scope=opened.scope,
        worker_model=model
        if table.worker_model is None
        else model_of(parts.manifest, table.worker_model),
        worker_permit=opened.worker_permit,
        files=files,
        tell=tell,
        summarizers=summary_models(parts.manifest, model),
        hooks=hooks,
        maintenance=maintenance,
        asked=asked,
    )


def refuse_limits(parts: Parts, setup: Setup) -> None:
    """Raise SetupError where compactions could not work with the manifest's figures.

    What the system prompt and the tools take is counted only where their bytes
    do not prove that there is room.
    """
    table, model = parts.manifest.compaction, setup.model
    factor = factor_for(model.id)
    at_most = ceil(_overhead_bytes(setup) * factor)
    if limits_problem(table, model, at_most) is None:
        return
    counter = setup.counter
    tokens = counter.count(setup.system) + sum(
        count_tool(spec, counter) for spec in setup.specs
    )
    if problem := limits_problem(table, model, ceil(tokens * factor)):
        raise SetupError(f"[compaction] {problem}")


def _overhead_bytes(setup: Setup) -> int:
    return len(setup.system.encode()) + sum(map(tool_bytes, setup.specs))


def assemble(
    loaded: Loaded,
    cwd: Path,
    open_client: OpenClient | None = None,
    *,
    commands: bool = True,
) -> Parts:
    """Check *loaded* against the world and put together what it stands for.

    *open_client* takes the place of the manifest's provider (the demo's, a
    test's). Without *commands* bash is there but runs none. Raises
    ManifestError for what does not go together, SetupError for a missing key
    (exit 5), and where no sandbox works here that the manifest allows.
    """
    manifest = loaded.manifest
    model = model_of(manifest)
    store = Store(loaded.session_dir)
    refuse_errors(loaded, cwd, store, model)
    system = system_prompt(loaded, cwd)
    return Parts(
        loaded=loaded,
        cwd=cwd,
        model=model,
        store=store,
        system=system,
        open_client=open_client or client_of(manifest),
        sandbox=find_sandbox(loaded, cwd) if commands else None,
    )


def refuse_errors(loaded: Loaded, cwd: Path, store: Store, model: Model) -> None:
    """Raise ManifestError where the check finds an error."""
    facts = gather(
        loaded,
        cwd=cwd,
        state_dir=store.folder,
        window=model.window,
        unpriced=unpriced(loaded.manifest),
    )
    findings = check(loaded.manifest, facts)
    errors = [f for f in findings if f.level == "error"]
    if errors:
        raise ManifestError([finding_line(f, loaded.sources) for f in errors])


def system_prompt(loaded: Loaded, cwd: Path) -> str:
    """Return the system prompt that a new session gets. Raises ManifestError."""
    return system_text(loaded, f"{load('system')}\n\n{surroundings(cwd)}")


def surroundings(cwd: Path) -> str:
    """Say where the Pod works.

    Nothing in it changes from day to day, or a session's prompt would differ
    at every resume.
    """
    return f"Working folder: {path_text(cwd)}\nSystem: {platform.system()}"


def spec_of(tool: Tool) -> ToolSpec:
    """Return *tool* as a model is told of it."""
    return ToolSpec(
        name=tool.name,
        description=clean(tool.description).text,
        input_schema=Raw(tool.parameters),
    )


def _setup(
    parts: Parts,
    client: Client,
    tools: Sequence[Tool],
    session: Session,
    *,
    permit: Permit,
) -> Setup:
    manifest = parts.manifest
    counter = O200k()
    factor = factor_for(parts.model.id)
    return Setup(
        client=client,
        model=parts.model,
        system=session.state.system,
        specs=tuple(map(spec_of, tools)),
        toolbox=Toolbox(
            tools={tool.name: tool for tool in tools},
            spill=SpillFolder(session.files),
            output=OutputLimits(
                max_bytes=manifest.tools.max_output_bytes,
                max_tokens=manifest.tools.max_output_tokens,
                count=lambda text: ceil(counter.count(text) * factor),
            ),
            seconds=manifest.tools.timeout,
            permit=permit,
        ),
        cache=Cache(enabled=manifest.cache.enabled, ttl=manifest.cache.ttl),
        retry=RetryPolicy(
            attempts=manifest.retry.attempts,
            base=manifest.retry.base,
            cap=manifest.retry.cap,
        ),
        limits=Limits(
            max_requests=manifest.limits.max_requests,
            max_total_tokens=manifest.limits.max_total_tokens,
            max_budget_usd=manifest.limits.max_budget_usd,
        ),
        counter=counter,
        price=price_of(manifest),
        new_id=lambda: secrets.token_hex(6),
        jitter=Random().random,
    )


def init_event(parts: Parts, session: Session, setup: Setup) -> Init:
    """Return the event a run's stream begins with."""
    return Init(
        protocol=PROTOCOL,
        pod=parts.manifest.pod.name,
        version=VERSION,
        model=parts.model.id,
        provider=parts.model.provider,
        context_window=parts.model.window,
        max_tokens=parts.model.max_tokens,
        tools=tuple(
            ToolInfo(name=name, has_effects=tool.has_effects)
            for name, tool in setup.toolbox.tools.items()
        ),
        cwd=path_text(parts.cwd),
        log=None if session.path is None else path_text(session.path),
        resumed=len(session.tree) > 0,
        sandbox=parts.tier,
    )
