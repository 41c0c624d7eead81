"""What can go wrong between an API and its client, as values.

A fault is chosen by the number of the request (``POST /v1/messages``, counted
from 1, retries included) or by a function: no chance in it. What the server
then sends is in plan.py.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from worker.api import Request
from worker.client import Failure, FailureKind


class Status(Struct, frozen=True):
    """An error status instead of an answer.

    *error* is the error's type, the usual one of the status where None.
    *headers* are sent as they are (``retry-after`` and the like).
    """

    status: int
    message: str = ""
    error: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    """Sent instead of the usual JSON."""


class After(Struct, frozen=True):
    """Where in the stream: behind so many events, or so many bytes, or half."""

    events: int | None = None
    size: int | None = None

    def split(self, events: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Cut *events* in two there; an event may be cut too."""
        if self.size is None:
            at = len(events) // 2 if self.events is None else self.events
            return list(events[:at]), list(events[at:])
        data = b"".join(events)
        head, tail = data[: self.size], data[self.size :]
        return [head] if head else [], [tail] if tail else []


HALF = After()


class ErrorEvent(Struct, frozen=True):
    """An ``error`` event inside the stream, then its clean end."""

    after: After = HALF
    error: str = "overloaded_error"
    message: str = "Overloaded"


class Truncate(Struct, frozen=True):
    """The stream ends cleanly, but too early."""

    after: After = HALF


class Cut(Struct, frozen=True):
    """The connection is closed inside the stream; *reset*: with a TCP reset."""

    after: After = HALF
    reset: bool = False


class Drop(Struct, frozen=True):
    """The connection is closed before any byte of the answer."""

    reset: bool = False


class Hang(Struct, frozen=True):
    """Silence inside the stream, or before the headers where *after* is None."""

    after: After | None = HALF


class Insert(Struct, frozen=True):
    """Foreign bytes inside a stream that goes on behind them."""

    data: bytes
    after: After = HALF


class Whole(Struct, frozen=True):
    """Status 200 and this body instead of the stream."""

    body: bytes
    content_type: str = "text/event-stream; charset=utf-8"


class Slow(Struct, frozen=True):
    """A wait of *seconds* before each event, and of *first* before the headers."""

    seconds: float
    first: float = 0.0


class Redirect(Struct, frozen=True):
    """Another place to ask."""

    location: str
    status: int = 307


Fault = (
    Status
    | ErrorEvent
    | Truncate
    | Cut
    | Drop
    | Hang
    | Insert
    | Whole
    | Slow
    | Redirect
)


def comes_first(fault: Fault | None) -> bool:
    """Whether *fault* happens whatever the request says: it is not even judged."""
    return isinstance(fault, Status | Drop | Redirect | Whole) or (
        isinstance(fault, Hang) and fault.after is None
    )


Choose = Callable[[int, Request | None], Fault | None]
"""Chooses by the request's number and what it says (None: not readable)."""


class Faults(Struct, frozen=True):
    """Which request meets which fault: *at* by number, else what *choose* says."""

    at: Mapping[int, Fault] = {}
    choose: Choose | None = None

    def of(self, number: int, request: Request | None) -> Fault | None:
        """Return the fault of the request of this number, or None."""
        fault = self.at.get(number)
        if fault is None and self.choose is not None:
            fault = self.choose(number, request)
        return fault


NONE = Faults()


def rate_limit(
    *,
    seconds: float | None = None,
    milliseconds: int | None = None,
    date: str | None = None,
) -> Status:
    """A 429 that asks to wait, in the header form that is given.

    *date* is an HTTP date, sent as it is.
    """
    headers: list[tuple[str, str]] = []
    if seconds is not None:
        headers.append(("retry-after", f"{seconds:g}"))
    if date is not None:
        headers.append(("retry-after", date))
    if milliseconds is not None:
        headers.append(("retry-after-ms", str(milliseconds)))
    return Status(429, headers=tuple(headers))


