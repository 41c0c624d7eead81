"""A session as pi's format 3, which pi can open and Pod reads back.

An answer of several entries is one message of pi's; what pi has no place for
goes along as custom entries ("pod/…") and in fields named "pod", so that an
import gives the same context. What a compaction of Pod's puts before the kept
part is its summary there.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Raw

from pod.codec import encode, to_ascii
from pod.compaction.framing import leading_items
from pod.entries import (
    AnyEntry,
    BranchSummary,
    Compaction,
    Custom,
    CustomMessage,
    ItemEntry,
    Label,
    Leaf,
    ModelChange,
    SessionInfo,
    Unknown,
    UsageEntry,
)
from pod.exporting.answers import Answers, Group
from pod.exporting.pi_lines import (
    Answer,
    Content,
    Cost,
    Files,
    Header,
    Line,
    OwnResult,
    Part,
    Result,
    ResultDetails,
    Tokens,
    User,
)
from pod.exporting.source import Exported
from pod.importing.own import END, OWN_KINDS, SYSTEM_TEXT
from tools.base import Image
from worker.items import (
    AssistantText,
    FromModel,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.usage import Usage

_encoder = msgspec.json.Encoder()


def lines(session: Exported) -> Iterator[str]:
    """Give the lines of pi's file; the last one is where the session stands."""
    header = session.header
    yield _json(
        Header(
            version=3,
            id=header.id,
            timestamp=header.at,
            cwd=header.cwd,
            parentSession=header.parent_session,
        )
    )
    last: str | None = None
    for line in _Writer(session).lines():
        last = line.id
        yield _json(line)
    answers = Answers(session.entries, session.leaf)
    if session.entries and last != answers.end(session.leaf):
        newest = session.entries[-1]
        yield _json(
            Line(
                type="custom",
                id=f"{newest.id}e",
                parentId=answers.end(session.leaf),
                timestamp=newest.at,
                customType=END,
            )
        )


class _Writer:
    def __init__(self, session: Exported) -> None:
        self._session = session
        self._answers = Answers(session.entries, session.leaf)
        self._by_id = {entry.id: entry for entry in session.entries}
        self._tools = _tool_names(session.entries)
        self._usages = _usages(session.entries)
        self._model = ""

    def lines(self) -> Iterator[Line]:
        for entry in self._session.entries:
            if not self._answers.goes_on(entry):
                for copy in self._answers.copy_for(entry.parent):
                    yield self._answer(copy)
            yield from self._made(entry)
        for copy in self._answers.copy_for(self._session.leaf):
            yield self._answer(copy)

    def _made(self, entry: AnyEntry) -> Iterator[Line]:
        match entry:
            case ItemEntry():
                yield from self._item(entry)
            case CustomMessage(kind=kind, text=text):
                line = self._line(entry, "custom_message")
                line.customType, line.content, line.display = kind, text, True
                yield line
            case Compaction():
                yield self._compaction(entry)
            case BranchSummary():
                line = self._line(entry, "branch_summary")
                line.fromId = self._answers.end(entry.from_id) or "root"
                line.summary = entry.summary
                files = entry.details
                line.details = Files(files.read_files, files.modified_files)
                line.fromHook = entry.from_hook
                yield line
            case ModelChange(model=model):
                self._model = model
                line = self._line(entry, "model_change")
                line.provider, line.modelId = "anthropic", model
                yield line
            case SessionInfo(name=name):
                line = self._line(entry, "session_info")
                line.name = name
                yield line
            case Label(target=target, label=label):
                line = self._line(entry, "label")
                line.targetId = self._answers.end(target) or ""
                line.label = label or None
                yield line
            case Leaf():
                pass
            case Custom(kind=kind, json=json):
                yield self._custom(entry, kind, _data(json))
            case Unknown(type=tag, json=json):
                yield self._custom(entry, f"pod.{tag}", Raw(json.encode()))
            case _:
                tag = str(entry.__struct_config__.tag)
                own = "pod/" if tag in OWN_KINDS else "pod."
                data = Raw(encode(entry).rstrip())
                yield self._custom(entry, f"{own}{tag}", data)

    def _item(self, entry: ItemEntry) -> Iterator[Line]:
        match entry.item:
            case AssistantText() | Reasoning() | ToolCall() | Opaque():
                if (group := self._answers.begun_by(entry.id)) is not None:
                    yield self._answer(group)
            case UserText() as item:
                line = self._line(entry, "message")
                content = [_text(item.text), *map(_image, item.images)]
                line.message = User(content, _milliseconds(entry.at), item.synthetic)
                yield line
            case ToolResult() as item:
                line = self._line(entry, "message")
                line.message = self._result(entry, item)
                yield line
            case SystemText(text=text):
                line = self._line(entry, "custom_message")
                line.customType, line.content = SYSTEM_TEXT, text
                line.display = True
                yield line

    def _line(self, entry: AnyEntry, type: str) -> Line:
        return Line(
            type=type,
            id=entry.id,
            parentId=self._answers.end(entry.parent),
            timestamp=entry.at,
        )

    def _custom(self, entry: AnyEntry, kind: str, data: Raw) -> Line:
        line = self._line(entry, "custom")
        line.customType, line.data = kind, data
        return line

    def _answer(self, group: Group) -> Line:
        items = [entry.item for entry in group.entries]
        models = [item.model for item in items if isinstance(item, Reasoning)]
        usage = self._usages.get(group.response)
        if usage is not None:
            models.append(usage.model)
        content: list[Content] = []
        parts: list[Part] = []
        for entry in group.entries:
            if isinstance(entry.item, FromModel):
                parts.append(_part(entry.id, entry.item))
                content += _content(entry.item)
        at = group.entries[-1].at
        has_calls = any(isinstance(item, ToolCall) for item in items)
        return Line(
            type="message",
            id=group.id,
            parentId=self._answers.end(group.parent),
            timestamp=at,
            message=Answer(
                content=content,
                api="anthropic-messages",
                provider="anthropic",
                model=models[0] if models else self._model,
                usage=_tokens(usage),
                stopReason=_stop(usage, has_calls=has_calls),
                timestamp=_milliseconds(at),
                responseId=group.response,
                pod=parts,
            ),
        )

    def _result(self, entry: ItemEntry, item: ToolResult) -> Result:
        has_content = item.content is not None
        shown = item.summary if item.content is None else item.content
        own = OwnResult(item.summary, has_content, item.referenced_files)
        return Result(
            toolCallId=item.call_id,
            toolName=self._tools.get(item.call_id, ""),
            content=[_text(shown), *map(_image, item.images)],
            isError=item.is_error,
            timestamp=_milliseconds(entry.at),
            details=ResultDetails(own),
        )

    def _compaction(self, entry: Compaction) -> Line:
        line = self._line(entry, "compaction")
        line.summary = "\n\n".join(item.text for item in leading_items(entry))
        line.shortSummary = entry.short_summary
        # pi wants an entry's id; its own says that nothing before it is kept.
        line.firstKeptEntryId = self._first_kept(entry) or entry.id
        line.tokensBefore = entry.tokens_before
        line.tokensAfter = entry.tokens_after
        files = entry.details
        line.details = Files(
            files.read_files, files.modified_files, Raw(encode(entry).rstrip())
        )
        if entry.preserve_data:
            line.preserveData = _data(entry.preserve_data)
        line.fromHook = entry.from_hook
        return line

    def _first_kept(self, compaction: Compaction) -> str | None:
        """Return the message, on the compaction's own path, that it keeps from."""
        first = compaction.first_kept
        kept = self._by_id.get(first or "")
        if first is None or not isinstance(kept, ItemEntry):
            return first
        response = _response(kept)
        if not response:
            return first
        # The part of the response that this path goes through may be a copy.
        at, last = compaction.parent, first
        while at is not None and at != first and at in self._by_id:
            entry = self._by_id[at]
            if isinstance(entry, ItemEntry) and _response(entry) == response:
                last = last if last != first else at
            at = entry.parent
        return self._answers.end(last)


