"""Claude Code's transcripts: JSON lines that form a tree by uuid and parentUuid.

A response is written in several lines that share its message's id, a line a
block; results hang from the line of their call. A compaction is two lines: a
boundary that starts a new root (its logicalParentUuid is the old leaf), and a
user message with the summary. Lines with isSidechain are another agent's.
"""

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from pod.importing.decode import decoded
from pod.importing.records import (
    Answer,
    Block,
    Called,
    Cleared,
    Compacted,
    Link,
    Note,
    Parsed,
    Part,
    Record,
    Renamed,
    Result,
    Said,
    Thought,
    Unreadable,
    User,
    raw_text,
)
from tools.base import Image
from worker.usage import Usage

OTHER_RECORDS = "records that are not part of the conversation: left out"
OTHER_BLOCKS = "content blocks of other kinds: left out"
MADE_UP = "answers no model gave (API errors and the like): in the log, not shown"
TWINS = "structured twins of tool results: left out, their text is kept"

NO_PARENT = ""
"""The id of no record: what hangs from it hangs from the one before."""

SYNTHETIC = "<synthetic>"
"""The model's name where Claude Code itself wrote the answer."""


class _CacheWrites(Struct):
    ephemeral_1h_input_tokens: int = 0


class _ServerTools(Struct):
    web_search_requests: int = 0


class _Usage(Struct):
    input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_creation: _CacheWrites | None = None
    server_tool_use: _ServerTools | None = None


class _Source(Struct):
    type: str = ""
    media_type: str = ""
    data: str = ""


