"""Codex's rollouts: JSON lines in the order in which things happened.

The newer shape wraps each line as {timestamp, type, payload}; the older one has
the response items themselves as lines, behind a line with id, timestamp and
instructions. There are no responses in them: what the model said between two
things it was told counts as one.
"""

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from pod.importing.decode import decoded
from pod.importing.records import (
    NO_PLACE,
    Answer,
    Called,
    Compacted,
    Link,
    Measured,
    ModelSet,
    Note,
    Parsed,
    Record,
    Result,
    Said,
    Thought,
    Told,
    User,
    raw_text,
)
from tools.base import Image
from worker.usage import Usage

OTHER_RECORDS = "records that are not part of the conversation: left out"
OTHER_BLOCKS = "content blocks of other kinds: left out"
ENCRYPTED = "encrypted reasoning: only its summary is kept"
ENCRYPTED_SUMMARY = "encrypted summaries of compactions: left out"
INSTRUCTIONS = "instructions of the other agent: in the log, not shown"
BAD_ARGUMENTS = "arguments of calls that are no JSON object: kept as text in one"

_INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<subagent_notification>",
    "# AGENTS.md instructions for ",
)
"""How the user messages begin that Codex writes itself."""


class _Content(Struct):
    type: str = ""
    text: str = ""
    image_url: str = ""


class _Item(Struct):
    """A response item, and what of the other payloads is read."""

    type: str = ""
    role: str = ""
    content: str | list[_Content] | None = None
    summary: str | list[_Content] | None = None
    encrypted_content: str | None = None
    name: str = ""
    arguments: str | None = None
    input: str | None = None
    call_id: str | None = None
    id: str | None = None
    action: Raw = Raw(b"")
    output: Raw = Raw(b"")
    message: str | None = None
    replacement_history: list[Raw] | None = None
    info: Raw = Raw(b"")
    model: str = ""
    instructions: str | None = None
    base_instructions: Raw = Raw(b"")


class _Line(Struct):
    timestamp: str = ""
    type: str = ""
    payload: Raw = Raw(b"")


class _Tokens(Struct):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class _Info(Struct):
    last_token_usage: _Tokens | None = None


class _Metadata(Struct):
    exit_code: int | None = None


class _Output(Struct):
    """What a shell answered: text, and how it ended."""

    output: str | None = None
    content: str | None = None
    success: bool | None = None
    metadata: _Metadata | None = None


_line = msgspec.json.Decoder(_Line)
_item = msgspec.json.Decoder(_Item)
_info = msgspec.json.Decoder(_Info)
_text = msgspec.json.Decoder(str)
_output = msgspec.json.Decoder(_Output)
_contents = msgspec.json.Decoder(list[_Content])
_object = msgspec.json.Decoder(dict[str, Raw])


class Codex:
    """Reads the lines of one rollout."""

    def records(self, data: bytes) -> Parsed:
        """Return what a line says. Raises Unreadable."""
        losses: list[str] = []
        line = decoded(data, _line)
        kind, raw = line.type, line.payload
        if not bytes(raw):
            kind, raw = "response_item", Raw(data)
        found = _record(kind, decoded(raw, _item), losses)
        placed = replace(found, follows=True, at=line.timestamp)
        return Parsed((placed,), tuple(losses))

    def linker(self) -> "CodexLinker":
        """Return what gives the records of one pass their places."""
        return CodexLinker()


class CodexLinker:
    """Finds the responses: what the model said until it was told something."""

    def __init__(self) -> None:
        self._number = 1
        self._measured: Usage | None = None

    def link(self, record: Record) -> Record:
        """Return *record* with its place."""
        match record:
            case Answer():
                self._measured = None
                return replace(record, key=f"r{self._number}")
            case Measured(usage=usage):
                if self._measured == usage:
                    return Link(follows=True)  # told again, with new rate limits
                self._measured = usage
            case User() | Result() | Told() | Compacted():
                self._number += 1
            case _:
                pass
        return record


def _record(kind: str, item: _Item, losses: list[str]) -> Record:
    match kind:
        case "response_item":
            return _response_item(item, losses)
        case "compacted":
            return _compacted(item, losses)
        case "turn_context":
            return ModelSet(model=item.model) if item.model else Link()
        case "event_msg" if item.type == "token_count":
            return _measured(item)
        case "session_meta":
            return _instructions(item, losses)
        case _:
            name = f"{kind}/{item.type}" if item.type else kind
            losses.append(f"{OTHER_RECORDS} ({name or 'no type'})")
            return Link()


def _instructions(item: _Item, losses: list[str]) -> Record:
    text = item.instructions or raw_text(item.base_instructions)
    if not text or text == "null":
        return Link()
    losses.append(INSTRUCTIONS)
    json = msgspec.json.encode(text).decode()
    return Note(kind="instructions", json=json)


