"""Events and responses as a client gets them: parsed once, here."""

from typing import get_args

import msgspec
from msgspec import Raw, Struct

from pod.entries import Known
from pod.events import Init, PodLive, name_of
from pod.protocol.messages import RequestId
from pod.protocol.snapshot import Snapshot
from worker.events import Live


class UnknownEvent(Struct, frozen=True):
    """An event that this version does not know, or not in this shape.

    A newer Pod may send it. *json* is the whole line.
    """

    type: str
    json: str
    seq: int | None = None
    at: str = ""
    run: str | None = None


KnownEvent = Known | Live | PodLive | Init | Snapshot
AnyEvent = KnownEvent | UnknownEvent


_kinds: tuple[type[KnownEvent], ...] = get_args(KnownEvent)
EVENTS: dict[str, type[KnownEvent]] = {name_of(kind): kind for kind in _kinds}
"""The kinds of events by the *type* of their lines."""


class BadMessage(ValueError):
    """A line that is neither an event nor a response."""


class Fault(Struct, frozen=True):
    """Why a request was not done. A newer Pod may have more codes."""

    code: str
    message: str


class Response(Struct, frozen=True):
    """A response, its *data* not parsed yet: what it is depends on the request."""

    id: RequestId
    ok: bool
    data: Raw = Raw(b"{}")
    error: Fault | None = None


class _Head(Struct):
    type: str = ""
    ok: bool | None = None
    seq: int | None = None
    at: str = ""
    run: str | None = None


_head = msgspec.json.Decoder(_Head)
_fields = msgspec.json.Decoder(dict[str, Raw])
_response = msgspec.json.Decoder(Response)


def read(line: bytes) -> AnyEvent | Response:
    """Return the event or the response in *line*. Raises BadMessage."""
    try:
        line.decode()  # msgspec looks only at the texts that it is asked for
        head = _head.decode(line)
        if head.ok is not None:
            return _response.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"no line of the protocol: {error}") from None
    if not head.type:
        raise BadMessage("neither an event nor a response")
    return _event(line, head)


def read_event(line: bytes) -> AnyEvent:
    """Return the event in *line*. Raises BadMessage."""
    found = read(line)
    if isinstance(found, Response):
        raise BadMessage("a response where an event was expected")
    return found


def _event(line: bytes, head: _Head) -> AnyEvent:
    kind = EVENTS.get(head.type)
    if kind is not None:
        try:
            fields = _fields.decode(line)
            fields["type"] = Raw(msgspec.json.encode(kind.__struct_config__.tag))
            event: KnownEvent = msgspec.json.decode(
                msgspec.json.encode(fields), type=kind
            )
        except (msgspec.DecodeError, RecursionError):
            pass  # known by name, but from a version that says it otherwise
        else:
            return event
    return UnknownEvent(
        type=head.type,
        json=line.decode("utf-8", "replace").rstrip("\r\n"),
        seq=head.seq,
        at=head.at,
        run=head.run,
    )
