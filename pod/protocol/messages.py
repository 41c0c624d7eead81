"""Requests to a Pod, a JSON object a line: parsed once, here.

A request is ``{"id", "method", "params"}``. *id* is whatever the client likes, a
string or a whole number, and comes back in the response; *params* may be left
out, or be null, where nothing in it is needed.
"""

from typing import Literal, get_args

import msgspec
from msgspec import Raw, Struct

from pod.entries import Mode

MAX_LINE = 4 * 1024 * 1024
"""Bytes of one request, line end left out. Long texts belong into files."""

RequestId = str | int | None

ErrorCode = Literal[
    "invalid_json",
    "invalid_request",
    "unknown_method",
    "too_large",
    "too_many_requests",
    "forbidden",
    "already_running",
    "not_running",
    "not_paused",
    "busy",
    "not_found",
    "interrupted",
    "failed",
    "shutting_down",
    "internal",
]
"""What can be wrong with a request; docs/protocol.md says when each is given."""


class Prompt(Struct, frozen=True, tag="prompt", forbid_unknown_fields=True):
    """Begin a run. Answered with its id once it has begun."""

    text: str


class Steer(Struct, frozen=True, tag="steer", forbid_unknown_fields=True):
    """Say more to the run under way: the model sees it with its next request."""

    text: str


class FollowUp(Struct, frozen=True, tag="follow_up", forbid_unknown_fields=True):
    """Give the next prompt: it is run when the run under way is over."""

    text: str


class Interrupt(Struct, frozen=True, tag="interrupt", forbid_unknown_fields=True):
    """End the run under way. Answered when it is over."""


class Pause(Struct, frozen=True, tag="pause", forbid_unknown_fields=True):
    """Stop the run under way so that it can go on. Answered when it stands."""


class Resume(Struct, frozen=True, tag="resume", forbid_unknown_fields=True):
    """Go on with what was paused, as a run of its own."""


class Compact(Struct, frozen=True, tag="compact", forbid_unknown_fields=True):
    """Replace the head of the history now. Answered when that is done, or failed."""

    instructions: str = ""
    mode: Mode | None = None


class AbortCompaction(
    Struct, frozen=True, tag="abort_compaction", forbid_unknown_fields=True
):
    """End the compaction under way; a run that waits for it goes on as it can."""


class Navigate(Struct, frozen=True, tag="navigate", forbid_unknown_fields=True):
    """Put the leaf on the entry *target* (null: before all).

    *summarize* null takes the manifest's ``branch_summary.enabled``. *instructions*
    go to the summariser, behind its own or in their place.
    """

    target: str | None
    summarize: bool | None = None
    instructions: str = ""
    label: str = ""
    replace_instructions: bool = False


class Fork(Struct, frozen=True, tag="fork", forbid_unknown_fields=True):
    """Copy the path to *entry* (null: the leaf) into a new session."""

    entry: str | None = None


class SetModel(Struct, frozen=True, tag="set_model", forbid_unknown_fields=True):
    """Ask another model from the next request on."""

    model: str


class GetState(Struct, frozen=True, tag="get_state", forbid_unknown_fields=True):
    """Ask how things stand."""


class GetEntries(Struct, frozen=True, tag="get_entries", forbid_unknown_fields=True):
    """Ask for durable events of the session, from *from_seq* on, at most *limit*."""

    from_seq: int = 1
    limit: int = 100


class Subscribe(Struct, frozen=True, tag="subscribe", forbid_unknown_fields=True):
    """Hear events on this connection, in place of what was subscribed before.

    From *from_seq* on durable events come without a gap and without a repeat;
    null begins with the next one. *types* are the names of the events wanted,
    null for all but deltas; *partial* adds those.
    """

    from_seq: int | None = None
    types: tuple[str, ...] | None = None
    partial: bool = False


class AnswerPermission(
    Struct, frozen=True, tag="answer_permission", forbid_unknown_fields=True
):
    """Say whether the call of a ``permission_request`` may run; *message* says why."""

    call_id: str
    allow: bool
    message: str = ""


class Shutdown(Struct, frozen=True, tag="shutdown", forbid_unknown_fields=True):
    """End the Pod: when the run under way is over, or *now* by ending that."""

    now: bool = False


Params = (
    Prompt
    | Steer
    | FollowUp
    | Interrupt
    | Pause
    | Resume
    | Compact
    | AbortCompaction
    | Navigate
    | Fork
    | SetModel
    | GetState
    | GetEntries
    | Subscribe
    | AnswerPermission
    | Shutdown
)
PARAMS: tuple[type[Params], ...] = get_args(Params)


class Request(Struct, frozen=True):
    """One request, whole and well-formed."""

    id: RequestId
    params: Params


class BadRequest(Exception):
    """A line that is no request; *id* is its own where that could be read."""

    def __init__(self, code: ErrorCode, message: str, id: RequestId = None) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.id = id


class _Envelope(Struct):
    method: str
    id: RequestId = None
    params: Raw = Raw(b"null")


class _Id(Struct):
    id: RequestId = None


_envelope = msgspec.json.Decoder(_Envelope)
_id = msgspec.json.Decoder(_Id)
_NOTHING = Raw(b"{}")


def method_of(params: type[Params] | Params) -> str:
    """Return the name of the method that *params* belong to."""
    return str(params.__struct_config__.tag)


_decoders = {method_of(each): msgspec.json.Decoder(each) for each in PARAMS}


def parse(line: bytes) -> Request:
    """Return the request in *line*. Raises BadRequest for everything else."""
    if len(line) > MAX_LINE:
        raise BadRequest("too_large", f"a request has at most {MAX_LINE:,} bytes")
    try:
        line.decode()
        envelope = _envelope.decode(line)
    except msgspec.ValidationError as error:
        raise BadRequest("invalid_request", str(error), _id_of(line)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("invalid_json", f"no JSON: {error}") from None
    decoder = _decoders.get(envelope.method)
    if decoder is None:
        known = ", ".join(_decoders)
        raise BadRequest(
            "unknown_method",
            f"no method {envelope.method[:100]!r}; there are {known}",
            envelope.id,
        )
    is_absent = bytes(envelope.params) == b"null"
    try:
        params = decoder.decode(_NOTHING if is_absent else envelope.params)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(
            "invalid_request", f"params of {envelope.method}: {error}", envelope.id
        ) from None
    return Request(envelope.id, params)


def _id_of(line: bytes) -> RequestId:
    try:
        return _id.decode(line).id
    except (msgspec.DecodeError, RecursionError):
        return None


def encode_request(request: Request) -> bytes:
    """Return *request* as a line, its line end included."""
    params = msgspec.to_builtins(request.params)
    params.pop("type", None)
    fields = {"id": request.id, "method": method_of(request.params), "params": params}
    return msgspec.json.encode(fields) + b"\n"
