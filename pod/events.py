"""What a Pod tells the outside, as JSON lines.

A durable event is an entry of the session log, numbered by its *seq*: who
reads the log again gets the same events again. A live one (deltas, progress,
retries) happens once and carries no number.
"""

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from pod.codec import to_ascii
from pod.entries import (
    AnyEntry,
    BranchSummary,
    Compaction,
    CompactionFailed,
    CompactionStart,
    NavigationFailed,
    RunEnd,
    Unknown,
    UsageEntry,
)
from worker.events import Live

PROTOCOL = "pod/1"
"""Name and version of the event stream; in the first event of every stream."""
VERSION = 1
"""The *v* of every event. Readers ignore types and fields they do not know."""


class ToolInfo(Struct, frozen=True):
    name: str
    has_effects: bool


class Init(Struct, frozen=True, tag="init"):
    """The first event of a run's output: what runs, where, with what."""

    protocol: str
    pod: str
    version: str
    model: str
    provider: str
    context_window: int | None
    max_tokens: int
    tools: tuple[ToolInfo, ...]
    cwd: str
    log: str | None
    """Path of the session log; None for an ephemeral session."""
    resumed: bool
    sandbox: str


class CompactProgress(Struct, frozen=True, tag="compact_progress"):
    """How far a compact worker, or who is asked in its place, is; figures are tokens.

    *auto_read_budget* is 0 where nothing can be marked.
    """

    compaction_id: str
    requests: int
    worker_input_tokens: int
    auto_read_tokens: int
    auto_read_budget: int
    references: int
    has_summary: bool


class CompactSkipped(Struct, frozen=True, tag="compact_skipped"):
    """No compaction was begun, though one was due or wanted."""

    reason: str
    message: str


class HookFailed(Struct, frozen=True, tag="hook_failed"):
    """A hook gave no answer that could be used. *event* is what it was called for."""

    event: str
    hook: str
    message: str


class PermissionRequest(Struct, frozen=True, tag="permission_request"):
    """A call waits for somebody to allow it; a permission entry tells the answer.

    *arguments* is the JSON the model gave, *rule* what led to the question, as
    it is written.
    """

    call_id: str
    tool: str
    arguments: str
    rule: str


class Context(Struct, frozen=True, tag="context"):
    """How full the context is, told after every request and every compaction.

    All figures are tokens. *tokens* is what the provider measured last, None
    where nothing has been since the latest compaction; *estimate* is what is
    known then. Above *post_run_threshold* the context is compacted after the
    run, above *turn_threshold* before the next request; None: no such limit.
    """

    tokens: int | None
    estimate: int | None
    post_run_threshold: int | None
    turn_threshold: int | None
    window: int | None


Standing = Literal["idle", "running", "paused", "compacting", "navigating"]
"""What a Pod that stays is doing."""


class Status(Struct, frozen=True, tag="status"):
    """A Pod that stays is doing something else from here on."""

    state: Standing


class Closing(Struct, frozen=True, tag="closing"):
    """The last event of a connection whose Pod ends; *reason* is a word."""

    reason: str


class Dropped(Struct, frozen=True, tag="dropped"):
    """The last event for a listener that reads too slowly, if it still takes one.

    What was waiting for it is lost to this connection; a new one goes on
    without a gap behind the last *seq* that came.
    """

    message: str


class NavigateStart(Struct, frozen=True, tag="navigate_start"):
    """The leaf is about to move from *old_leaf* to *new_leaf*, for *target*.

    *entries* is how many are left behind, *summarize* whether a model is asked
    for a summary of them first. A ``leaf`` follows, or a ``navigation_failed``.
    """

    target: str | None
    old_leaf: str | None
    new_leaf: str | None
    entries: int
    summarize: bool


# The entries of a compaction, by the names that listeners know them by.
CompactStart = CompactionStart
CompactDone = Compaction
CompactFailed = CompactionFailed

PodLive = (
    CompactProgress
    | CompactSkipped
    | HookFailed
    | PermissionRequest
    | NavigateStart
    | Context
    | Status
    | Closing
    | Dropped
)


class Greeting(Struct, frozen=True):
    """The base of what a connection begins with (pod/protocol/snapshot.py)."""


Event = AnyEntry | Live | PodLive | Init | Greeting


checks: list[Callable[[bytes], None]] = []
"""Told of each line that is made. Empty but in a test run, which holds every one
of them to the published schema."""


def line(
    event: Event, *, session: str, at: str | None = None, run: str | None = None
) -> bytes:
    """Return *event* as one JSON line in ASCII: see bare_line."""
    made = bare_line(event, session=session, at=at, run=run)
    for check in checks:
        check(made)
    return made


def bare_line(
    event: Event, *, session: str, at: str | None = None, run: str | None = None
) -> bytes:
    """Return *event* as one JSON line in ASCII, newline included.

    *at* and *run* are for live events; an entry carries its own. The keys come
    in a fixed order: v, seq, at, session, run, type, then the event's own.
    """
    if isinstance(event, Unknown):
        fields = msgspec.json.decode(event.json, type=dict[str, object])
    else:
        fields = _fields(event)
    kind = type_of(event)
    head: dict[str, object] = {"v": VERSION}
    if "seq" in fields:
        head["seq"] = fields["seq"]
    head["at"] = fields.get("at", at)
    head["session"] = session
    head["run"] = fields.get("run", run)
    head["type"] = kind
    rest = {name: value for name, value in fields.items() if name not in head}
    return to_ascii(_encoded(head | rest)) + b"\n"


def _encoded(fields: dict[str, object]) -> bytes:
    try:
        return _encoder.encode(fields)
    except UnicodeEncodeError:
        # An entry is well-formed, or it were not in the log. A live event may
        # carry what a tool said: flat text, with lone surrogates in it.
        return _encoder.encode(
            {
                name: value.encode("utf-8", "replace").decode()
                if isinstance(value, str)
                else value
                for name, value in fields.items()
            }
        )


_encoder = msgspec.json.Encoder()


def _fields(event: Event) -> dict[str, object]:
    """Return *event*'s fields. Defaults are left out, as in the log, with two exceptions.

    The result has all of its fields, for those who read nothing else; and a cost
    that is not known is null wherever there could be one: no cost is another thing.
    """
    fields = msgspec.convert(msgspec.to_builtins(event), dict[str, object])
    if isinstance(event, RunEnd):
        # In one order whether it comes from memory or from the log: a default that
        # is left out there is not the same object as one that was read.
        fields = {
            name: msgspec.to_builtins(getattr(event, name))
            for name in event.__struct_fields__
            if name not in NOT_IN_RESULT or name in fields
        }
    if isinstance(event, CHARGED):
        fields.setdefault("cost_usd", None)
    return fields


CHARGED = (UsageEntry, Compaction, CompactionFailed, BranchSummary, NavigationFailed)
"""Kinds of entries that say what something cost."""

NOT_IN_RESULT = frozenset({"seq", "id", "parent", "at", "run"})
"""Absent in a result that could not be written to the log."""


EVENT_NAMES = {
    "run_end": "result",
    "compaction_start": "compact_start",
    "compaction": "compact_done",
    "compaction_failed": "compact_failed",
}
"""Kinds of entries whose event has another name."""


def type_of(event: Event) -> str:
    """Return the *type* that stands in the line of *event*."""
    return event.type if isinstance(event, Unknown) else name_of(type(event))


def name_of(kind: type[Event]) -> str:
    """Return the *type* that events of this kind have."""
    tag = str(kind.__struct_config__.tag)
    return EVENT_NAMES.get(tag, tag)
