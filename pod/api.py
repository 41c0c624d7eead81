"""The Python API: a Pod in a program of yours. See docs/python.md.

``from pod import Pod, tool``. Everything runs under trio.
"""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar, overload

import trio

from pod.beside import beside
from pod.cli.failing import UsageError
from pod.cli.opening import Choice, open_session
from pod.compaction.job import Outcome
from pod.entries import Mode, RunEnd
from pod.errors import NotRunning, SetupError, ShutDown
from pod.event_stream import EventStream
from pod.events import Event, Standing
from pod.hooks.hook import TIMEOUT, OnFailure
from pod.hooks.payloads import HookEvent
from pod.live import LivePod
from pod.load_manifest import Loaded, load
from pod.navigation import Navigation
from pod.open_live import open_live
from pod.permissions.permit import Approver
from pod.protocol.hub import hub_over, to_all
from pod.protocol.listeners import feeding
from pod.setup import assemble, init_event
from tools.base import Tool
from tools.python_function import wrap
from worker.client import OpenClient
from worker.crash import crash_text
from worker.events import Warning

F = TypeVar("F", bound=Callable[..., object])
P = TypeVar("P", bound="Pod")

Hear = Callable[[Event], None]


class Pod:
    """A Pod: one session, driven by your program.

    Made by ``from_manifest``. One run at a time; what cannot be done now raises
    a ``pod.errors.Refused`` that says why.
    """

    def __init__(self, live: LivePod, heard: "_Heard") -> None:
        self._live = live
        self._heard = heard

    @classmethod
    @asynccontextmanager
    async def from_manifest(
        cls,
        manifest: str | Path | None = None,
        *,
        settings: Sequence[str] = (),
        cwd: str | Path = ".",
        resume: str | None = None,
        ephemeral: bool = False,
        tools: Iterable[Callable[..., object] | Tool] = (),
        approver: Approver | None = None,
        client: OpenClient | None = None,
    ) -> AsyncIterator[Self]:
        """Open a Pod for as long as the context lasts.

        *manifest* is its file (None: pod.toml in *cwd* if there is one),
        *settings* are laid over it as ``-c`` does (``"limits.max_requests=50"``).
        *resume* is the id of a session to go on with, or a part of one; an
        *ephemeral* one is kept nowhere. *tools* are functions, or tools, beside
        the manifest's. *approver* is asked about calls that somebody has to
        allow. *client* takes the provider's place.

        It does not go on by itself behind a compaction, unless *settings* say
        ``compaction.auto_continue=true``. On leaving, a run under way is ended,
        and can be resumed.

        Raises ManifestError, SetupError, SessionError for what cannot be had.
        """
        folder = _folder(Path(cwd))
        overrides = ("compaction.auto_continue=false", *settings)
        path = None if manifest is None else Path(manifest)
        loaded = load(path, overrides, folder)
        async with _opened(
            cls,
            loaded,
            folder,
            Choice(resume=resume, ephemeral=ephemeral),
            [_as_tool(each) for each in tools],
            approver,
            client,
        ) as pod:
            yield pod

    @property
    def session(self) -> str:
        """The session's id."""
        return self._live.session.id

    @property
    def state(self) -> Standing:
        """What is under way: "idle" where nothing is."""
        return self._live.state

    async def run(self, prompt: str) -> RunEnd:
        """Run *prompt*; return its end once the Pod has settled.

        *text* of the end is the answer, *outcome* whether it is whole
        ("finished"); whatever ends a run is told so and raises nothing. Cancelled,
        it interrupts the run. Raises AlreadyRunning, InvalidRequest, NotDone.
        """
        return await self._to_the_end(partial(self._live.prompt, prompt))

    async def resume(self) -> RunEnd:
        """Go on with the turn that stands open; otherwise as ``run``.

        Raises NotPaused, AlreadyRunning.
        """
        return await self._to_the_end(self._live.resume)

    @asynccontextmanager
    async def stream(self, prompt: str) -> AsyncIterator[EventStream]:
        """Run *prompt*, and give its events: ``async for event in events``.

        They end with the run; ``events.result`` is its end then. Leaving the
        context before interrupts the run. Raises as ``run`` does.
        """
        session = self._live.session
        events = EventStream(session.path, session.id)
        with self._heard.by(events.put):
            try:
                events.begin(await self._live.prompt(prompt))
            except trio.Cancelled:
                await self._end_it()
                raise
            try:
                yield events
            finally:
                events.close()
                if not events.is_over:
                    await self._end_it()
        await self._live.settled()

    def add_listener(
        self, listener: Hear, *, types: Iterable[type[Event]] = ()
    ) -> Callable[[], None]:
        """Have *listener* called with each event, or those of *types* alone.

        It is called between two steps of the Pod, so it must return at once. One
        that raises is taken off the list, and a warning tells so. Returns what
        takes it off.
        """
        return self._heard.add(listener, tuple(types))

    def hook(
        self,
        event: HookEvent,
        *,
        tools: Sequence[str] = (),
        timeout: float = TIMEOUT,
        on_failure: OnFailure | None = None,
    ) -> Callable[[F], F]:
        """Have a function asked, or told, at *event*: see docs/hooks.md."""

        def add(function: F) -> F:
            self._live.hooks.add(
                event, function, timeout=timeout, on_failure=on_failure, tools=tools
            )
            return function

        return add

    def steer(self, text: str) -> str:
        """Say *text* to the run under way: it goes with its next request.

        Returns the id that the input has in events.
        """
        return self._live.steer(text)

    def follow_up(self, text: str) -> str:
        """Have *text* run when the run under way is over; return its id in events."""
        return self._live.follow_up(text)

    async def interrupt(self) -> None:
        """End what is under way; return when it is over. Raises NotRunning."""
        await self._live.interrupt()

    async def pause(self) -> None:
        """Stop the run so that it can be resumed; return when it stands."""
        await self._live.pause()

    async def settled(self) -> None:
        """Return when there is nothing to do."""
        await self._live.settled()

    async def compact(
        self, instructions: str = "", *, mode: Mode | None = None
    ) -> Outcome:
        """Compact now: Done, Pruned, Skipped or Failed (``pod.compaction.job``)."""
        return await self._live.compact(instructions, mode)

    def abort_compaction(self) -> bool:
        """End the compaction under way; whether there was one."""
        return self._live.abort_compaction()

    async def navigate(
        self,
        target: str | None,
        *,
        summarize: bool | None = None,
        instructions: str = "",
        replace_instructions: bool = False,
        label: str = "",
    ) -> Navigation:
        """Put the session on another entry: see docs/tree.md.

        *summarize* None does as the manifest says. *instructions* go to the
        summariser, behind its own or in their place.
        """
        return await self._live.navigate(
            target,
            summarize=summarize,
            instructions=instructions,
            replace_instructions=replace_instructions,
            label=label,
        )

    async def fork(self, entry: str | None = None) -> str:
        """Copy the path to *entry* (None: the leaf) into a new session; its id."""
        return await self._live.fork(entry)

    async def set_model(self, name: str) -> None:
        """Ask another model from the next request on."""
        await self._live.set_model(name)

    async def _to_the_end(self, begin: Callable[[], Awaitable[str]]) -> RunEnd:
        ends: dict[str, RunEnd] = {}
        changed = trio.Event()

        def hear(event: Event) -> None:
            nonlocal changed
            if isinstance(event, RunEnd) and event.run is not None:
                ends[event.run] = event
                changed.set()
                changed = trio.Event()

        with self._heard.by(hear):
            try:
                run = await begin()
                while run not in ends:
                    await changed.wait()
            except trio.Cancelled:
                await self._end_it()
                raise
        await self._live.settled()
        return ends[run]

    async def _end_it(self) -> None:
        """End what is under way, or was asked for; who asked is gone."""
        with trio.CancelScope(shield=True), suppress(NotRunning, ShutDown):
            await self._live.interrupt()


