"""What a hook is told: one struct for each event.

As JSON each is one object whose "event" names it. Fields are only ever added:
a hook leaves out of account those it does not know. docs/hooks.md describes
them one by one, and a test holds it to these structs.
"""

from typing import Literal

from msgspec import Raw, Struct

from pod.entries import BranchSummary, Compaction, FileDetails, Mode, Reason, RunEnd
from worker.items import Item

HookEvent = Literal[
    "session_before_compact",
    "session_compacting",
    "session_compact",
    "session_before_tree",
    "session_tree",
    "pre_llm_request",
    "pre_tool_call",
    "post_tool_call",
    "run_end",
]
"""When hooks are called."""


class Payload(Struct, frozen=True, tag_field="event", kw_only=True):
    """What every hook is told. *session* is the session's id."""

    session: str


class BeforeCompact(Payload, frozen=True, tag="session_before_compact", kw_only=True):
    """A compaction is about to begin; nothing is in the log yet.

    *reason*, and *will_retry* (the run goes on with the same request afterwards),
    are those of its start event. *tokens_before* is the context's size, *mode*
    the first rung that will be tried. *items* are what would be summarised;
    where the cut lies inside a turn (*is_split_turn*), *turn_prefix* is the part
    of that turn before it. *entries* are the ids of their log entries, *items*
    first, then *turn_prefix*; *first_kept* is that of the first item that stays
    (None: none does). *instructions* are those of whoever asked for it,
    *previous_summary* that of the compaction before, *details* the files the
    summarised part read and changed.
    """

    reason: Reason
    will_retry: bool
    mode: Mode
    tokens_before: int
    first_kept: str | None
    instructions: str
    previous_summary: str
    is_split_turn: bool
    items: tuple[Item, ...]
    turn_prefix: tuple[Item, ...]
    details: FileDetails
    entries: tuple[str, ...] = ()


class Compacting(Payload, frozen=True, tag="session_compacting", kw_only=True):
    """A compaction has begun, and *mode* is about to write its summary.

    The fields are those of BeforeCompact; *compaction_id* is that of its events.
    """

    compaction_id: str
    reason: Reason
    will_retry: bool
    mode: Mode
    instructions: str
    previous_summary: str
    items: tuple[Item, ...]
    turn_prefix: tuple[Item, ...]


class Compacted(Payload, frozen=True, tag="session_compact", kw_only=True):
    """A compaction was committed: *entry* stands in the log.

    *from_hook* tells that a hook made it.
    """

    reason: Reason
    will_retry: bool
    entry: Compaction
    from_hook: bool


class BeforeTree(Payload, frozen=True, tag="session_before_tree", kw_only=True):
    """The session's leaf is about to move; called without a summary, too.

    *target* is where to (None: before the first entry), *old_leaf* what is left,
    *common_ancestor* the deepest entry on both paths. *entries* are the ids of
    what would be summarised where *wants_summary*. The rest is what was asked for.
    """

    target: str | None
    old_leaf: str | None
    common_ancestor: str | None
    entries: tuple[str, ...]
    wants_summary: bool
    instructions: str
    replace_instructions: bool
    label: str


class Navigated(Payload, frozen=True, tag="session_tree", kw_only=True):
    """The session's leaf has moved. *entry* is the branch summary, if there is one.

    *from_hook* tells that a hook wrote it.
    """

    old_leaf: str | None
    new_leaf: str | None
    entry: BranchSummary | None
    from_hook: bool


class PreLlmRequest(Payload, frozen=True, tag="pre_llm_request", kw_only=True):
    """A request is about to be built: figures, not what is in it.

    *request* is its number in the run, from 1; the same request built anew, after
    a compaction say, is not asked about again. *items* counts the items of the
    context, *tokens* is what a request with them is estimated at. The thresholds
    and the *window* are in tokens, None where they are not known.
    """

    run: str
    model: str
    request: int
    items: int
    tokens: int
    post_run_threshold: int | None
    turn_threshold: int | None
    window: int | None


class PreToolCall(Payload, frozen=True, tag="pre_tool_call", kw_only=True):
    """A tool is about to run. *arguments* is the JSON object the model gave.

    *compact_worker* tells that a compact worker makes the call, and not the Pod;
    then *run* may be None.
    """

    run: str | None
    name: str
    call_id: str
    arguments: Raw
    compact_worker: bool = False


class PostToolCall(Payload, frozen=True, tag="post_tool_call", kw_only=True):
    """A tool has run; its result is not in the log yet.

    *content* is what the model would see (*summary* where it is None), clean and
    within the limits of one output; *images* is how many come with it.
    """

    run: str | None
    name: str
    call_id: str
    arguments: Raw
    is_error: bool
    summary: str
    content: str | None
    images: int = 0


class RunEnded(Payload, frozen=True, tag="run_end", kw_only=True):
    """A run is over, and its end stands in the log: *entry*."""

    entry: RunEnd


AnyPayload = (
    BeforeCompact
    | Compacting
    | Compacted
    | BeforeTree
    | Navigated
    | PreLlmRequest
    | PreToolCall
    | PostToolCall
    | RunEnded
)


def event_of(payload: AnyPayload) -> HookEvent:
    """Return the event that *payload* is of."""
    match payload:
        case BeforeCompact():
            return "session_before_compact"
        case Compacting():
            return "session_compacting"
        case Compacted():
            return "session_compact"
        case BeforeTree():
            return "session_before_tree"
        case Navigated():
            return "session_tree"
        case PreLlmRequest():
            return "pre_llm_request"
        case PreToolCall():
            return "pre_tool_call"
        case PostToolCall():
            return "post_tool_call"
        case RunEnded():
            return "run_end"
