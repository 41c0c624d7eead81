"""What the model sees of a session: a pure function of the path to its leaf."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from pod.entries import (
    AnyEntry,
    BreakerChange,
    Clip,
    Compaction,
    CompactionFailed,
    CompactionStart,
    Custom,
    CustomMessage,
    DeliveredEntry,
    Header,
    InputEntry,
    ItemEntry,
    Label,
    Leaf,
    ModelChange,
    Notice,
    PromptChange,
    Prune,
    RunEnd,
    RunStart,
    SessionInfo,
    ToolStart,
    Unknown,
    UsageEntry,
)
from prompts import load
from worker.items import Item, SystemText


def context(path: Iterable[AnyEntry]) -> list[Item]:
    """Return the history that the entries of a path make, root first.

    The same path gives the same items, whenever and wherever it is read.
    """
    # A compaction will replace the items before its first kept one here.
    return [item for entry in path for item in items(entry)]


def items(entry: AnyEntry) -> tuple[Item, ...]:
    """Return what one entry adds to the history, if anything."""
    match entry:
        case ItemEntry(item=item):
            return (item,)
        case CustomMessage(kind=kind, text=text):
            return (SystemText(_framed("custom_message", kind=kind, text=text)),)
        case (
            InputEntry()
            | DeliveredEntry()
            | UsageEntry()
            | RunStart()
            | RunEnd()
            | ToolStart()
            | ModelChange()
            | PromptChange()
            | SessionInfo()
            | Label()
            | Leaf()
            | Custom()
            | Notice()
            | CompactionStart()
            | Compaction()
            | CompactionFailed()
            | BreakerChange()
            | Prune()
            | Clip()
            | Unknown()
        ):
            return ()


def _framed(prompt: str, **values: str) -> str:
    """Fill a prompt file's {names}; what is filled in is not looked at again."""
    return re.sub(r"\{(\w+)\}", lambda name: values[name[1]], load(prompt))


def pending_inputs(path: Iterable[AnyEntry]) -> list[InputEntry]:
    """Return the inputs that were accepted and are not in the history yet."""
    pending: dict[str, InputEntry] = {}
    for entry in path:
        if isinstance(entry, InputEntry):
            pending[entry.input] = entry
        elif isinstance(entry, DeliveredEntry):
            for input in entry.inputs:
                pending.pop(input, None)
    return list(pending.values())


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

    @property
    def interrupted(self) -> bool:
        return self.open_run is not None or (
            self.last_run is not None and self.last_run.interrupted
        )


def state(header: Header, path: Sequence[AnyEntry]) -> State:
    """Return how things stand at the end of the path."""
    system = header.system
    model: str | None = None
    last_run: RunEnd | None = None
    open_run: RunStart | None = None
    begun: set[str] = set()
    for entry in path:
        if isinstance(entry, RunStart):
            open_run, model = entry, entry.model
        elif isinstance(entry, RunEnd):
            open_run, last_run = None, entry
        elif isinstance(entry, ModelChange):
            model = entry.model
        elif isinstance(entry, PromptChange):
            system = entry.system
        elif isinstance(entry, ToolStart):
            begun.add(entry.call_id)
    return State(system, model, last_run, open_run, frozenset(begun))