def overloaded() -> Status:
    """A 529, as the API sends it: ``x-should-retry``, no ``retry-after``."""
    return Status(529, headers=(("x-should-retry", "true"),))


def overflow(prompt_tokens: int = 200_001, window_tokens: int = 200_000) -> Status:
    """A 400 that says the prompt does not fit."""
    return Status(
        400, f"prompt is too long: {prompt_tokens} tokens > {window_tokens} maximum"
    )


def fault_of(failure: Failure) -> Fault:
    """Return the fault that a client reports as *failure*.

    So a policy that raises a failure plays the same over HTTP as without.
    """
    match failure.kind:
        case "connection":
            return Drop()
        case "timeout":
            return Hang(after=None)
        case "truncated":
            return Truncate()
        case "garbled":
            return GARBAGE
        case "not_a_stream":
            return HTML_INSTEAD
        case "overflow":
            return overflow(
                failure.prompt_tokens or 200_001, failure.window_tokens or 200_000
            )
        case "output_too_large":
            limit = failure.output_limit or 4096
            return Status(
                400,
                f"max_tokens: {limit + 1} > {limit}, which is the maximum allowed "
                "number of output tokens",
            )
        case _:
            status = failure.status or _STATUS[failure.kind]
            wait = failure.retry_after
            asked = () if wait is None else (("retry-after", f"{wait:g}"),)
            return Status(status, failure.message, headers=asked)


_STATUS: dict[FailureKind, int] = {
    "invalid": 400,
    "auth": 401,
    "billing": 402,
    "not_found": 404,
    "payload_too_large": 413,
    "rate_limit": 429,
    "server": 500,
    "overloaded": 529,
}

GARBAGE = Insert(b"event: content_block_delta\ndata: {not json\n\n")
BAD_UTF8 = Insert(b'event: content_block_delta\ndata: {"type": "\xff\xfe"}\n\n')
EMPTY = Whole(b"")
JSON_INSTEAD = Whole(b'{"ok": true}', "application/json")
HTML_INSTEAD = Whole(b"<html><body>Sign in to the network</body></html>", "text/html")

_NAMED: dict[str, Fault] = {
    "error": ErrorEvent(),
    "truncate": Truncate(),
    "cut": Cut(),
    "reset": Cut(reset=True),
    "drop": Drop(),
    "hang": Hang(),
    "silent": Hang(after=None),
    "garbage": GARBAGE,
    "bad-utf8": BAD_UTF8,
    "empty": EMPTY,
    "json": JSON_INSTEAD,
    "html": HTML_INSTEAD,
    "overflow": overflow(),
}


def parse_faults(text: str) -> Faults:
    """Read faults as one writes them on a command line: ``3:529,5:cut``.

    Before the colon the request's number; behind it a status, a name
    (error, truncate, cut, reset, drop, hang, silent, garbage, bad-utf8,
    empty, json, html, overflow), or ``slow=SECONDS``, ``429=SECONDS``.
    Raises ValueError, worded for a person.
    """
    at: dict[int, Fault] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        number, _, what = part.partition(":")
        if not number.isdecimal() or int(number) < 1 or not what:
            raise ValueError(
                f"fault {part!r}: write NUMBER:FAULT, for example 3:529 or 5:cut"
            )
        at[int(number)] = _parse(what.strip())
    return Faults(at=at)


def _parse(what: str) -> Fault:
    if what in _NAMED:
        return _NAMED[what]
    if found := re.fullmatch(r"slow=(\d+(?:\.\d+)?)", what):
        return Slow(float(found[1]))
    if found := re.fullmatch(r"429=(\d+(?:\.\d+)?)", what):
        return rate_limit(seconds=float(found[1]))
    if re.fullmatch(r"[3-5]\d\d", what):
        return overloaded() if what == "529" else Status(int(what))
    names = ", ".join([*_NAMED, "slow=SECONDS", "429=SECONDS"])
    raise ValueError(f"fault {what!r}: not a status, and none of {names}")
