"""The lines of a session log.

One JSON object a line: a Header first, then entries that form a tree by
*parent*. The log is the truth; everything else is made from it. Kinds that
this version does not know are kept as Unknown.
"""

from typing import Literal

from msgspec import Struct

from worker.items import Item
from worker.permit import Source as Decider
from worker.usage import Usage

FORMAT = 1
"""Version of the log format. A reader refuses a higher one."""


class Header(Struct, frozen=True, tag="session", omit_defaults=True):
    """The first line. *system* is the system prompt, the same for the whole session."""

    format: int
    id: str
    at: str
    cwd: str
    system: str
    sandbox: str = "off"
    """What held commands when it began: "bwrap", "landlock", "seatbelt", "off"; "none": there was no tool that runs them; "": not known, the session was imported."""
    parent_session: str | None = None
    """Id of the session this one was forked from."""
    pod: str = ""
    """Name of the Pod, from the manifest."""


class Entry(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What all entries have.

    *seq* numbers the entries of one log from 1, without gaps; it is also the
    number of the entry's event. *id* is unique in its log, *parent* is the
    entry before it on its branch (None: the first). *at* is UTC, RFC 3339 with
    milliseconds. *run* is the run it belongs to, None outside of runs.

    An entry that is not in a log yet leaves them out: Session.append fills them.
    """

    seq: int = 0
    id: str = ""
    parent: str | None = None
    at: str = ""
    run: str | None = None


class ItemEntry(Entry, frozen=True, tag="item", omit_defaults=True, kw_only=True):
    """One item of the history. *tokens* is its o200k count where it was taken."""

    item: Item
    tokens: int | None = None


class InputEntry(Entry, frozen=True, tag="input", omit_defaults=True, kw_only=True):
    """User input that was accepted.

    A DeliveredEntry says when it is in the history, a HandedBack that it never
    will be. With *follow_up* it does not join the run that is under way: it is
    the prompt of a run of its own, behind it.
    """

    input: str
    text: str
    follow_up: bool = False


class DeliveredEntry(
    Entry, frozen=True, tag="delivered", omit_defaults=True, kw_only=True
):
    """The inputs named here are in the history now, in the item entry before."""

    inputs: tuple[str, ...]


class HandedBack(
    Entry, frozen=True, tag="handed_back", omit_defaults=True, kw_only=True
):
    """The inputs named here went back to who sent them: they wait no longer.

    An interrupt does that to all that the model has not seen. *texts* are theirs,
    in the same order.
    """

    inputs: tuple[str, ...]
    texts: tuple[str, ...]


class UsageEntry(Entry, frozen=True, tag="usage", omit_defaults=True, kw_only=True):
    """One answered request: what it used, cost and took.

    Or one that gave no answer, as far as the provider told what it bills: then
    *response* is "", and *stop_reason* ``failed:`` with the kind of the failure, or
    ``cancelled``. *context_tokens* is what the context held afterwards (prompt and output),
    *estimate* what its prompt was estimated at; *cost_usd* is None where the
    price is unknown, never 0. *seconds* is the time from sending the request
    to the end of its answer, retries and their waits left out.
    """

    response: str
    model: str
    stop_reason: str
    usage: Usage | None
    context_tokens: int | None
    estimate: int | None = None
    cost_usd: float | None = None
    request_id: str | None = None
    attempts: int = 1
    seconds: float = 0.0


class RunStart(Entry, frozen=True, tag="run_start", omit_defaults=True, kw_only=True):
    """A run begins; its *run* field is its id."""

    model: str
    resumed: bool = False


Outcome = Literal["finished", "yielded", "cancelled", "limit", "failed", "blocked"]


class PermissionDenial(Struct, frozen=True, omit_defaults=True):
    """A call that was not run because it was not allowed.

    *arguments* is the beginning of its JSON. *by* says who decided: "rule",
    "default", "hook", "client", or "nobody" where somebody had to be asked and
    nobody could be.
    """

    tool: str
    call_id: str
    arguments: str
    by: Decider
    reason: str = ""


class RunEnd(Entry, frozen=True, tag="run_end", omit_defaults=True, kw_only=True):
    """A run is over: what came out, why, and what it used in all.

    *reason* refines the outcome for programs (max_requests, timeout, auth,
    overflow, disk_full, sigint, …); *message* says it to a person.
    *interrupted* tells that the turn was not finished and can go on. *returned*
    are the user's texts that an interrupt gave back: those that waited, and, with
    the reason ``rolled_back``, those that the model had not answered at all.
    *permission_denials* are the newest calls that were not allowed.
    """

    outcome: Outcome
    reason: str
    exit_code: int
    interrupted: bool = False
    message: str = ""
    text: str = ""
    requests: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    seconds: float = 0.0
    returned: tuple[str, ...] = ()
    permission_denials: tuple[PermissionDenial, ...] = ()


class TurnAbandoned(
    Entry, frozen=True, tag="turn_abandoned", omit_defaults=True, kw_only=True
):
    """The turn that stood open will not be gone on with: somebody gave it up."""


class Permission(
    Entry, frozen=True, tag="permission", omit_defaults=True, kw_only=True
):
    """Whether a call may run, where a rule, a hook or somebody had to say so.

    What is allowed without a question has no such entry. *rule* is the rule that
    decided, or led to the question, as it is written; *reason* is what the
    model was told of a call that does not run.
    """

    call_id: str
    tool: str
    decision: Literal["allow", "deny", "stop"]
    by: Decider
    rule: str = ""
    reason: str = ""


class ToolStart(Entry, frozen=True, tag="tool_start", omit_defaults=True, kw_only=True):
    """A tool with effects is about to run: evidence, should it not come back."""

    call_id: str
    name: str


class ModelChange(
    Entry, frozen=True, tag="model_change", omit_defaults=True, kw_only=True
):
    """From here on another model is asked."""

    model: str
    previous: str | None = None


class PromptChange(
    Entry, frozen=True, tag="prompt_change", omit_defaults=True, kw_only=True
):
    """From here on the system prompt is *system* (asked for with --refresh-prompt)."""

    system: str


class SandboxChange(
    Entry, frozen=True, tag="sandbox_change", omit_defaults=True, kw_only=True
):
    """From here on commands run in another *tier* of the sandbox (see Header.sandbox)."""

    tier: str
    previous: str


class SessionInfo(
    Entry, frozen=True, tag="session_info", omit_defaults=True, kw_only=True
):
    """A name a person gave the session; the latest counts."""

    name: str


class Label(Entry, frozen=True, tag="label", omit_defaults=True, kw_only=True):
    """A name for an entry; empty takes it away."""

    target: str
    label: str


class Leaf(Entry, frozen=True, tag="leaf", omit_defaults=True, kw_only=True):
    """A navigation: the next entry's parent is *target* (None: the root).

    *behind* is how many entries belong to it, right behind it in the log: results
    for calls that stand open there, a branch summary, a label. Where a crash left
    fewer of them, the navigation did not take place.
    """

    target: str | None
    behind: int = 0


class Custom(Entry, frozen=True, tag="custom", omit_defaults=True, kw_only=True):
    """Something a program keeps in the log; never sent to a model. *json* is JSON."""

    kind: str
    json: str


class CustomMessage(
    Entry, frozen=True, tag="custom_message", omit_defaults=True, kw_only=True
):
    """Something a program tells the model; enters the history as SystemText."""

    kind: str
    text: str


class Notice(Entry, frozen=True, tag="notice", omit_defaults=True, kw_only=True):
    """Something that happened to the session itself: a tail set aside, a repair."""

    message: str


Reason = Literal["mid_turn", "post_run", "overflow", "manual", "model_switch"]
"""Why a compaction happens (design.md §6.1)."""

Mode = Literal["worker", "summarize", "remote", "native", "mechanical"]
"""How a summary is made (docs/compaction.md); all but "mechanical" ask a model."""


class Directive(Struct, frozen=True, omit_defaults=True):
    """A message of the user's that outlasts compactions, word for word.

    *clipped*: the text is the beginning and the end of a huge one.
    """

    text: str
    clipped: bool = False


class AutoRead(Struct, frozen=True, omit_defaults=True):
    """A file, or lines of one, that is put in front of the model.

    *start* and *end* are 1-based lines, both included; None for a whole file.
    *text* is what was in it at the commit, *sha256* is of the whole file then,
    *tokens* what the rendered block costs.
    """

    path: str
    text: str
    sha256: str
    tokens: int
    start: int | None = None
    end: int | None = None


class Reference(Struct, frozen=True, omit_defaults=True):
    """A file that is named without its contents; *use* says how it was used."""

    path: str
    use: str


class FileDetails(Struct, frozen=True, omit_defaults=True):
    """The files the summarised part read and changed, over all compactions."""

    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


class Receipt(Struct, frozen=True, omit_defaults=True):
    """What went in and came out of a compaction, for whoever wants to check.

    Tokens are estimates of the view, *worker_input_tokens* what was sent to the
    compact worker, each token once; one that failed before another rung took
    over counts, too. *dropped_quotes* are words that the summary
    put into the user's mouth. *attempts* names each rung tried and how it ended.
    *turn_prefix_items* are those of the summarised items that begin the turn
    which the cut splits; *model* is who wrote the summary, "" for no model.
    """

    summarised_items: int = 0
    summarised_tokens: int = 0
    kept_items: int = 0
    kept_tokens: int = 0
    summary_tokens: int = 0
    directive_tokens: int = 0
    auto_read_tokens: int = 0
    reference_tokens: int = 0
    dropped_quotes: tuple[str, ...] = ()
    vanished_marks: tuple[str, ...] = ()
    worker_requests: int = 0
    worker_input_tokens: int = 0
    attempts: tuple[str, ...] = ()
    turn_prefix_items: int = 0
    model: str = ""


class CompactionStart(
    Entry, frozen=True, tag="compaction_start", omit_defaults=True, kw_only=True
):
    """A compaction begins; exactly one Compaction or CompactionFailed follows."""

    compaction_id: str
    reason: Reason
    mode: Mode
    tokens_before: int
    threshold: int | None = None
    will_retry: bool = False


class Compaction(
    Entry, frozen=True, tag="compaction", omit_defaults=True, kw_only=True
):
    """The head of the history, replaced for good.

    The context behind it is: the summary, the directives, the auto-read files,
    the references, then the items from the entry *first_kept* on (None: none).
    *compacted_from* is the leaf before it. *dropped_reasoning* are kept item
    entries that are not shown any more: where the cut lies inside a tool loop,
    the loop loses its reasoning as a whole.
    """

    compaction_id: str
    reason: Reason
    mode: Mode
    summary: str
    first_kept: str | None
    compacted_from: str
    tokens_before: int
    tokens_after: int
    directives: tuple[Directive, ...] = ()
    auto_read: tuple[AutoRead, ...] = ()
    references: tuple[Reference, ...] = ()
    details: FileDetails = FileDetails()
    receipt: Receipt = Receipt()
    short_summary: str = ""
    preserve_data: str = ""
    from_hook: bool = False
    dropped_reasoning: tuple[str, ...] = ()
    usage: Usage = Usage()
    cost_usd: float | None = None
    seconds: float = 0.0


CompactionCode = Literal[
    "timeout",
    "overflow",
    "no_summary",
    "invalid_summary",
    "too_large",
    "input_limit",
    "api",
    "no_gain",
    "does_not_fit",
    "cancelled",
    "crashed",
    "log_failed",
    "invalid_cut",
]


class CompactionFailed(
    Entry, frozen=True, tag="compaction_failed", omit_defaults=True, kw_only=True
):
    """A compaction came to nothing: the history is as it was."""

    compaction_id: str
    code: CompactionCode
    message: str
    retryable: bool = False
    consecutive_failures: int = 0
    breaker_open: bool = False
    attempts: tuple[str, ...] = ()
    usage: Usage = Usage()
    cost_usd: float | None = None
    seconds: float = 0.0


class BreakerChange(
    Entry, frozen=True, tag="breaker", omit_defaults=True, kw_only=True
):
    """The circuit breaker of one *mode* after something happened to it.

    *opened_at* is when it opened (RFC 3339), None while it is closed.
    *fingerprint* is of the input that failed last: it is not sent again.
    """

    failures: int
    opened_at: str | None = None
    fingerprint: str = ""
    mode: Mode = "worker"


class Prune(Entry, frozen=True, tag="prune", omit_defaults=True, kw_only=True):
    """From here on these tool results are shown without their content.

    *entries* are ids of item entries; each reads ``[Output truncated - N tokens]``.
    """

    entries: tuple[str, ...]
    tokens: tuple[int, ...]
    saved: int


class Clip(Entry, frozen=True, tag="clip", omit_defaults=True, kw_only=True):
    """From here on the item of *entry* is shown with *text* as its content."""

    entry: str
    text: str


class BranchSummary(
    Entry, frozen=True, tag="branch_summary", omit_defaults=True, kw_only=True
):
    """What was done on a branch that was left; enters the history as SystemText.

    It hangs where the session went, not from what was left: that is *from_id*,
    the leaf before. In a fork, which has no other branches, *from_id* still
    names the entry of the session it was forked from. *details* are the files
    of the whole branch. *summarised* and *left_out* count its messages that the
    summariser was given, and older ones there was no room for. *model* wrote
    it, unless *from_hook*.
    """

    from_id: str
    summary: str
    details: FileDetails = FileDetails()
    from_hook: bool = False
    summarised: int = 0
    left_out: int = 0
    model: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    seconds: float = 0.0


NavigationCode = Literal[
    "cancelled",
    "timeout",
    "overflow",
    "truncated",
    "empty",
    "too_large",
    "api",
    "moved",
    "crashed",
]


class NavigationFailed(
    Entry, frozen=True, tag="navigation_failed", omit_defaults=True, kw_only=True
):
    """A navigation to *target* was begun and came to nothing: the leaf stayed.

    *usage* is what the branch summary that was being written used until then.
    """

    target: str | None
    code: NavigationCode
    message: str
    usage: Usage = Usage()
    cost_usd: float | None = None
    seconds: float = 0.0


class Unknown(Struct, frozen=True):
    """A line of a kind that this version does not know; *json* is the whole line."""

    seq: int
    id: str
    parent: str | None
    at: str
    type: str
    json: str
    run: str | None = None


Known = (
    ItemEntry
    | InputEntry
    | DeliveredEntry
    | HandedBack
    | UsageEntry
    | RunStart
    | RunEnd
    | TurnAbandoned
    | ToolStart
    | Permission
    | ModelChange
    | PromptChange
    | SandboxChange
    | SessionInfo
    | Label
    | Leaf
    | Custom
    | CustomMessage
    | Notice
    | CompactionStart
    | Compaction
    | CompactionFailed
    | BreakerChange
    | Prune
    | Clip
    | BranchSummary
    | NavigationFailed
)
AnyEntry = Known | Unknown

REFERENCES = (
    "parent",
    "run",
    "target",
    "input",
    "inputs",
    "entry",
    "entries",
    "first_kept",
    "compacted_from",
    "from_id",
    "dropped_reasoning",
)
"""Fields that hold ids of the same log, one or a list: a fork maps each of them.

A new field that refers to an entry, an input or a run belongs in here.
"""

ASIDE = (SessionInfo, Label, Notice, Leaf, HandedBack, NavigationFailed)
"""Kinds that hang beside the path: appending one does not put the leaf on it."""