class _Heard:
    """Who listens in this process."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Hear, tuple[type[Event], ...]]] = []

    def add(
        self, listener: Hear, types: tuple[type[Event], ...] = ()
    ) -> Callable[[], None]:
        entry = (listener, types)
        self._listeners.append(entry)

        def remove() -> None:
            if entry in self._listeners:
                self._listeners.remove(entry)

        return remove

    @contextmanager
    def by(self, listener: Hear) -> Iterator[None]:
        """Have *listener* called for as long as the context lasts."""
        remove = self.add(listener)
        try:
            yield
        finally:
            remove()

    def tell(self, event: Event) -> None:
        """Tell everybody. What a listener raises ends its listening, no more."""
        for entry in tuple(self._listeners):
            listener, types = entry
            if entry not in self._listeners or (types and not isinstance(event, types)):
                continue
            try:
                listener(event)
            # Whatever the program's listener does. It is sync, so that no Cancelled
            # comes out of it, and what it raises is told, not hidden.
            except Exception as error:  # noqa: BLE001
                # It may have taken itself off, or have failed at a warning about
                # another one just now.
                if entry in self._listeners:
                    self._listeners.remove(entry)
                name = getattr(listener, "__qualname__", None) or repr(listener)
                self.tell(
                    Warning(f"the listener {name} was taken off: {crash_text(error)}")
                )


@asynccontextmanager
async def _opened(
    kind: type[P],
    loaded: Loaded,
    cwd: Path,
    choice: Choice,
    tools: Sequence[Tool],
    approver: Approver | None,
    client: OpenClient | None,
) -> AsyncIterator[P]:
    parts = assemble(loaded, cwd, client)
    heard = _Heard()

    def warn(text: str) -> None:
        heard.tell(Warning(text))

    opening = open_session(choice, parts, on_entry=heard.tell, warn=warn)
    with ExitStack() as stack:
        try:
            session = stack.enter_context(opening)
        except UsageError as error:
            raise SetupError(str(error)) from error
        async with parts.opened(session, approver=approver, tools=tools) as opened:
            hub = hub_over(session, parts.model.id, warn=warn)
            session.on_entry = to_all(hub.entry, heard.tell)
            tell = to_all(hub.live, heard.tell)
            live = open_live(
                parts, opened, session, tell=tell, settled=trio.lowlevel.checkpoint
            )
            about = init_event(parts, session, opened.setup)
            async with feeding(hub, loaded, cwd, about, warn):
                async with _driven(live):
                    yield kind(live, heard)


@asynccontextmanager
async def _driven(live: LivePod) -> AsyncIterator[None]:
    """Drive *live* while the context lasts."""
    async with beside() as nursery:
        await nursery.start(live.serve)
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):
                await live.shutdown()


def _folder(cwd: Path) -> Path:
    if not cwd.is_dir():
        raise SetupError(f"cwd = {str(cwd)!r}: there is no such folder")
    return cwd.resolve()


def _as_tool(given: Callable[..., object] | Tool) -> Tool:
    return wrap(given, getattr(given, "tool_name", None)) if callable(given) else given


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(*, name: str | None = None, read_only: bool = False) -> Callable[[F], F]: ...


def tool(
    function: F | None = None, /, *, name: str | None = None, read_only: bool = False
) -> F | Callable[[F], F]:
    """Mark a function as a tool: ``@tool``, or ``@tool(read_only=True)``.

    It stays the function it is; hand it to ``Pod.from_manifest(tools=[…])``. Its
    type hints and docstring are what the model is told: docs/tools.md. *name* is
    what the model calls it, *read_only* says that it changes nothing.
    """

    def mark(marked: F) -> F:
        wrap(marked, name)  # what cannot be a tool is said here, where it stands
        if name is not None:
            marked.tool_name = name  # type: ignore[attr-defined]
        marked.read_only = read_only  # type: ignore[attr-defined]
        return marked

    return mark if function is None else mark(function)
