"""Sessions of pi (format 1 to 3) and oh-my-pi, and of what embeds pi.

JSON lines: a header, then entries. From format 2 on they form a tree by id and
parentId; in format 1 they are a list, in which a compaction names the index of
the first entry that it kept, the header counted.
"""

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from pod.importing.decode import decoded
from pod.importing.own import END, OWN_TYPE
from pod.importing.pi_content import answer_of, content_of
from pod.importing.pi_lines import (
    Details,
    Line,
    Message,
    OwnResult,
)
from pod.importing.records import (
    NO_PLACE,
    Answer,
    Compacted,
    Header,
    Labelled,
    Link,
    ModelSet,
    Note,
    Own,
    Parsed,
    Record,
    Renamed,
    Result,
    Summarised,
    Told,
    User,
    raw_text,
)
from pod.importing.shell_text import ran

HIDDEN_COMMANDS = (
    "commands the user kept out of the context (!!): in the log, not shown"
)
OTHER_ENTRIES = "entries of other kinds: kept in the log, not shown"
BLOB = "blob:sha256:"
"""How oh-my-pi names an image that lies in its blob store."""


_line = msgspec.json.Decoder(Line)
_details = msgspec.json.Decoder(Details)
_own_result = msgspec.json.Decoder(OwnResult)


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

    line: Line

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


def _record(found: Line, line: bytes, stem: _Stem, losses: list[str]) -> Record:
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
            text, images = content_of(found.content, losses)
            losses += [NO_PLACE] * len(images)
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


def _message(message: Message, stem: _Stem, losses: list[str]) -> Record:
    id, parent, at = stem.id, stem.parent, stem.at
    match message.role:
        case "user":
            text, images = content_of(message.content, losses)
            return User(
                id=id,
                parent=parent,
                at=at,
                text=text,
                images=images,
                synthetic=message.synthetic,
            )
        case "assistant":
            return answer_of(message, losses, id=id, parent=parent, at=at)
        case "toolResult":
            text, images = content_of(message.content, losses)
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
            text, images = content_of(message.content, losses)
            losses += [NO_PLACE] * len(images)
            kind = message.customType or message.role or "message"
            return Told(
                id=id, parent=parent, at=at, kind=kind, text=text or message.summary
            )


def _compacted(found: Line, stem: _Stem, losses: list[str]) -> Compacted:
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


def _files(raw: Raw) -> Details:
    if not bytes(raw):
        return Details()
    try:
        return _details.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return Details()  # an extension's own details


def _own(raw: Raw) -> OwnResult:
    if not bytes(raw) or b'"pod"' not in bytes(raw):
        return OwnResult()
    try:
        own = bytes(_details.decode(raw).pod)
        return _own_result.decode(own) if own else OwnResult()
    except (msgspec.DecodeError, RecursionError):
        return OwnResult()
