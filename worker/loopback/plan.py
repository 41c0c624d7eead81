"""A fault and an answer make a plan: what to send, when to wait, how to end.

It holds no chance and no clock; server.py carries it out.
"""

from collections.abc import Sequence

from msgspec import Struct

from worker.loopback.faults import (
    Cut,
    Drop,
    ErrorEvent,
    Fault,
    Hang,
    Insert,
    Redirect,
    Slow,
    Status,
    Truncate,
    Whole,
)
from worker.loopback.refusal import error_body, error_type


class Head(Struct, frozen=True):
    """Send status and headers. *length* None: the body comes in chunks."""

    status: int
    headers: tuple[tuple[str, str], ...]
    length: int | None = None


class Send(Struct, frozen=True):
    """Send a part of the body."""

    data: bytes


class Wait(Struct, frozen=True):
    """Send nothing for *seconds*; None: until the client has gone."""

    seconds: float | None = None


class End(Struct, frozen=True):
    """The body ends as it should."""


class Close(Struct, frozen=True):
    """Close the connection, whatever is still missing."""

    reset: bool = False


Step = Head | Send | Wait | End | Close


def plan(events: Sequence[bytes], fault: Fault | None, request_id: str) -> list[Step]:
    """Say how a stream of *events* is sent under *fault*."""
    stream = _head("text/event-stream; charset=utf-8", request_id)
    match fault:
        case None:
            return [stream, *_sent(events), End()]
        case Status() | Redirect() | Whole() | Drop():
            return plan_reply(b"", fault, request_id)
        case ErrorEvent():
            head, _ = fault.after.split(events)
            data = error_body(fault.error, fault.message, request_id)
            broken = b"event: error\ndata: " + data + b"\n\n"
            return [stream, *_sent(head), Send(broken), End()]
        case Truncate():
            head, _ = fault.after.split(events)
            return [stream, *_sent(head), End()]
        case Cut():
            head, _ = fault.after.split(events)
            return [stream, *_sent(head), Close(reset=fault.reset)]
        case Hang():
            if fault.after is None:
                return [Wait(), Close()]
            head, _ = fault.after.split(events)
            return [stream, *_sent(head), Wait(), Close()]
        case Insert():
            head, tail = fault.after.split(events)
            return [stream, *_sent(head), Send(fault.data), *_sent(tail), End()]
        case Slow():
            steps: list[Step] = [Wait(fault.first)] if fault.first else []
            steps.append(stream)
            for event in events:
                steps += [Wait(fault.seconds), Send(event)]
            return [*steps, End()]


def plan_reply(body: bytes, fault: Fault | None, request_id: str) -> list[Step]:
    """Say how one JSON *body* is sent under *fault*.

    Faults of a stream cut, delay or spoil the body as if it were one event.
    """
    match fault:
        case Status():
            return _status(fault, request_id)
        case Redirect():
            headers = (("location", fault.location), ("request-id", request_id))
            return [Head(fault.status, headers, 0), End()]
        case Whole():
            return [
                _head(fault.content_type, request_id, len(fault.body)),
                *_sent([fault.body]),
                End(),
            ]
        case Drop():
            return [Close(reset=fault.reset)]
        case None:
            json = _head("application/json", request_id, len(body))
            return [json, *_sent([body]), End()]
        case ErrorEvent() | Truncate() | Cut() | Hang() | Insert() | Slow():
            steps = plan([body], fault, request_id)
            json = _head("application/json", request_id)
            return [json if isinstance(step, Head) else step for step in steps]


def _head(content_type: str, request_id: str, length: int | None = None) -> Head:
    headers = (
        ("content-type", content_type),
        ("cache-control", "no-cache"),
        ("request-id", request_id),
    )
    return Head(200, headers, length)


def _sent(parts: Sequence[bytes]) -> list[Step]:
    return [Send(part) for part in parts if part]


def _status(fault: Status, request_id: str) -> list[Step]:
    kind = fault.error or error_type(fault.status)
    body = fault.body
    if body is None:
        body = error_body(kind, fault.message or _MESSAGES.get(kind, kind), request_id)
    headers = (
        ("content-type", "application/json"),
        ("request-id", request_id),
        *fault.headers,
    )
    return [Head(fault.status, headers, len(body)), *_sent([body]), End()]


# What the API says with each type, from error bodies people published.
_MESSAGES = {
    "authentication_error": "invalid x-api-key",
    "billing_error": "Your credit balance is too low to access the Anthropic API. "
    "Please go to Plans & Billing to upgrade or purchase credits.",
    "rate_limit_error": "This request would exceed your account's rate limit. Please "
    "try again later.",
    "api_error": "Internal server error",
    "overloaded_error": "Overloaded",
    "request_too_large": "Request exceeds the maximum size",
}
