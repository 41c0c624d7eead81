"""Which session a run is on: a new one, an old one, a copy of one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pod.branches import destination, find_entry
from pod.cli.failing import UsageError
from pod.clock import now
from pod.context import state
from pod.entries import (
    FORMAT,
    AnyEntry,
    Header,
    Leaf,
    ModelChange,
    PromptChange,
    SandboxChange,
)
from pod.errors import SessionDamaged
from pod.log import read_log
from pod.path_text import path_text
from pod.session import Session
from pod.setup import Parts
from pod.tree import Tree, fork


class Choice(Struct, frozen=True):
    """What was asked for. *resume* is an id or a part of one.

    With *look* an old session is only looked at: nothing is written to it. Then
    *at* may name an entry to look from, as if it had been the last one; with
    *fork* it is one that the copy goes to, else one that the session is to go to.
    """

    resume: str | None = None
    newest: bool = False
    fork: bool = False
    ephemeral: bool = False
    refresh_prompt: bool = False
    look: bool = False
    at: str | None = None

    @property
    def moves(self) -> bool:
        """Whether the session goes to *at* once it is open; then settle comes after."""
        return self.at is not None and not self.fork and not self.look


@contextmanager
def open_session(
    choice: Choice,
    parts: Parts,
    *,
    on_entry: Callable[[AnyEntry], None],
    warn: Callable[[str], None],
) -> Iterator[Session]:
    """Open the session *choice* means, for as long as the context lasts.

    A new one in which nothing came about is taken away again. Raises
    SessionError where it cannot be had, UsageError where it works in another
    folder.
    """
    goes_on = choice.resume is not None or choice.newest
    source = _existing(choice, parts) if goes_on else None
    with _opened(choice, parts, source) as session:
        for entry in session.recovered:
            on_entry(entry)
        if choice.look and choice.at is not None:
            _move(session, choice.at)
        session.on_entry = on_entry
        if choice.moves:
            system = session.state.system
            _refuse_other_folder(session.header, system, parts, choice)
        elif goes_on:
            settle(session, parts, choice, warn)
        length = len(session.tree)
        try:
            yield session
        finally:
            is_new = source is None or choice.fork
            if is_new and len(session.tree) == length and session.path is not None:
                session.close()
                session.path.unlink(missing_ok=True)


def _move(session: Session, at: str) -> None:
    """Put the leaf on the entry *at*, in memory. Raises what find_entry raises."""
    session.append(Leaf(target=find_entry(session.tree, at)))


def _opened(choice: Choice, parts: Parts, source: Path | None) -> Session:
    durability = parts.manifest.session.durability
    if source is not None and not choice.fork:
        return Session.open(source, durability=durability, kept=not choice.look)
    if source is not None:
        return _forked(choice, parts, source)
    id = parts.store.new_id()
    header = Header(
        format=FORMAT,
        id=id,
        at=now(),
        cwd=path_text(parts.cwd),
        system=parts.system,
        pod=parts.manifest.pod.name,
        sandbox=parts.tier,
    )
    if choice.ephemeral:
        return Session.ephemeral(header)
    return Session.create(parts.store.path(id), header, durability=durability)


def _forked(choice: Choice, parts: Parts, source: Path) -> Session:
    """Copy the session at *source*; one that is refused leaves no copy."""
    scan = read_log(source)
    if scan.header is None or scan.damage:
        raise SessionDamaged(
            f"{source} is damaged: run pod session repair {source.stem} first"
        )
    tree = Tree(scan.entries)
    leaf = tree.leaf
    if choice.at is not None:
        leaf = destination(tree, find_entry(tree, choice.at)).leaf
    system = state(scan.header, tree.path(leaf)).system
    _refuse_other_folder(scan.header, system, parts, choice)
    if not choice.ephemeral:
        path = parts.store.fork(source, leaf)
        return Session.open(path, durability=parts.manifest.session.durability)
    ids = map("{:08x}".format, count(1))
    header = replace(
        scan.header,
        id=parts.store.new_id(),
        at=now(),
        parent_session=scan.header.id,
    )
    entries = fork(scan.entries, leaf, lambda: next(ids))
    return Session.ephemeral(header, entries)


def _existing(choice: Choice, parts: Parts) -> Path:
    if choice.resume is not None:
        return parts.store.find(choice.resume)
    latest = parts.store.latest(path_text(parts.cwd))
    if latest is None:
        raise UsageError(
            f"--continue: there is no session of {parts.cwd} in {parts.store.folder}"
        )
    return latest.path


def _refuse_other_folder(
    header: Header, system: str, parts: Parts, choice: Choice
) -> None:
    """Refuse a session whose system prompt names another folder. Raises UsageError."""
    is_same = system == parts.system or header.cwd == path_text(parts.cwd)
    if not is_same and not choice.refresh_prompt:
        raise UsageError(
            f"session {header.id} works in {header.cwd}, not in"
            f" {parts.cwd}: go on there with --cd {header.cwd}, or here"
            " with --refresh-prompt"
        )


def settle(
    session: Session, parts: Parts, choice: Choice, warn: Callable[[str], None]
) -> None:
    """Settle with which prompt, model and sandbox an old session goes on.

    Raises UsageError where it works in another folder.
    """
    _settle_prompt(session, parts, choice, warn)
    _settle_model(session, parts)
    if parts.runs_commands:
        _settle_sandbox(session, parts, warn)


def _settle_prompt(
    session: Session, parts: Parts, choice: Choice, warn: Callable[[str], None]
) -> None:
    """Go on with the session's own system prompt, or the manifest's on request."""
    system = session.state.system
    _refuse_other_folder(session.header, system, parts, choice)
    if system == parts.system:
        return
    if choice.refresh_prompt:
        session.append(PromptChange(system=parts.system))
        return
    warn(
        "the session keeps the system prompt it began with, though the manifest's"
        " is another now; --refresh-prompt takes the new one"
    )


def _settle_sandbox(
    session: Session, parts: Parts, warn: Callable[[str], None]
) -> None:
    before = session.state.sandbox
    if before != parts.tier:
        session.append(SandboxChange(tier=parts.tier, previous=before))
        if before:
            warn(
                f"bash runs in another sandbox than before: {parts.tier}, not {before}"
            )


def _settle_model(session: Session, parts: Parts) -> None:
    model = session.state.model
    if model is not None and model != parts.model.id:
        session.append(ModelChange(model=parts.model.id, previous=model))
