"""One content block of an answer while it streams.

A block starts with what ``content_block_start`` says, grows by deltas, and
ends as an item. Text from the provider is kept byte for byte.
"""

from typing import Protocol, TypeVar

from msgspec import DecodeError, Raw, Struct, ValidationError, json

from worker.client import Delta, ReasoningDelta, TextDelta, ToolInputDelta
from worker.items import AssistantText, FromModel, Opaque, Reasoning, ToolCall

T = TypeVar("T")

NULL = Raw(b"null")
"""A field that is null or missing."""


class GarbledError(ValueError):
    """What came makes no sense where it stands; the message says what came."""


class _TextMore(Struct, frozen=True, tag_field="type", tag="text_delta"):
    text: str


class _ThinkingMore(Struct, frozen=True, tag_field="type", tag="thinking_delta"):
    thinking: str


class _SignatureMore(Struct, frozen=True, tag_field="type", tag="signature_delta"):
    signature: str


class _InputMore(Struct, frozen=True, tag_field="type", tag="input_json_delta"):
    partial_json: str


class _Citation(Struct, frozen=True, tag_field="type", tag="citations_delta"):
    citation: Raw


class _CompactionMore(Struct, frozen=True, tag_field="type", tag="compaction_delta"):
    content: Raw = NULL
    encrypted_content: Raw = NULL


class UnknownDelta(Struct, frozen=True):
    """A kind of delta that no block here knows."""

    type: str


_Known = (
    _TextMore
    | _ThinkingMore
    | _SignatureMore
    | _InputMore
    | _Citation
    | _CompactionMore
)
_KNOWN = frozenset(
    {
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
        "citations_delta",
        "compaction_delta",
    }
)
BlockDelta = _Known | UnknownDelta

_DELTAS = json.Decoder(_Known)


class _Head(Struct, frozen=True):
    type: str


Fields = dict[str, Raw]
"""A JSON object whose values are still as they came."""


def read_delta(raw: Raw) -> BlockDelta:
    """Read the ``delta`` of a content_block_delta. Raises GarbledError."""
    try:
        return _DELTAS.decode(raw)
    except ValidationError as error:
        kind = read(raw, _Head).type
        if kind in _KNOWN:
            raise GarbledError(f"a {kind} that cannot be read: {error}") from error
        return UnknownDelta(kind)


class Block(Protocol):
    """A block that is still growing."""

    def add(self, delta: BlockDelta) -> Delta | None:
        """Take a delta; return what a listener is told of it.

        Raises GarbledError for a known delta that this block cannot have.
        """

    def finish(self, *, cut: bool) -> FromModel | None:
        """Return the item; None where a block that was *cut* off is nothing.

        *cut* says that the answer ended inside the block. Raises GarbledError.
        """


def open_block(raw: Raw, *, response: str, model: str) -> tuple[Block, Delta | None]:
    """Start the block that ``content_block`` describes.

    With it comes what a listener is told of text it starts with. Raises
    GarbledError.
    """
    fields = read(raw, Fields)
    match _text(fields, "type"):
        case "text":
            text = _TextBlock(fields, response)
            return text, TextDelta(text.pieces[0]) if text.pieces else None
        case "thinking":
            thought = _ThinkingBlock(fields, response, model)
            said = ReasoningDelta(thought.pieces[0]) if thought.pieces else None
            return thought, said
        case "redacted_thinking":
            return _RedactedBlock(fields, response, model), None
        case "tool_use":
            return _ToolUseBlock(fields, response), None
        case "":
            raise GarbledError("a content block without a type")
        case kind:
            return _OpaqueBlock(raw, fields, kind, response), None


class _TextBlock:
    def __init__(self, fields: Fields, response: str) -> None:
        self.pieces = _pieces(fields, "text")
        self._fields = fields
        self._citations: list[Raw] = []
        self._response = response

    def add(self, delta: BlockDelta) -> Delta | None:
        match delta:
            case _TextMore():
                self.pieces.append(delta.text)
                return TextDelta(delta.text) if delta.text else None
            case _Citation():
                self._citations.append(delta.citation)
            case UnknownDelta():
                pass
            case _ThinkingMore() | _SignatureMore() | _InputMore() | _CompactionMore():
                raise _misplaced(delta, "text")
        return None

    def finish(self, *, cut: bool) -> AssistantText:
        fields = self._fields
        if self._citations:
            fields = fields | {"citations": _cited(fields, self._citations)}
        return AssistantText(
            text="".join(self.pieces),
            response=self._response,
            extra=_extra(fields, "text"),
        )


class _ThinkingBlock:
    def __init__(self, fields: Fields, response: str, model: str) -> None:
        self.pieces = _pieces(fields, "thinking")
        self._signature = _pieces(fields, "signature")
        self._fields = fields
        self._response = response
        self._model = model

    def add(self, delta: BlockDelta) -> Delta | None:
        match delta:
            case _ThinkingMore():
                self.pieces.append(delta.thinking)
                return ReasoningDelta(delta.thinking) if delta.thinking else None
            case _SignatureMore():
                self._signature.append(delta.signature)
            case UnknownDelta():
                pass
            case _TextMore() | _Citation() | _InputMore() | _CompactionMore():
                raise _misplaced(delta, "thinking")
        return None

    def finish(self, *, cut: bool) -> Reasoning:
        return Reasoning(
            text="".join(self.pieces),
            response=self._response,
            model=self._model,
            signature="".join(self._signature),
            extra=_extra(self._fields, "thinking", "signature"),
        )


