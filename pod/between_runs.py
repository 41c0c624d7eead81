"""What is done with a Pod between two runs: its leaf moved, its model changed."""

from collections.abc import Callable
from pathlib import Path

import trio
from msgspec import Struct

from pod.branch_summary.summary import Summarizer
from pod.compaction.job import NotMade, Skipped
from pod.compaction.opening import files_of
from pod.errors import (
    EntryNotFound,
    Interrupted,
    InvalidRequest,
    NavigationMissed,
    NavigationRefused,
    NotDone,
    NotFound,
    SessionError,
    SetupError,
)
from pod.events import PodLive
from pod.manifest_errors import ManifestError
from pod.navigation import Navigation, navigate
from pod.pod import Pod, Stopped, Switched
from worker.events import Live, Warning

Switch = Callable[[str], Switched]
"""Gives what a model of this name is asked with, and with the system prompt of the
session's path. Raises SetupError, ManifestError."""
Fork = Callable[[Path, str | None], str]
"""Copies the path to an entry of a log into a new session; gives that one's id.
Blocks. Raises SessionError."""


class Doors(Struct, frozen=True):
    """What a Pod that stays needs of the world, besides its session.

    *summarizer* gives what summarises branches, None for nobody; *summarizes*
    tells whether a navigation that says nothing about it wants a summary.
    """

    switch: Switch | None = None
    fork: Fork | None = None
    summarizer: Callable[[], Summarizer] | None = None
    summarizes: bool = False


class Way(Struct, frozen=True):
    """Where a navigation is to lead, and what is wanted of it."""

    target: str | None
    summarize: bool | None
    instructions: str
    replace_instructions: bool
    label: str


async def go(
    pod: Pod,
    way: Way,
    doors: Doors,
    *,
    listen: Callable[[Live | PodLive], None],
    abort: trio.CancelScope,
) -> Navigation:
    """Move *pod*'s leaf, under its maintenance lock.

    Raises NotFound, InvalidRequest, NotDone, Busy, LogFailed.
    """
    wants = doors.summarizes if way.summarize is None else way.summarize
    ask = doors.summarizer
    try:
        with pod.watch.maintenance.doing("navigation"):
            moved = await navigate(
                pod.session,
                way.target,
                summarize=wants,
                instructions=way.instructions,
                replace_instructions=way.replace_instructions,
                label=way.label,
                hooks=pod.hooks,
                summarizer=ask() if wants and ask is not None else None,
                tell=listen,
                abort=abort,
            )
    except EntryNotFound as error:
        raise NotFound(str(error)) from error
    except NavigationRefused as error:
        raise InvalidRequest(str(error)) from error
    except NavigationMissed as error:
        raise NotDone(str(error)) from error
    if not moved.cancelled and moved.new_leaf != moved.old_leaf:
        if doors.switch is not None and pod.session.state.system != pod.setup.system:
            # A branch has its own system prompt: the same model, asked with that.
            try:
                pod.become(doors.switch(pod.setup.model.id))
            except (SetupError, ManifestError) as error:
                text = f"the branch's own system prompt cannot be used: {error}"
                listen(Warning(message=text))
        pod.watch.occupancy.reset()
        pod.files.become(files_of(pod.session))
    return moved


async def change_model(pod: Pod, name: str, doors: Doors) -> None:
    """Have *pod* ask the model *name*; the one before makes room for it.

    Raises InvalidRequest, NotDone, Interrupted, LogFailed.
    """
    before = pod.setup.model.id
    if name == before:
        return
    if doors.switch is None:
        raise InvalidRequest("this Pod has one model only")
    try:
        to = doors.switch(name)
    except (SetupError, ManifestError) as error:
        raise InvalidRequest(str(error)) from error
    try:
        outcome = await pod.switch(to)
    except Stopped as stopped:
        raise Interrupted(f"interrupted; the model stays {before}") from stopped
    if isinstance(outcome, NotMade):
        why = outcome.message if isinstance(outcome, Skipped) else outcome.entry.message
        raise NotDone(
            f"the history is too large for {name}: {why}. The model stays {before}"
        )


async def copy(pod: Pod, entry: str | None, doors: Doors) -> str:
    """Copy the path to *entry* (None: the leaf) to a new session; return its id.

    The session is only read. Raises NotFound, InvalidRequest, NotDone, LogFailed.
    """
    session, fork = pod.session, doors.fork
    target = session.leaf if entry is None else entry
    if target not in session.tree:
        raise NotFound(f"there is no entry {target}")
    if session.path is None or fork is None:
        raise InvalidRequest("a session that is not kept cannot be forked")
    await session.commit()
    try:
        return await trio.to_thread.run_sync(fork, session.path, target)
    except (SessionError, OSError) as error:
        raise NotDone(f"the session could not be copied: {error}") from error
