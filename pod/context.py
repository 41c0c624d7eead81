"""What the model sees of a session: a pure function of the path to its leaf."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pod.entries import (
    AnyEntry,
    Header,
    ModelChange,
    PromptChange,
    RunEnd,
    RunStart,
    SandboxChange,
    ToolStart,
    TurnAbandoned,
)
from pod.view import View
from worker.items import Item


def context(path: Iterable[AnyEntry]) -> list[Item]:
    """Return the history that the entries of a path make, root first.

    Behind the newest compaction that is: its summary, the user's directives, the
    auto-read files and the references, all as SystemText; then the items from
    its first kept entry on, as prunes and clips show them. The same path gives
    the same items, whenever and wherever it is read.
    """
    return View(path).items


class State(Struct, frozen=True):
    """How things stand at the end of a path.

    *open_run* began and has no end. *interrupted*: the last run's turn was not
    finished, and can go on. *begun* are the calls of which a ToolStart is proof
    that they began to run.
    """

    system: str
    model: str | None
    last_run: RunEnd | None
    open_run: RunStart | None
    begun: frozenset[str]
    sandbox: str = "off"
    """What holds commands: see Header.sandbox."""

    @property
    def interrupted(self) -> bool:
        return self.open_run is not None or (
            self.last_run is not None and self.last_run.interrupted
        )


def state(header: Header, path: Sequence[AnyEntry]) -> State:
    """Return how things stand at the end of the path."""
    system, sandbox = header.system, header.sandbox
    model: str | None = None
    last_run: RunEnd | None = None
    open_run: RunStart | None = None
    begun: set[str] = set()
    for entry in path:
        if isinstance(entry, RunStart):
            open_run, model = entry, entry.model
        elif isinstance(entry, RunEnd):
            open_run, last_run = None, entry
        elif isinstance(entry, TurnAbandoned):
            if last_run is not None:
                last_run = replace(last_run, interrupted=False)
        elif isinstance(entry, ModelChange):
            model = entry.model
        elif isinstance(entry, PromptChange):
            system = entry.system
        elif isinstance(entry, SandboxChange):
            sandbox = entry.tier
        elif isinstance(entry, ToolStart):
            begun.add(entry.call_id)
    return State(system, model, last_run, open_run, frozenset(begun), sandbox)
