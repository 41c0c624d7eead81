"""Which session a run is on: a new one, an old one, a copy of one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from pod.cli.failing import UsageError
from pod.clock import now
from pod.entries import FORMAT, AnyEntry, Header, ModelChange, PromptChange
from pod.log import read_log
from pod.session import Session
from pod.setup import Parts
from pod.tree import Tree


class Choice(Struct, frozen=True):
    """What was asked for. *resume* is an id or a part of one."""

    resume: str | None = None
    newest: bool = False
    fork: bool = False
    ephemeral: bool = False
    refresh_prompt: bool = False


@contextmanager
def open_session(
    choice: Choice,
    parts: Parts,
    *,
    on_entry: Callable[[AnyEntry], None],
    warn: Callable[[str], None],
) -> Iterator[Session]:
    """Open the session *choice* means, for as long as the context lasts.

    Raises SessionError where it cannot be had, UsageError where it works in
    another folder.
    """
    with _opened(choice, parts) as session:
        for entry in session.recovered:
            on_entry(entry)
        session.on_entry = on_entry
        if choice.resume is not None or choice.newest:
            _settle_prompt(session, parts, choice, warn)
            _settle_model(session, parts)
        yield session


def _opened(choice: Choice, parts: Parts) -> Session:
    if choice.resume is not None or choice.newest:
        path = _existing(choice, parts)
        if choice.fork:
            leaf = Tree(read_log(path).entries).leaf
            path = parts.store.fork(path, leaf)
        return Session.open(path, durability=parts.manifest.session.durability)
    id = parts.store.new_id()
    header = Header(
        format=FORMAT,
        id=id,
        at=now(),
        cwd=str(parts.cwd),
        system=parts.system,
        pod=parts.manifest.pod.name,
    )
    if choice.ephemeral:
        return Session.ephemeral(header)
    return Session.create(
        parts.store.path(id), header, durability=parts.manifest.session.durability
    )


def _existing(choice: Choice, parts: Parts) -> Path:
    if choice.resume is not None:
        return parts.store.find(choice.resume)
    latest = parts.store.latest(str(parts.cwd))
    if latest is None:
        raise UsageError(
            f"--continue: there is no session of {parts.cwd} in {parts.store.folder}"
        )
    return latest.path


def _settle_prompt(
    session: Session, parts: Parts, choice: Choice, warn: Callable[[str], None]
) -> None:
    """See to it that the system prompt and the folder the tools work in agree."""
    if session.state.system == parts.system:
        return
    if choice.refresh_prompt:
        session.append(PromptChange(system=parts.system))
        return
    if session.header.cwd != str(parts.cwd):
        raise UsageError(
            f"session {session.id} works in {session.header.cwd}, not in"
            f" {parts.cwd}: go on there with --cd {session.header.cwd}, or here"
            " with --refresh-prompt"
        )
    warn(
        "the session keeps the system prompt it began with, though the manifest's"
        " is another now; --refresh-prompt takes the new one"
    )


def _settle_model(session: Session, parts: Parts) -> None:
    model = session.state.model
    if model is not None and model != parts.model.id:
        session.append(ModelChange(model=parts.model.id, previous=model))
