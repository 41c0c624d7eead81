"""``pod session goto``, ``fork`` and ``label``: moving about in a session's tree."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGINT, SIGTERM

import msgspec
import trio
from msgspec import Struct

from pod.branch_summary.opening import open_summarizer
from pod.branch_summary.summary import Summarizer
from pod.branches import destination, find_entry
from pod.cli.failing import UsageError
from pod.cli.flags import Workplace
from pod.cli.folder import load_in
from pod.cli.receipts import branch_size
from pod.cli.sessions import store_of
from pod.cli.streams import kept_for_results, say, write_result
from pod.entries import Label
from pod.errors import SessionDamaged
from pod.events import HookFailed, NavigateStart
from pod.exits import Exit
from pod.hooks.hook import Hook
from pod.hooks.hooks import Hooks
from pod.hooks.open_hooks import open_hooks
from pod.load_manifest import Loaded
from pod.log import read_log
from pod.navigation import Navigation, navigate
from pod.open_model import model_of, summary_models
from pod.session import Session
from pod.setup import assemble, refuse_errors
from pod.store import Store
from pod.tree import Tree
from tools.text import counted, short_line
from worker.client import OpenClient
from worker.events import Live, Retry, Warning

LONGEST_LABEL = 80
"""Characters; a label is a name, and stands in lines with others."""


class Asked(Struct, frozen=True):
    """What ``goto`` was asked for. *summarize* None: as the manifest says."""

    session: str
    entry: str
    summarize: bool | None = None
    instructions: str = ""
    replace_instructions: bool = False
    label: str = ""
    quiet: bool = False
    as_json: bool = False


def go(asked: Asked, place: Workplace) -> int:
    """Put a session's leaf on another entry; print the text that is handed back."""
    cwd, loaded = load_in(place)
    return trio.run(go_loaded, loaded, cwd, asked, None)


async def go_loaded(
    loaded: Loaded, cwd: Path, asked: Asked, open_client: OpenClient | None
) -> int:
    """Open the session, navigate, close; *open_client* in place of the manifest's."""
    wants = loaded.manifest.branch_summary.enabled
    if asked.summarize is not None:
        wants = asked.summarize
    if not wants and (asked.instructions or asked.replace_instructions):
        raise UsageError("--instructions are for a summary: add --summarize")
    label = checked_label(asked.label)
    with (
        kept_for_results() as stdout,
        Session.open(
            Store(loaded.session_dir).find(asked.session),
            durability=loaded.manifest.session.durability,
        ) as session,
    ):
        target = find_entry(session.tree, asked.entry)
        if label and target is None and not wants:
            raise UsageError("the root cannot have a label: it is no entry")
        # Asked before a model is opened: what is not there needs no key.
        destination(session.tree, target)
        async with _means(loaded, cwd, session, asked, wants, open_client) as means:
            found, signal = await _stoppable(
                session, target, asked, label=label, means=means
            )
        if found.cancelled:
            say(f"pod: {found.message}; {session.id} stands where it stood")
            return Exit.BLOCKED if signal is None else 128 + signal
        return _give(stdout, session, found, asked)


class _Means(Struct, frozen=True):
    """Who has a say in a navigation, and who summarises, where that is wanted."""

    hooks: tuple[Hook, ...]
    summarizer: Summarizer | None = None


@asynccontextmanager
async def _means(
    loaded: Loaded,
    cwd: Path,
    session: Session,
    asked: Asked,
    wants: bool,
    open_client: OpenClient | None,
) -> AsyncIterator[_Means]:
    """Open what a navigation takes: a model only where a summary is wanted.

    Hooks are only opened from a manifest that the check has nothing against.
    """
    if not wants:
        if loaded.manifest.hooks:
            store, model = Store(loaded.session_dir), model_of(loaded.manifest)
            refuse_errors(loaded, cwd, store, model)
        yield _Means(open_hooks(loaded, cwd))
        return

    def told(event: Live) -> None:
        if isinstance(event, Warning):
            say(f"pod: {event.message}")
        elif isinstance(event, Retry) and not asked.quiet:
            say(f"pod: {event.kind}: {event.message}; again in {event.wait:.1f} s")

    parts = assemble(loaded, cwd, open_client, commands=False)
    async with parts.opened(session) as opened:
        summarizer = open_summarizer(
            parts.manifest,
            opened.setup,
            models=summary_models(parts.manifest, opened.setup.model),
            listen=told,
        )
        yield _Means(opened.hooks, summarizer)


