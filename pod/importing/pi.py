"""Sessions of pi (format 1 to 3) and oh-my-pi, and of what embeds pi.

JSON lines: a header, then entries. From format 2 on they form a tree by id and
parentId; in format 1 they are a list, in which a compaction names the index of
the first entry that it kept, the header counted.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from pod.importing.decode import decoded
from pod.importing.own import END, OWN_TYPE
from pod.importing.records import (
    Answer,
    Block,
    Called,
    Compacted,
    Header,
    Labelled,
    Link,
    ModelSet,
    Note,
    Own,
    Parsed,
    Part,
    Record,
    Renamed,
    Result,
    Said,
    Summarised,
    Thought,
    Told,
    User,
    raw_text,
)
from pod.importing.shell_text import ran
from tools.base import Image
from worker.usage import Usage

OTHER_SIGNATURES = "signatures of other providers' reasoning: its text is kept"
HIDDEN_COMMANDS = (
    "commands the user kept out of the context (!!): in the log, not shown"
)
OTHER_BLOCKS = "content blocks of other kinds"
OTHER_ENTRIES = "entries of other kinds: kept in the log, not shown"
BLOB = "blob:sha256:"
"""How oh-my-pi names an image that lies in its blob store."""

_SIGNING = frozenset({"", "anthropic-messages", "bedrock-converse-stream"})
"""The API kinds whose reasoning carries the Messages API's signatures."""


class _Cost(Struct):
    total: float | None = None


class _Usage(Struct):
    input: int = 0
    output: int = 0
    cacheRead: int = 0
    cacheWrite: int = 0
    totalTokens: int | None = None
    cost: _Cost | None = None


