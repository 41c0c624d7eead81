"""``pod run``: from arguments to a result on stdout and an exit code."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import TextIO

import trio

from pod.branches import find_entry
from pod.cli.failing import UsageError
from pod.cli.folder import working_folder
from pod.cli.opening import Choice, open_session, settle
from pod.cli.options import Options
from pod.cli.output import Output
from pod.cli.standard_input import read_input
from pod.cli.streams import kept_for_results
from pod.closing import is_open
from pod.compaction.compactor import Tell
from pod.entries import RunEnd
from pod.errors import SetupError
from pod.events import Init
from pod.exits import Exit
from pod.hooks.hooks import Hooks
from pod.hooks.open_hooks import open_hooks
from pod.load_manifest import Loaded, load
from pod.navigation import navigate
from pod.pod import Pod
from pod.session import Session
from pod.setup import Parts, assemble, init_event, open_pod
from pod.store import Store
from tools.process import kill_running
from worker.client import OpenClient

TREE_EVENTS = ("session_before_tree", "session_tree")
"""Hooks that have a say in a navigation."""

LAST_SECONDS = 5.0
"""How long a stopped run waits for a reader that does not read."""


def run_prompt(options: Options) -> int:
    """Run what *options* ask for; return the exit code."""
    cwd = working_folder(options.cd)
    check_options(options)
    loaded = load(options.manifest, options.settings, cwd)
    if options.resume is not None:  # what is not there needs no key
        Store(loaded.session_dir).find(options.resume)
    prompt = read_prompt(options, sys.stdin)
    return trio.run(run_loaded, loaded, cwd, options, prompt, None)


def check_options(options: Options) -> None:
    """Refuse flags that do not go together. Raises UsageError."""
    goes_on = options.resume is not None or options.newest
    if options.resume is not None and options.newest:
        raise UsageError("--resume and --continue exclude each other")
    if options.fork and not goes_on:
        raise UsageError("--fork goes with --resume ID or --continue")
    if options.ephemeral and goes_on and not options.fork:
        raise UsageError(
            "--ephemeral goes with --resume or --continue only with --fork"
        )
    if options.at is not None and not goes_on:
        raise UsageError("--at goes with --resume ID or --continue")
    if options.refresh_prompt and not goes_on:
        raise UsageError("--refresh-prompt goes with --resume ID or --continue")
    if options.answer_file is not None:
        _check_answer_file(options.answer_file)


def _check_answer_file(path: Path) -> None:
    """Refuse before the run what would lose its answer."""
    if path.is_dir():
        raise UsageError(f"-o {path}: a folder; name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"-o {path}: there is no folder {path.parent}")


def read_prompt(options: Options, stdin: TextIO) -> str | None:
    """Return the prompt: the argument, or standard input where that is meant.

    Standard input is read for "-", and for a new session without a prompt when
    it is no terminal. Never otherwise: a pipe that nobody closes would hang the
    run. None means to go on with what is open. Raises UsageError.
    """
    goes_on = options.resume is not None or options.newest
    prompt = options.prompt
    if prompt == "-" or (prompt is None and not goes_on and not stdin.isatty()):
        prompt = read_input(stdin)
    elif prompt is not None:
        # Bytes that are no UTF-8 come as lone surrogates: nobody could take them.
        prompt = prompt.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if prompt is None:
        if goes_on:
            return None
        raise UsageError(
            'what should it do? Write: pod run "PROMPT", or pipe the prompt in'
        )
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    return prompt


async def run_loaded(
    loaded: Loaded,
    cwd: Path,
    options: Options,
    prompt: str | None,
    open_client: OpenClient | None,
) -> int:
    """Open the session, run, and close; *open_client* in place of the manifest's."""
    with kept_for_results() as stdout:
        output = Output(options, stdout)
        return await run_parts(
            assemble(loaded, cwd, open_client), options, prompt, output
        )


async def run_parts(
    parts: Parts, options: Options, prompt: str | None, output: Output
) -> int:
    """Run *prompt* on the session that *options* choose; *output* ends it."""
    choice = Choice(
        resume=options.resume,
        newest=options.newest,
        fork=options.fork,
        ephemeral=options.ephemeral,
        refresh_prompt=options.refresh_prompt,
        at=options.at,
    )
    with open_session(
        choice, parts, on_entry=output.entry, warn=output.warn
    ) as session:
        if options.at is not None and choice.moves:
            await _go_to(session, options.at, parts, output)
            settle(session, parts, choice, output.warn)
        if prompt is None and not is_open(session):
            raise UsageError(
                f"session {session.id} has nothing left to do: its last run is"
                " finished. Give a prompt to go on with it."
            )
        async with parts.opened(session) as opened:
            init = init_event(parts, session, opened.setup)
            async with _told(parts, session, init, output) as tell:
                agent = open_pod(
                    parts, opened, session, tell=tell, settled=output.settled
                )
                output.begin(session.id, init)
                end = await _run(agent, output, prompt)
    return output.finish(end, session)


@asynccontextmanager
async def _told(
    parts: Parts, session: Session, init: Init, output: Output
) -> AsyncIterator[Tell]:
    """Give what hears the live events: the output, and the manifest's listeners."""
    if not parts.manifest.listeners:
        yield output.live
        return
    from pod.protocol.hub import hub_over, to_all
    from pod.protocol.listeners import feeding

    hub = hub_over(session, parts.model.id, warn=output.warn)
    session.on_entry = to_all(output.entry, hub.entry)
    async with feeding(hub, parts.loaded, parts.cwd, init, output.warn):
        yield to_all(output.live, hub.live)


async def _go_to(session: Session, at: str, parts: Parts, output: Output) -> None:
    """Put the session where --at says, if no hook has anything against it.

    Raises EntryNotFound, AmbiguousEntry, and SetupError for a veto.
    """
    target = find_entry(session.tree, at)
    has_say = any(hook.event in TREE_EVENTS for hook in parts.manifest.hooks)
    hooks = Hooks(
        open_hooks(parts.loaded, parts.cwd) if has_say else (), tell=output.live
    )
    found = await navigate(session, target, hooks=hooks, tell=output.live)
    if found.cancelled:
        raise SetupError(f"--at {at}: {found.message}", Exit.BLOCKED)


async def _run(agent: Pod, output: Output, prompt: str | None) -> RunEnd:
    with output.shown():
        async with trio.open_nursery() as nursery:
            await nursery.start(watch_signals, agent)
            nursery.start_soon(output.write, agent)
            try:
                end = await agent.run(prompt)
                output.close(end)
            finally:
                with trio.move_on_after(LAST_SECONDS, shield=True):
                    await output.settled()
            nursery.cancel_scope.cancel()
    return end


async def watch_signals(
    agent: Pod, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Stop the run at the first signal, the process at the second."""
    with trio.open_signal_receiver(SIGINT, SIGTERM) as signals:
        task_status.started()
        first = True
        async for signal in signals:
            if not first:
                kill_running()
                os._exit(128 + signal)
            first = False
            agent.stop("sigint" if signal == SIGINT else "sigterm")