async def _stoppable(
    session: Session,
    target: str | None,
    asked: Asked,
    *,
    label: str,
    means: _Means,
) -> tuple[Navigation, int | None]:
    """Navigate, unless a signal stops it: then return which one, too."""
    abort = trio.CancelScope()
    stopped: list[int] = []

    def told(event: NavigateStart | Warning) -> None:
        if isinstance(event, Warning):
            say(f"pod: {event.message}")
        elif event.summarize and not asked.quiet:
            say(f"pod: summarising {branch_size(event)}")

    def failed(event: HookFailed) -> None:
        say(f"pod: the {event.event} hook {event.hook} failed: {event.message}")

    async def watch(task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(SIGINT, SIGTERM) as signals:
            task_status.started()
            async for signal in signals:
                stopped.append(signal)
                abort.cancel()

    async with trio.open_nursery() as nursery:
        await nursery.start(watch)
        found = await navigate(
            session,
            target,
            summarize=means.summarizer is not None,
            instructions=asked.instructions,
            replace_instructions=asked.replace_instructions,
            label=label,
            hooks=Hooks(means.hooks, tell=failed),
            summarizer=means.summarizer,
            tell=told,
            abort=abort,
        )
        nursery.cancel_scope.cancel()
    return found, stopped[0] if stopped else None


class Went(Struct, frozen=True):
    """``goto --json``. *text* is that of the message that was gone back to."""

    session: str
    old_leaf: str | None
    new_leaf: str | None
    text: str
    summary: str | None
    """Id of the branch summary."""


def _give(stdout: int, session: Session, found: Navigation, asked: Asked) -> int:
    if asked.as_json:
        went = Went(
            session=session.id,
            old_leaf=found.old_leaf,
            new_leaf=found.new_leaf,
            text=found.text,
            summary=None if found.entry is None else found.entry.id,
        )
        text = msgspec.json.encode(went).decode() + "\n"
        return Exit.DONE if write_result(stdout, text) else Exit.FAILED
    if found.entry is not None:
        count = counted(found.entry.summarised, "message")
        more = f", {found.entry.left_out:,} older ones left out"
        cost = found.entry.cost_usd
        say(
            f"pod: {count} summarised{more if found.entry.left_out else ''};"
            f" {'price unknown' if cost is None else f'${cost:.4f}'}"
        )
    elif asked.summarize and not asked.quiet:
        say("pod: nothing was left behind, so there is no summary")
    where = found.new_leaf or "the beginning"
    again = "; its text, to be changed and given again:" if found.text else ""
    if not asked.quiet:
        say(f"pod: {session.id} stands at {where}{again}")
    given = not found.text or write_result(stdout, found.text.rstrip("\n") + "\n")
    return Exit.DONE if given else Exit.FAILED


class Forked(Struct, frozen=True):
    """``fork --json``. *text* is that of the message the fork ends before."""

    session: str
    parent: str
    leaf: str | None
    text: str


def fork(session: str, entry: str | None, place: Workplace, *, as_json: bool) -> int:
    """Copy the path to an entry into a session of its own; print its id."""
    store = store_of(place)
    source = store.find(session)
    scan = read_log(source)
    if scan.header is None or scan.damage:
        raise SessionDamaged(
            f"{source} is damaged: run pod session repair {source.stem} first"
        )
    tree = Tree(scan.entries)
    leaf, text = tree.leaf, ""
    if entry is not None:
        there = destination(tree, find_entry(tree, entry))
        leaf, text = there.leaf, there.text
    made = store.fork(source, leaf)
    with kept_for_results() as stdout:
        if as_json:
            forked = Forked(made.stem, source.stem, leaf, text)
            line = msgspec.json.encode(forked).decode()
        else:
            line = made.stem
            if text:
                say(f"pod: it ends before the message: {short_line(text, 60)}")
        return Exit.DONE if write_result(stdout, line + "\n") else Exit.FAILED


def label(session: str, entry: str, name: str, place: Workplace) -> int:
    """Give an entry a name, or take it away (an empty one)."""
    _, loaded = load_in(place)
    name = checked_label(name)

    async def write() -> None:
        durability = loaded.manifest.session.durability
        path = Store(loaded.session_dir).find(session)
        with Session.open(path, durability=durability) as opened:
            target = find_entry(opened.tree, entry)
            if target is None:
                raise UsageError("the root cannot have a label: it is no entry")
            opened.append(Label(target=target, label=name))
            await opened.commit()

    trio.run(write)
    return Exit.DONE


def checked_label(name: str) -> str:
    """Return *name* without blanks around it. Raises UsageError for what is no name."""
    name = name.strip()
    if len(name) > LONGEST_LABEL or not (name.isprintable() or not name):
        raise UsageError(
            f"--label {short_line(name, 40)}: a label is one line of at most"
            f" {LONGEST_LABEL} printable characters"
        )
    return name