class _Content(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    thinkingSignature: str | None = None
    redacted: bool | None = None
    id: str = ""
    name: str = ""
    arguments: Raw = Raw(b"{}")
    data: str = ""
    mimeType: str = ""


class _OwnResult(Struct):
    """What Pod's export adds to a result."""

    summary: str = ""
    has_content: bool = True
    files: tuple[str, ...] | None = None


class _Details(Struct):
    readFiles: list[str] = []
    modifiedFiles: list[str] = []
    pod: Raw = Raw(b"")


class _OwnPart(Struct):
    """What Pod's export adds to a part of an answer.

    *json*: the part itself, a block for which pi has no place; *arguments*:
    those of a call, where JSON would not bring them back byte for byte.
    """

    entry: str = ""
    extra: str = ""
    incomplete: bool = False
    json: str = ""
    arguments: str = ""


class _Message(Struct):
    role: str = ""
    content: str | list[_Content] | None = None
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: _Usage | None = None
    stopReason: str | None = None
    errorMessage: str | None = None
    responseId: str | None = None
    toolCallId: str = ""
    toolName: str = ""
    isError: bool = False
    details: Raw = Raw(b"")
    command: str = ""
    output: str = ""
    exitCode: int | None = None
    cancelled: bool = False
    excludeFromContext: bool | None = None
    customType: str = ""
    summary: str = ""
    synthetic: bool = False
    pod: list[_OwnPart] | None = None


class _Line(Struct):
    type: str = ""
    id: str = ""
    parentId: str | None = None
    timestamp: str | int | float | None = None
    version: int | None = None
    cwd: str = ""
    title: str | None = None
    message: _Message | None = None
    provider: str = ""
    modelId: str = ""
    model: str = ""
    summary: str | None = None
    shortSummary: str | None = None
    firstKeptEntryId: str | None = None
    firstKeptEntryIndex: int | None = None
    tokensBefore: int | None = None
    tokensAfter: int | None = None
    details: Raw = Raw(b"")
    preserveData: Raw = Raw(b"")
    fromHook: bool | None = None
    fromExtension: bool | None = None
    fromId: str | None = None
    customType: str = ""
    content: str | list[_Content] | None = None
    data: Raw = Raw(b"null")
    name: str | None = None
    targetId: str = ""
    label: str | None = None


_line = msgspec.json.Decoder(_Line)
_details = msgspec.json.Decoder(_Details)
_own_result = msgspec.json.Decoder(_OwnResult)


class Pi:
    """Reads the lines of one session."""

    def __init__(self, *, version: int) -> None:
        self.version = version

    def records(self, line: bytes) -> Parsed:
        """Return what a line says. Raises Unreadable."""
        found = decoded(line, _line)
        base = _Stem(found)
        losses: list[str] = []
        record = _record(found, line, base, losses)
        return Parsed((record,), tuple(losses))

    def linker(self) -> "PiLinker":
        """Return what gives the records of one pass their places."""
        return PiLinker(self.version)


class PiLinker:
    """Gives the entries of format 1 the ids that later formats write themselves."""

    def __init__(self, version: int) -> None:
        self._is_list = version < 2
        self._number = -1

    def link(self, record: Record) -> Record:
        """Return *record* with its place."""
        self._number += 1
        if self._is_list:
            record = replace(record, id=f"#{self._number}", follows=True)
        if isinstance(record, Answer) and not record.key:
            return replace(record, key=record.id or f"#{self._number}")
        return record


class _Stem(Struct, frozen=True):
    """The fields all records get from a line."""

    line: _Line

    @property
    def id(self) -> str:
        return self.line.id

    @property
    def parent(self) -> str | None:
        return self.line.parentId

    @property
    def at(self) -> str:
        at = self.line.timestamp
        return at if isinstance(at, str) else ""


def _record(found: _Line, line: bytes, stem: _Stem, losses: list[str]) -> Record:
    id, parent, at = stem.id, stem.parent, stem.at
    match found.type:
        case "session":
            return Header(
                at=at,
                session=found.id,
                cwd=found.cwd,
                version=str(found.version or 1),
                name=found.title or "",
            )
        case "message" if found.message is not None:
            return _message(found.message, stem, losses)
        case "compaction":
            return _compacted(found, stem, losses)
        case "branch_summary":
            if not (found.summary or "").strip():
                return Link(id=id, parent=parent, at=at)
            files = _files(found.details)
            return Summarised(
                id=id,
                parent=parent,
                at=at,
                summary=found.summary or "",
                from_id=found.fromId or "",
                read_files=tuple(files.readFiles),
                modified_files=tuple(files.modifiedFiles),
                from_hook=bool(found.fromHook or found.fromExtension),
            )
        case "custom" if found.customType == END:
            return Link(id=id, parent=parent, at=at)
        case "custom" if found.customType.startswith(OWN_TYPE):
            return Own(id=id, parent=parent, at=at, json=raw_text(found.data))
        case "custom":
            data = raw_text(found.data) or "null"
            return Note(id=id, parent=parent, at=at, kind=found.customType, json=data)
        case "custom_message":
            text, _ = _content(found.content, losses)
            kind = found.customType or "custom"
            return Told(id=id, parent=parent, at=at, kind=kind, text=text)
        case "model_change":
            model = found.modelId or found.model.rpartition("/")[2]
            if not model:
                return Link(id=id, parent=parent, at=at)
            return ModelSet(id=id, parent=parent, at=at, model=model)
        case "label":
            return Labelled(
                id=id,
                parent=parent,
                at=at,
                target=found.targetId,
                label=found.label or "",
            )
        case "session_info" | "title_change":
            name = found.name or found.title or ""
            return Renamed(id=id, parent=parent, at=at, name=name)
        case "title":
            return Renamed(at=at, name=found.title or "", follows=True)
        case "reset_boundary":
            # /clear: what came before is not shown, and nothing stands for it.
            return Compacted(id=id, parent=parent, at=at, summary="")
        case _:
            losses.append(f"{OTHER_ENTRIES} ({found.type or 'no type'})")
            kind = found.type or "entry"
            text = line.decode("utf-8", "replace").strip()
            return Note(id=id, parent=parent, at=at, kind=kind, json=text)


def _message(message: _Message, stem: _Stem, losses: list[str]) -> Record:
    id, parent, at = stem.id, stem.parent, stem.at
    match message.role:
        case "user":
            text, images = _content(message.content, losses)
            return User(
                id=id,
                parent=parent,
                at=at,
                text=text,
                images=images,
                synthetic=message.synthetic,
            )
        case "assistant":
            return _answer(message, stem, losses)
        case "toolResult":
            text, images = _content(message.content, losses)
            own = _own(message.details)
            return Result(
                id=id,
                parent=parent,
                at=at,
                call=message.toolCallId,
                text=text,
                images=images,
                is_error=message.isError,
                summary=own.summary,
                has_content=own.has_content,
                files=own.files,
            )
        case "bashExecution":
            text = ran(
                message.command,
                message.output,
                exit_code=message.exitCode,
                is_cancelled=message.cancelled,
            )
            if message.excludeFromContext:
                losses.append(HIDDEN_COMMANDS)
                json = msgspec.json.encode(text).decode()
                return Note(id=id, parent=parent, at=at, kind="bash", json=json)
            return User(id=id, parent=parent, at=at, text=text, synthetic=True)
        case _:
            text, _ = _content(message.content, losses)
            kind = message.customType or message.role or "message"
            return Told(
                id=id, parent=parent, at=at, kind=kind, text=text or message.summary
            )


def _answer(message: _Message, stem: _Stem, losses: list[str]) -> Answer:
    parts = _own_parts(message)
    if parts is None:
        parts = _parts(message, losses)
    is_whole = message.stopReason not in {"error", "aborted"}
    usage = None
    context = None
    if (used := message.usage) is not None:
        usage = Usage(
            input=max(used.input, 0),
            cache_read=max(used.cacheRead, 0),
            cache_write=max(used.cacheWrite, 0),
            output=max(used.output, 0),
        )
        if is_whole and usage.total:
            context = usage.total
    cost = None if message.usage is None else message.usage.cost
    return Answer(
        id=stem.id,
        parent=stem.parent,
        at=stem.at,
        key=message.responseId or "",
        model=message.model,
        parts=tuple(parts),
        stop=message.stopReason or "",
        error=message.errorMessage or "",
        usage=usage,
        context=context,
        cost=None if cost is None else cost.total,
        is_counted=message.pod is not None,
    )


def _parts(message: _Message, losses: list[str]) -> list[Part]:
    content = message.content
    parts: list[Part] = []
    if isinstance(content, str):
        parts = [Said(content)] if content else []
    for one in content if isinstance(content, list) else ():
        match one.type:
            case "text":
                if one.text:
                    parts.append(Said(one.text))
            case "thinking":
                parts += _thought(one, message.api, losses)
            case "toolCall":
                parts.append(Called(one.id, one.name, arguments(one.arguments)))
            case _:
                losses.append(OTHER_BLOCKS)
    return parts


def _own_parts(message: _Message) -> list[Part] | None:
    """Return the parts as Pod's log had them; None where pi has changed them."""
    content = message.content
    if message.pod is None or not isinstance(content, list):
        return None
    rest = iter(content)
    parts: list[Part] = []
    for own in message.pod:
        if own.json:
            parts.append(Block(own.json, own.entry))
            continue
        one = next(rest, None)
        if one is None:
            return None
        signature = one.thinkingSignature or ""
        match one.type:
            case "text":
                parts.append(Said(one.text, own.extra, own.entry))
            case "thinking" if one.redacted:
                parts.append(
                    Thought("", "", signature, extra=own.extra, entry=own.entry)
                )
            case "thinking":
                parts.append(
                    Thought(one.thinking, signature, extra=own.extra, entry=own.entry)
                )
            case "toolCall":
                text = own.arguments or arguments(one.arguments)
                parts.append(
                    Called(one.id, one.name, text, own.incomplete, own.extra, own.entry)
                )
            case _:
                return None
    return None if next(rest, None) is not None else parts


def _thought(one: _Content, api: str, losses: list[str]) -> Sequence[Thought]:
    signature = one.thinkingSignature or ""
    if signature and api not in _SIGNING:
        losses.append(OTHER_SIGNATURES)
        signature = ""
    if one.redacted:
        return [Thought("", redacted=signature)] if signature else []
    if not one.thinking and not signature:
        return []
    return [Thought(one.thinking, signature)]


def arguments(raw: Raw) -> str:
    """Return a call's arguments as a JSON object."""
    text = raw_text(raw).strip()
    if text.startswith("{"):
        return text
    return '{"input":%s}' % (text or "null")


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
            case "image":
                images.append(Image(one.mimeType or "image/png", one.data))
            case _:
                losses.append(OTHER_BLOCKS)
    return "\n".join(texts), tuple(images)


def _compacted(found: _Line, stem: _Stem, losses: list[str]) -> Compacted:
    first = found.firstKeptEntryId or ""
    if not first and found.firstKeptEntryIndex is not None:
        first = f"#{found.firstKeptEntryIndex}"
    files = _files(found.details)
    return Compacted(
        id=stem.id,
        parent=stem.parent,
        at=stem.at,
        summary=found.summary or "",
        first_kept=first,
        tokens_before=found.tokensBefore or 0,
        tokens_after=found.tokensAfter or 0,
        short_summary=found.shortSummary or "",
        read_files=tuple(files.readFiles),
        modified_files=tuple(files.modifiedFiles),
        preserve_data=raw_text(found.preserveData),
        from_hook=bool(found.fromHook or found.fromExtension),
        own=raw_text(files.pod),
    )


def _files(raw: Raw) -> _Details:
    if not bytes(raw):
        return _Details()
    try:
        return _details.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _Details()  # an extension's own details


def _own(raw: Raw) -> _OwnResult:
    if not bytes(raw) or b'"pod"' not in bytes(raw):
        return _OwnResult()
    try:
        own = bytes(_details.decode(raw).pod)
        return _own_result.decode(own) if own else _OwnResult()
    except (msgspec.DecodeError, RecursionError):
        return _OwnResult()