class _Block(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    caller: Raw = Raw(b"")
    citations: Raw = Raw(b"")
    tool_use_id: str = ""
    content: Raw = Raw(b"")
    is_error: bool | None = None
    source: _Source | None = None


class _Message(Struct):
    id: str = ""
    model: str = ""
    role: str = ""
    content: str | list[Raw] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None


class _CompactMetadata(Struct):
    preTokens: int | None = None
    trigger: str = ""


class _MicroMetadata(Struct):
    tokensSaved: int | None = None
    compactedToolIds: list[str] = []


class _Line(Struct):
    type: str = ""
    subtype: str | None = None
    uuid: str = ""
    parentUuid: str | None = None
    logicalParentUuid: str | None = None
    timestamp: str = ""
    isSidechain: bool | None = None
    isMeta: bool | None = None
    isCompactSummary: bool | None = None
    isApiErrorMessage: bool | None = None
    message: Raw = Raw(b"")
    compactMetadata: _CompactMetadata | None = None
    microcompactMetadata: _MicroMetadata | None = None
    summary: str | None = None
    leafUuid: str = ""
    toolUseResult: Raw = Raw(b"")


_line = msgspec.json.Decoder(_Line)
_message = msgspec.json.Decoder(_Message)
_block = msgspec.json.Decoder(_Block)
_content = msgspec.json.Decoder(str | list[Raw] | None)


class ClaudeCode:
    """Reads the lines of one transcript."""

    def records(self, data: bytes) -> Parsed:
        """Return what a line says. Raises Unreadable."""
        line = decoded(data, _line)
        losses: list[str] = []
        found = _records(line, losses)
        return Parsed(tuple(_chained(line, found)), tuple(losses))

    def linker(self) -> "ClaudeCodeLinker":
        """Return what gives the records of one pass their places."""
        return ClaudeCodeLinker()


class ClaudeCodeLinker:
    """Joins a compaction's boundary to its summary, and loose roots to the rest."""

    def __init__(self) -> None:
        self._boundary = Link()
        self._has_begun = False

    def link(self, record: Record) -> Record:
        """Return *record* with its place."""
        if isinstance(record, Link) and record.tokens:
            self._boundary = record
        elif isinstance(record, Compacted):
            record = replace(
                record,
                tokens_before=self._boundary.tokens,
                is_manual=self._boundary.is_manual,
            )
        if (
            self._has_begun
            and not record.side
            and record.parent is None
            and not record.follows
        ):
            # A new root would leave out of the context all that came before.
            record = replace(record, parent=NO_PARENT)
        self._has_begun = self._has_begun or not record.side
        return record


def _chained(line: _Line, found: list[Record]) -> list[Record]:
    """Let the records of a line hang from each other; the last one has its uuid."""
    at = line.timestamp
    side = bool(line.isSidechain)
    parent = line.parentUuid or line.logicalParentUuid
    last = len(found) - 1
    return [
        replace(
            record,
            id=line.uuid if number == last else "",
            parent=parent,
            follows=number > 0 or not line.uuid,
            side=side,
            at=at,
        )
        for number, record in enumerate(found)
    ]


def _records(line: _Line, losses: list[str]) -> list[Record]:
    match line.type:
        case "user" | "assistant" if bytes(line.message).lstrip()[:1] != b"{":
            raise Unreadable("a message that is no object")
        case "user":
            return _said(line, decoded(line.message, _message), losses)
        case "assistant":
            return [_answer(line, decoded(line.message, _message), losses)]
        case "system" if line.subtype == "compact_boundary":
            meta = line.compactMetadata or _CompactMetadata()
            is_manual = meta.trigger == "manual"
            return [Link(tokens=meta.preTokens or 0, is_manual=is_manual)]
        case "system" if line.subtype == "microcompact_boundary":
            micro = line.microcompactMetadata or _MicroMetadata()
            calls = tuple(micro.compactedToolIds)
            return [Cleared(calls=calls, saved=micro.tokensSaved or 0)]
        case "summary" if line.summary:
            return [Renamed(name=line.summary)]
        case _:
            kind = f"{line.type}/{line.subtype}" if line.subtype else line.type
            losses.append(f"{OTHER_RECORDS} ({kind or 'no type'})")
            return [Link()] if line.uuid else []


def _answer(line: _Line, message: _Message, losses: list[str]) -> Answer | Note:
    parts: list[Part] = []
    if isinstance(message.content, str):
        parts = [Said(message.content)] if message.content else []
    else:
        for raw in message.content or ():
            parts += _part(raw, losses)
    if message.model == SYNTHETIC or line.isApiErrorMessage:
        losses.append(MADE_UP)
        text = "\n".join(part.text for part in parts if isinstance(part, Said))
        return Note(kind="api_error", json=msgspec.json.encode(text).decode())
    usage = None if message.usage is None else _usage(message.usage)
    return Answer(
        key=message.id,
        model=message.model,
        parts=tuple(parts),
        stop=message.stop_reason or "",
        usage=usage,
        context=usage.total if usage and usage.total else None,
    )


def _part(raw: Raw, losses: list[str]) -> list[Part]:
    block = decoded(raw, _block)
    match block.type:
        case "text":
            return [Said(block.text, _extra("citations", block.citations))]
        case "thinking":
            return [Thought(block.thinking, block.signature)]
        case "redacted_thinking":
            return [Thought("", redacted=block.data)] if block.data else []
        case "tool_use":
            extra = _extra("caller", block.caller)
            arguments = raw_text(block.input)
            if not arguments.startswith("{"):
                raise Unreadable("a call whose input is no object")
            return [Called(block.id, block.name, arguments, extra=extra)]
        case "":
            losses.append(OTHER_BLOCKS)
            return []
        case _:
            return [Block(raw_text(raw))]


def _extra(name: str, raw: Raw) -> str:
    text = raw_text(raw)
    return f'{{"{name}":{text}}}' if text and text != "null" else ""


def _usage(used: _Usage) -> Usage:
    writes = used.cache_creation or _CacheWrites()
    searches = used.server_tool_use or _ServerTools()
    return Usage(
        input=max(used.input_tokens or 0, 0),
        cache_read=max(used.cache_read_input_tokens or 0, 0),
        cache_write=max(used.cache_creation_input_tokens or 0, 0),
        cache_write_1h=max(writes.ephemeral_1h_input_tokens, 0),
        output=max(used.output_tokens or 0, 0),
        web_searches=max(searches.web_search_requests, 0),
    )


def _said(line: _Line, message: _Message, losses: list[str]) -> list[Record]:
    if bytes(line.toolUseResult):
        losses.append(TWINS)
    if line.isCompactSummary:
        return [Compacted(summary=_text(message.content, losses))]
    if isinstance(message.content, str) or message.content is None:
        return [_user(line, message.content or "", ())]
    results: list[Record] = []
    texts: list[str] = []
    images: list[Image] = []
    for raw in message.content:
        block = _loose(raw)
        match block.type:
            case "tool_result":
                results.append(_result(block, losses))
            case "text":
                texts.append(block.text)
            case "image":
                images.append(_image(block.source))
            case _:
                losses.append(OTHER_BLOCKS)
    if texts or images or not results:
        results.append(_user(line, "\n".join(texts), tuple(images)))
    return results


def _loose(raw: Raw) -> _Block:
    """Return a block; text that stands for one counts as one."""
    if bytes(raw).lstrip()[:1] == b'"':
        return _Block(type="text", text=msgspec.json.decode(raw, type=str))
    return decoded(raw, _block)


_MADE = (
    "[Request interrupted by user",
    "<bash-stderr>",
    "<bash-stdout>",
    "<local-command-stderr>",
    "<local-command-stdout>",
    "<system-reminder>",
    "<task-notification>",
)
"""How texts begin that stand in the user's place and are a program's output, or the
harness's own: they must not be carried on as what the user ordered."""


def _user(line: _Line, text: str, images: tuple[Image, ...]) -> User:
    is_made = bool(line.isMeta) or text.lstrip().startswith(_MADE)
    return User(text=text, images=images, synthetic=is_made)


def _result(block: _Block, losses: list[str]) -> Result:
    content = decoded(block.content, _content) if bytes(block.content) else ""
    images: list[Image] = []
    if isinstance(content, list):
        blocks = map(_loose, content)
        images = [_image(block.source) for block in blocks if block.type == "image"]
    return Result(
        call=block.tool_use_id,
        text=_text(content, losses),
        images=tuple(images),
        is_error=bool(block.is_error),
    )


def _image(source: _Source | None) -> Image:
    """Return an image; without data where they are not in the file."""
    if source is None or source.type != "base64":
        return Image("", "")
    return Image(source.media_type, source.data)


def _text(content: str | list[Raw] | None, losses: list[str]) -> str:
    if not isinstance(content, list):
        return content or ""
    texts = []
    for raw in content:
        block = _loose(raw)
        if block.type == "text":
            texts.append(block.text)
        elif block.type != "image":
            losses.append(OTHER_BLOCKS)
    return "\n".join(texts)