def _response(entry: ItemEntry) -> str:
    item = entry.item
    return item.response if isinstance(item, FromModel) else ""


def _part(id: str, item: FromModel) -> Part:
    match item:
        case AssistantText() | Reasoning():
            return Part(id, item.extra)
        case ToolCall():
            exact = "" if _is_exact(item.arguments) else item.arguments
            return Part(id, item.extra, item.incomplete, arguments=exact)
        case Opaque(json=json):
            return Part(id, json=json)


def _content(item: FromModel) -> list[Content]:
    match item:
        case AssistantText(text=text):
            return [_text(text)]
        case Reasoning(redacted=redacted) if redacted:
            return [
                Content(
                    "thinking", thinking="", thinkingSignature=redacted, redacted=True
                )
            ]
        case Reasoning(text=text, signature=signature):
            return [Content("thinking", thinking=text, thinkingSignature=signature)]
        case ToolCall():
            exact = item.arguments if _is_exact(item.arguments) else "{}"
            return [
                Content(
                    "toolCall",
                    id=item.call_id,
                    name=item.name,
                    arguments=Raw(exact.encode()),
                )
            ]
        case Opaque():
            return []


def _is_exact(arguments: str) -> bool:
    """Whether arguments come back byte for byte from a line of JSON."""
    if "\\ud" in arguments.lower() or not arguments.isascii() or "\n" in arguments:
        return False
    try:
        msgspec.json.decode(arguments, type=dict[str, Raw])
    except (msgspec.DecodeError, RecursionError):
        return False
    return arguments.startswith("{") and arguments == arguments.strip()


def _text(text: str) -> Content:
    return Content("text", text=text)


def _image(image: Image) -> Content:
    return Content("image", data=image.data, mimeType=image.media_type)


def _tool_names(entries: Sequence[AnyEntry]) -> Mapping[str, str]:
    return {
        entry.item.call_id: entry.item.name
        for entry in entries
        if isinstance(entry, ItemEntry) and isinstance(entry.item, ToolCall)
    }


def _usages(entries: Sequence[AnyEntry]) -> Mapping[str, UsageEntry]:
    return {entry.response: entry for entry in entries if isinstance(entry, UsageEntry)}


def _tokens(entry: UsageEntry | None) -> Tokens:
    usage = (entry.usage if entry is not None else None) or Usage()
    cost = entry.cost_usd if entry is not None else None
    return Tokens(
        input=usage.input,
        output=usage.output,
        cacheRead=usage.cache_read,
        cacheWrite=usage.cache_write,
        totalTokens=usage.total,
        cost=Cost(cost or 0),
    )


def _stop(usage: UsageEntry | None, *, has_calls: bool) -> str:
    if usage is not None and usage.stop_reason == "max_tokens":
        return "length"
    return "toolUse" if has_calls else "stop"


def _data(json: str) -> Raw:
    """Return what should be JSON as JSON; what is none becomes a string."""
    try:
        msgspec.json.decode(json, type=Raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return Raw(_encoder.encode(json))
    return Raw(json.encode())


def _milliseconds(at: str) -> int:
    try:
        return round(datetime.fromisoformat(at).timestamp() * 1000)
    except ValueError:
        return 0


def _json(line: Line | Header) -> str:
    return to_ascii(_encoder.encode(line)).decode() + "\n"