def _response_item(item: _Item, losses: list[str]) -> Record:
    match item.type:
        case "message" if item.role == "assistant":
            text = _words(item.content, losses)
            return _answer(Said(text)) if text else Link()
        case "message" if item.role == "user":
            text, images = _content(item.content, losses)
            is_made = text.lstrip().startswith(_INJECTED)
            return User(text=text, images=images, synthetic=is_made)
        case "message":
            text = _words(item.content, losses)
            return Told(kind=item.role or "message", text=text)
        case "reasoning":
            if item.encrypted_content:
                losses.append(ENCRYPTED)
            text = _words(item.summary, losses)
            return _answer(Thought(_words(item.content, losses) or text))
        case "function_call":
            arguments = _arguments(item.arguments, losses)
            return _answer(Called(item.call_id or "", item.name, arguments))
        case "custom_tool_call":
            arguments = msgspec.json.encode({"input": item.input or ""}).decode()
            return _answer(Called(item.call_id or "", item.name, arguments))
        case "local_shell_call":
            call = item.call_id or item.id or ""
            arguments = raw_text(item.action) or "{}"
            if not arguments.startswith("{"):
                arguments = "{}"
            return _answer(Called(call, "local_shell", arguments))
        case "function_call_output" | "custom_tool_call_output":
            return _result(item, losses)
        case "":
            return _instructions(item, losses)
        case _:
            losses.append(f"{OTHER_RECORDS} ({item.type})")
            return Link()


def _answer(part: Said | Thought | Called) -> Answer:
    return Answer(key="", model="", parts=(part,))


def _arguments(text: str | None, losses: list[str]) -> str:
    text = (text or "").strip() or "{}"
    try:
        _object.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        losses.append(BAD_ARGUMENTS)
        return msgspec.json.encode({"input": text}).decode()
    return text


def _result(item: _Item, losses: list[str]) -> Result:
    text, is_error, images = _shown(item.output, losses)
    return Result(call=item.call_id or "", text=text, is_error=is_error, images=images)


def _shown(raw: Raw, losses: list[str]) -> tuple[str, bool, tuple[Image, ...]]:
    """Return an output's text, whether it says that it failed, and its images."""
    first = bytes(raw).lstrip()[:1]
    if first == b'"':
        text = decoded(raw, _text)
        if text.startswith('{"'):
            try:
                return (*_of_shell(_output.decode(text), text), ())
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                return text, False, ()
        return text, False, ()
    if first == b"{":
        return (*_of_shell(decoded(raw, _output), raw_text(raw)), ())
    if first == b"[":
        text, images = _content(decoded(raw, _contents), losses)
        return text, False, images
    return "", False, ()


def _of_shell(found: _Output, whole: str) -> tuple[str, bool]:
    text = found.output if found.output is not None else found.content
    if text is None:
        return whole, found.success is False
    code = None if found.metadata is None else found.metadata.exit_code
    shown = f"{text}\n(exit code {code})" if code else text
    return shown, found.success is False


def _content(
    content: str | list[_Content] | None, losses: list[str]
) -> tuple[str, tuple[Image, ...]]:
    if not isinstance(content, list):
        return content or "", ()
    texts: list[str] = []
    images: list[Image] = []
    for one in content:
        if one.type.endswith("text"):
            texts.append(one.text)
        elif one.type == "input_image":
            media_type, _, data = one.image_url.removeprefix("data:").partition(
                ";base64,"
            )
            images.append(Image(media_type, data))
        else:
            losses.append(OTHER_BLOCKS)
    return "\n".join(texts), tuple(images)


def _words(content: str | list[_Content] | None, losses: list[str]) -> str:
    """Return the text of what can hold nothing else here."""
    text, images = _content(content, losses)
    losses += [NO_PLACE] * len(images)
    return text


def _compacted(item: _Item, losses: list[str]) -> Compacted:
    """Return a compaction; the user's messages it keeps are carried word for word."""
    told: list[str] = []
    for raw in item.replacement_history or ():
        kept = decoded(raw, _item)
        if kept.type != "message":
            losses.append(ENCRYPTED_SUMMARY)
        elif kept.role == "user":
            text = _words(kept.content, losses)
            if text and not text.lstrip().startswith(_INJECTED):
                told.append(text)
    summary = item.message or ""
    if told and (told[-1] == summary or (summary and summary in told[-1])):
        told.pop()  # the summary itself stands last
    return Compacted(summary=summary, directives=tuple(told), is_manual=False)


def _measured(item: _Item) -> Record:
    try:
        last = _info.decode(item.info).last_token_usage if bytes(item.info) else None
    except (msgspec.DecodeError, RecursionError):
        last = None
    if last is None:
        return Link()
    cached = min(max(last.cached_input_tokens, 0), max(last.input_tokens, 0))
    usage = Usage(
        input=max(last.input_tokens, 0) - cached,
        cache_read=cached,
        output=max(last.output_tokens, 0),
        reasoning=max(last.reasoning_output_tokens, 0),
    )
    return Measured(usage=usage, context=usage.total or None)
