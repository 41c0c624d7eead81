"""Requests as the bytes of the Messages API, both ways.

A client sends what ``encode_request`` gives; the loopback server and the
policies behind it read it with ``decode_request``.
"""

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Literal

from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError, json

from worker import api
from worker.replay import events_of as events_of


class _Adaptive(Struct, frozen=True, tag_field="type", tag="adaptive"):
    pass


class _Enabled(Struct, frozen=True, tag_field="type", tag="enabled"):
    budget_tokens: int


class _Disabled(Struct, frozen=True, tag_field="type", tag="disabled"):
    pass


_Thinking = _Adaptive | _Enabled | _Disabled


class _OutputConfig(Struct, frozen=True):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class _Compaction(
    Struct, frozen=True, tag_field="type", tag="summarize", omit_defaults=True
):
    instructions: str = ""


class _Message(Struct, frozen=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[Raw]


class _Tool(Struct, frozen=True):
    name: str
    description: str = ""
    input_schema: Raw = Raw(b"{}")


class _Body(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A request's body, its keys in the order they are sent in."""

    model: str
    max_tokens: int | UnsetType = UNSET
    stream: bool = False
    temperature: float | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    compaction: _Compaction | None = None
    tools: tuple[_Tool, ...] = ()
    system: str | list[Raw] = ""
    messages: list[_Message]
    """Last, so that the body of a longer history begins like that of a shorter."""


_BLOCKS: dict[str, type[api.Block]] = {
    "text": api.Text,
    "image": api.Image,
    "thinking": api.Thinking,
    "redacted_thinking": api.RedactedThinking,
    "tool_use": api.ToolUse,
    "tool_result": api.ToolResult,
}


class Encoded:
    """The bytes of the last request's messages; those of the next are mostly the same.

    A message counts as known where it is the very object that stood there.
    """

    def __init__(self) -> None:
        self._messages: Sequence[api.Message] = ()
        self._bytes: list[bytes] = []

    def messages(self, messages: Sequence[api.Message]) -> list[bytes]:
        """Return the bytes of each message."""
        # A message more, or one that is another one, is encoded; see zip().
        self._bytes = [
            known if message is before else _message(message)
            for message, before, known in zip(
                messages,
                chain(self._messages, repeat(None)),
                chain(self._bytes, repeat(b"")),
                strict=False,
            )
        ]
        self._messages = messages
        return self._bytes


def encode_request(
    request: api.Request, *, stream: bool = True, encoded: Encoded | None = None
) -> bytes:
    """Return the JSON body that asks for an answer.

    The betas are a header and not in it. *encoded*, of the request before,
    saves encoding again what was in that. Raises UnicodeEncodeError for text
    with lone surrogates.
    """
    return _body(request, encoded, max_tokens=request.max_tokens, stream=stream)


def encode_count(request: api.Request) -> bytes:
    """Return the JSON body that asks how many tokens the prompt has.

    That endpoint takes neither max_tokens nor stream nor temperature.
    """
    return _body(request, None, max_tokens=UNSET, stream=False)


def _body(
    request: api.Request,
    encoded: Encoded | None,
    *,
    max_tokens: int | UnsetType,
    stream: bool,
) -> bytes:
    body = _Body(
        model=request.model,
        max_tokens=max_tokens,
        stream=stream,
        temperature=None if max_tokens is UNSET else request.temperature,
        thinking=_thinking(request.thinking),
        output_config=_OutputConfig(request.effort) if request.effort else None,
        compaction=None
        if request.compaction is None or max_tokens is UNSET
        else _Compaction(request.compaction.instructions),
        tools=tuple(
            _Tool(tool.name, tool.description, tool.input_schema)
            for tool in request.tools
        ),
        system=[_encode_block(block) for block in request.system] or "",
        messages=[],
    )
    messages = (encoded or Encoded()).messages(request.messages)
    head = json.encode(body).removesuffix(b"]}")
    return b"".join([head, b",".join(messages), b"]}"])


def _message(message: api.Message) -> bytes:
    blocks = [_encode_block(block) for block in message.content]
    return json.encode(_Message(message.role, blocks))


def _encode_block(block: api.Block) -> Raw:
    return block.raw if isinstance(block, api.Opaque) else Raw(json.encode(block))


def _thinking(thinking: Literal["adaptive", "off"] | int | None) -> _Thinking | None:
    match thinking:
        case None:
            return None
        case "adaptive":
            return _Adaptive()
        case "off":
            return _Disabled()
        case int():
            return _Enabled(thinking)


def decode_request(body: bytes, *, counting: bool = False) -> api.Request:
    """Return the request whose body this is; the inverse of `encode_request`.

    Strings where blocks may stand become one text block. A block with fields
    that its Struct in worker.api has not, or of an unknown type, is Opaque.
    *counting* takes a body for the count_tokens endpoint: max_tokens is 0.
    Raises msgspec.DecodeError (or ValidationError, which is one) for what is
    no request.
    """
    try:
        read = json.decode(body.decode(), type=_Body)
        if read.max_tokens is UNSET and not counting:
            raise ValidationError("Object missing required field `max_tokens`")
        return api.Request(
            model=read.model,
            max_tokens=0 if read.max_tokens is UNSET else read.max_tokens,
            system=_system(read.system),
            messages=tuple(
                api.Message(message.role, _content(message.content))
                for message in read.messages
            ),
            tools=tuple(
                api.ToolSpec(tool.name, tool.description, tool.input_schema)
                for tool in read.tools
            ),
            thinking=_thought(read.thinking),
            effort=None if read.output_config is None else read.output_config.effort,
            temperature=read.temperature,
            compaction=None
            if read.compaction is None
            else api.Compact(read.compaction.instructions),
        )
    except (UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"not a request: {error}") from error


def _thought(thinking: _Thinking | None) -> Literal["adaptive", "off"] | int | None:
    match thinking:
        case None:
            return None
        case _Adaptive():
            return "adaptive"
        case _Disabled():
            return "off"
        case _Enabled():
            return thinking.budget_tokens


def _system(told: str | list[Raw]) -> tuple[api.Text, ...]:
    if isinstance(told, str):
        return (api.Text(told),) if told else ()
    return tuple(json.decode(raw, type=api.Text) for raw in told)


def _content(told: str | list[Raw]) -> tuple[api.Block, ...]:
    if isinstance(told, str):
        return (api.Text(told),)
    return tuple(_decode_block(raw) for raw in told)


def _decode_block(raw: Raw) -> api.Block:
    fields = json.decode(raw, type=dict[str, Raw])
    kind = json.decode(fields.get("type", Raw(b'""')), type=str)
    if not kind:
        raise ValidationError("Object missing required field `type`")
    struct = _BLOCKS.get(kind)
    if struct is None or not fields.keys() <= {"type", *struct.__struct_fields__}:
        return api.Opaque(raw)
    if struct is api.ToolResult:
        return _tool_result(raw)
    if struct is api.Image and "source" in fields and not _is_base64(fields["source"]):
        return api.Opaque(raw)
    if struct is api.ToolUse:
        json.decode(fields.get("input", Raw(b"null")), type=dict[str, Raw])
    return json.decode(raw, type=struct)


class _Result(Struct, frozen=True):
    tool_use_id: str
    content: str | list[Raw] = ""
    is_error: bool = False
    cache_control: api.CacheControl | UnsetType = UNSET


def _tool_result(raw: Raw) -> api.ToolResult | api.Opaque:
    read = json.decode(raw, type=_Result)
    content: list[api.Text | api.Image] = []
    for block in _content(read.content) if read.content else ():
        if not isinstance(block, api.Text | api.Image):
            return api.Opaque(raw)
        content.append(block)
    return api.ToolResult(
        read.tool_use_id, tuple(content), read.is_error, read.cache_control
    )


class _Source(Struct, frozen=True):
    type: str = ""


def _is_base64(source: Raw) -> bool:
    return json.decode(source, type=_Source).type == "base64"
