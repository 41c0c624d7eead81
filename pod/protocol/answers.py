"""What a Pod answers to requests, a JSON object a line."""

from typing import Literal

import msgspec
from msgspec import Raw, Struct

from pod.codec import to_ascii
from pod.events import Standing
from pod.protocol.messages import ErrorCode, RequestId
from pod.protocol.snapshot import PodState


class Accepted(Struct, frozen=True):
    """It is done, or has been taken in; there is nothing to tell."""


class Waits(Struct, frozen=True):
    """Input has been taken in.

    *input* is its id in the ``input`` event that tells of it, in the ``delivered``
    one that says which run got it, and in ``handed_back``.
    """

    input: str


class Began(Struct, frozen=True):
    """A run has begun."""

    run: str


class Stands(Struct, frozen=True):
    """What the Pod does now."""

    state: Standing


class Aborted(Struct, frozen=True):
    """Whether there was a compaction to abort."""

    aborted: bool


class Compacted(Struct, frozen=True):
    """What came of a compaction.

    *outcome* ``pruned`` means that leaving out old tool output made room
    enough, ``skipped`` that nothing was begun; *reason* is a word for why. With
    ``done`` and ``failed`` the event of that compaction has the rest.
    """

    outcome: Literal["done", "pruned", "skipped", "failed"]
    compaction_id: str | None = None
    reason: str = ""
    message: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None


class Navigated(Struct, frozen=True):
    """Where the leaf is now. *text* is the user message that left the history."""

    old_leaf: str | None
    new_leaf: str | None
    text: str = ""
    summary: str | None = None
    """Id of the branch summary's entry."""
    cancelled: bool = False


class Forked(Struct, frozen=True):
    """The new session."""

    session: str


class Entries(Struct, frozen=True):
    """Durable events in their order; *next_seq* asks for the ones behind them.

    *next_seq* is null where these are the last ones there are.
    """

    events: tuple[Raw, ...]
    next_seq: int | None


class Subscribed(Struct, frozen=True):
    """Events follow: durable ones from *from_seq* on. *seq* is the last there is."""

    seq: int
    from_seq: int


Data = (
    Accepted
    | Waits
    | Began
    | Stands
    | Aborted
    | Compacted
    | Navigated
    | Forked
    | Entries
    | Subscribed
    | PodState
)

DATA: dict[str, type[Data]] = {
    "prompt": Began,
    "steer": Waits,
    "follow_up": Waits,
    "interrupt": Stands,
    "pause": Stands,
    "resume": Began,
    "compact": Compacted,
    "abort_compaction": Aborted,
    "navigate": Navigated,
    "fork": Forked,
    "set_model": Accepted,
    "get_state": PodState,
    "get_entries": Entries,
    "subscribe": Subscribed,
    "answer_permission": Accepted,
    "shutdown": Accepted,
}
"""What each method is answered with."""


class ErrorInfo(Struct, frozen=True):
    """What was wrong: *code* for programs, *message* for people."""

    code: ErrorCode
    message: str


class Ok(Struct, frozen=True):
    id: RequestId
    ok: Literal[True]
    data: Data


class Refusal(Struct, frozen=True):
    id: RequestId
    ok: Literal[False]
    error: ErrorInfo


_encoder = msgspec.json.Encoder()


def answer(id: RequestId, data: Data) -> bytes:
    """Return the line that says that request *id* was done."""
    return _line({"id": id, "ok": True, "data": data})


def refusal(id: RequestId, code: str, message: str) -> bytes:
    """Return the line that says why request *id* was not done.

    *code* is an ErrorCode, as everything is that a Pod refuses with.
    """
    text = message.encode("utf-8", "replace").decode()
    error = {"code": code, "message": text}
    return _line({"id": id, "ok": False, "error": error})


def _line(fields: dict[str, object]) -> bytes:
    return to_ascii(_encoder.encode(fields)) + b"\n"
