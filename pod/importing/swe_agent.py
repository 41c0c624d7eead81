"""SWE-agent's trajectories: one JSON document with a history of messages.

Newer ones call tools by functions; in older ones the model's text holds the
command, and what came of it is the next user message.
"""

import msgspec
from msgspec import Raw, Struct

from pod.importing.decode import decoded
from pod.importing.records import (
    NO_PLACE,
    Answer,
    Called,
    Note,
    Parsed,
    Part,
    Record,
    Result,
    Said,
    Thought,
    Unreadable,
    User,
    raw_text,
)
from tools.base import Image

SYSTEM = "system prompts of the other agent: in the log, not shown"
STEPS = "steps of the trajectory beside its history (states, times): left out"
OTHER_BLOCKS = "content blocks of other kinds: left out"


class _Function(Struct):
    name: str = ""
    arguments: str | None = None


class _Call(Struct):
    id: str | None = None
    function: _Function = msgspec.field(default_factory=_Function)


class _Content(Struct):
    type: str = ""
    text: str = ""
    image_url: Raw = Raw(b"")


class _Thinking(Struct):
    thinking: str = ""
    signature: str = ""
    data: str = ""


class _Message(Struct):
    role: str = ""
    content: str | list[_Content] | None = None
    message_type: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_ids: list[str] | None = None
    thinking_blocks: list[_Thinking] | None = None
    is_demo: bool | None = None


class _Info(Struct):
    exit_status: str | None = None


class _Trajectory(Struct):
    history: list[_Message]
    trajectory: list[Raw] | None = None
    environment: str | None = None
    info: _Info | None = None


class _Url(Struct):
    url: str = ""


_trajectory = msgspec.json.Decoder(_Trajectory)
_url = msgspec.json.Decoder(_Url)
_object = msgspec.json.Decoder(dict[str, Raw])


class SweAgent:
    """Reads one trajectory."""

    def records(self, data: bytes) -> Parsed:
        """Return what the document says. Raises Unreadable."""
        found = decoded(data, _trajectory)
        losses = [STEPS] * len(found.trajectory or ())
        records: list[Record] = []
        is_told = False
        for number, message in enumerate(found.history):
            records += _records(message, f"r{number}", losses, is_told=is_told)
            is_told = is_told or (message.role == "user" and not message.is_demo)
        if not records:
            raise Unreadable("a trajectory without a history")
        return Parsed(tuple(records), tuple(losses))

    def linker(self) -> "SweAgentLinker":
        """Return what gives the records of one pass their places."""
        return SweAgentLinker()


class SweAgentLinker:
    """Leaves everything as it is: a trajectory is a list."""

    def link(self, record: Record) -> Record:
        """Return *record*."""
        return record


def _records(
    message: _Message, key: str, losses: list[str], *, is_told: bool
) -> list[Record]:
    text, images = _content(message.content, losses)
    if message.role in ("system", "assistant"):
        losses += [NO_PLACE] * len(images)
    match message.role:
        case "system":
            losses.append(SYSTEM)
            json = msgspec.json.encode(text).decode()
            return [Note(follows=True, kind="system_prompt", json=json)]
        case "assistant":
            return [_answer(message, key, text)]
        case "tool":
            calls = message.tool_call_ids or [""]
            return [
                Result(follows=True, call=calls[0], text=text, images=images),
                *(Result(follows=True, call=call, text="") for call in calls[1:]),
            ]
        case _:
            # The first message is the task; later ones are what commands gave.
            is_made = is_told or bool(message.is_demo)
            return [User(follows=True, text=text, images=images, synthetic=is_made)]


def _answer(message: _Message, key: str, text: str) -> Answer:
    parts: list[Part] = [
        Thought(one.thinking, one.signature, redacted=one.data)
        for one in message.thinking_blocks or ()
    ]
    if text:
        parts.append(Said(text))
    for call in message.tool_calls or ():
        arguments = _arguments(call.function.arguments)
        parts.append(Called(call.id or "", call.function.name, arguments))
    return Answer(follows=True, key=key, model="", parts=tuple(parts))


def _arguments(text: str | None) -> str:
    text = (text or "").strip() or "{}"
    try:
        _object.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return msgspec.json.encode({"input": text}).decode()
    return text


def _content(
    content: str | list[_Content] | None, losses: list[str]
) -> tuple[str, tuple[Image, ...]]:
    if not isinstance(content, list):
        return content or "", ()
    texts: list[str] = []
    images: list[Image] = []
    for one in content:
        match one.type:
            case "text":
                texts.append(one.text)
            case "image_url":
                url = _image_url(one.image_url).removeprefix("data:")
                media_type, _, data = url.partition(";base64,")
                images.append(Image(media_type, data))
            case _:
                losses.append(OTHER_BLOCKS)
    return "\n".join(texts), tuple(images)


def _image_url(raw: Raw) -> str:
    try:
        return _url.decode(raw).url
    except (msgspec.DecodeError, RecursionError):
        return raw_text(raw).strip('"')