class _RedactedBlock:
    def __init__(self, fields: Fields, response: str, model: str) -> None:
        self._item = Reasoning(
            text="",
            response=response,
            model=model,
            redacted=_text(fields, "data"),
            extra=_extra(fields, "data"),
        )

    def add(self, delta: BlockDelta) -> Delta | None:
        if isinstance(delta, UnknownDelta):
            return None
        raise _misplaced(delta, "redacted_thinking")

    def finish(self, *, cut: bool) -> Reasoning:
        return self._item


class _ToolUseBlock:
    def __init__(self, fields: Fields, response: str) -> None:
        self._id = _text(fields, "id")
        self._name = _text(fields, "name")
        self._fields = fields
        self._pieces: list[str] = []
        self._response = response

    def add(self, delta: BlockDelta) -> Delta | None:
        match delta:
            case _InputMore():
                self._pieces.append(delta.partial_json)
                if delta.partial_json:
                    return ToolInputDelta(self._id, self._name, delta.partial_json)
            case UnknownDelta():
                pass
            case (
                _TextMore()
                | _ThinkingMore()
                | _SignatureMore()
                | _Citation()
                | _CompactionMore()
            ):
                raise _misplaced(delta, "tool_use")
        return None

    def finish(self, *, cut: bool) -> ToolCall:
        arguments = "".join(self._pieces)
        if not arguments.strip():
            arguments = _started_input(self._fields) or ("" if cut else "{}")
        incomplete = not _is_object(arguments)
        return ToolCall(
            call_id=self._id,
            name=self._name,
            arguments="{}" if incomplete else arguments,
            response=self._response,
            incomplete=incomplete,
            extra=_extra(self._fields, "id", "name", "input"),
        )


class _OpaqueBlock:
    """A block Pod has no item for: a tool that the provider runs, its result.

    It stays the JSON it started as, except for the fields its deltas fill.
    """

    def __init__(self, raw: Raw, fields: Fields, kind: str, response: str) -> None:
        self._raw = raw
        self._fields = fields
        self._kind = kind
        self._input: list[str] = []
        self._grown: dict[str, list[str]] = {}
        self._citations: list[Raw] = []
        self._replaced: Fields = {}
        self._response = response

    def add(self, delta: BlockDelta) -> Delta | None:
        match delta:
            case _InputMore():
                self._input.append(delta.partial_json)
            case _TextMore():
                self._grown.setdefault("text", []).append(delta.text)
            case _ThinkingMore():
                self._grown.setdefault("thinking", []).append(delta.thinking)
            case _SignatureMore():
                self._grown.setdefault("signature", []).append(delta.signature)
            case _Citation():
                self._citations.append(delta.citation)
            case _CompactionMore():
                if delta.content != NULL:
                    self._replaced["content"] = delta.content
                if delta.encrypted_content != NULL:
                    self._replaced["encrypted_content"] = delta.encrypted_content
            case UnknownDelta():
                pass
        return None

    def finish(self, *, cut: bool) -> Opaque | None:
        changed = dict(self._replaced)
        told = "".join(self._input)
        if not _is_object(told):
            if cut and "input" in self._fields:
                return None
            if told.strip():
                raise GarbledError(f"a {self._kind} whose input is no JSON object")
        else:
            changed["input"] = Raw(told.encode())
        for name, pieces in self._grown.items():
            whole = _text(self._fields, name) + "".join(pieces)
            changed[name] = Raw(json.encode(whole))
        if self._citations:
            changed["citations"] = _cited(self._fields, self._citations)
        whole_json = json.encode(self._fields | changed) if changed else self._raw
        return Opaque(json=bytes(whole_json).decode(), response=self._response)


def read(raw: Raw, kind: type[T]) -> T:
    """Read a piece of an event. Raises GarbledError."""
    try:
        return json.decode(raw, type=kind)
    except (DecodeError, RecursionError) as error:
        raise GarbledError(f"not what belongs there: {error}") from error


def _text(fields: Fields, name: str) -> str:
    told = fields.get(name, NULL)
    return "" if told == NULL else read(told, str)


def _pieces(fields: Fields, name: str) -> list[str]:
    text = _text(fields, name)
    return [text] if text else []


def _cited(fields: Fields, more: list[Raw]) -> Raw:
    told = fields.get("citations", NULL)
    before = [] if told == NULL else read(told, list[Raw])
    return Raw(json.encode(before + more))


def _extra(fields: Fields, *taken: str) -> str:
    rest = {k: v for k, v in fields.items() if k != "type" and k not in taken}
    return json.encode(rest).decode() if rest else ""


def _started_input(fields: Fields) -> str:
    """The arguments of a gateway that sends them whole, without deltas."""
    told = bytes(fields.get("input", b"")).decode()
    return told if _is_object(told) and json.decode(told, type=Fields) else ""


def is_server_tool(item: FromModel) -> bool:
    """Whether *item* is a call of a tool that the provider runs itself."""
    return isinstance(item, Opaque) and read(
        Raw(item.json.encode()), _Head
    ).type.endswith("_tool_use")


def _is_object(text: str) -> bool:
    try:
        json.decode(text, type=Fields)
    except (DecodeError, RecursionError):
        return False
    return True


def _misplaced(delta: _Known, block: str) -> GarbledError:
    return GarbledError(f"a {delta.__struct_config__.tag} in a {block} block")
