"""A request as the API reads it: the shapes it takes, and what it says of others.

Independent of api.py and wire.py on purpose: those write requests, this reads
them from the other side, and a mistake in one must not hide in the other.
Shape errors are worded like the API's (it names a path and a reason); where
its own text differs by model or version, ours is the short form.
"""

import re
from typing import Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from worker.loopback.refusal import Refusal, Refused

NULL = Raw(b"null")
"""A field that may hold anything and was not given."""


class CacheControl(Struct, tag_field="type", tag="ephemeral"):
    ttl: Literal["5m", "1h"] = "5m"


class Text(Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    text: str
    cache_control: CacheControl | None = None
    citations: Raw = NULL


class Base64(Struct, tag_field="type", tag="base64", forbid_unknown_fields=True):
    media_type: str
    data: str


class Url(Struct, tag_field="type", tag="url", forbid_unknown_fields=True):
    url: str


class File(Struct, tag_field="type", tag="file", forbid_unknown_fields=True):
    file_id: str


class Image(Struct, tag_field="type", tag="image", forbid_unknown_fields=True):
    source: Base64 | Url | File
    cache_control: CacheControl | None = None


class Thinking(Struct, tag_field="type", tag="thinking", forbid_unknown_fields=True):
    thinking: str
    signature: str


class RedactedThinking(
    Struct, tag_field="type", tag="redacted_thinking", forbid_unknown_fields=True
):
    data: str


class ToolUse(Struct, tag_field="type", tag="tool_use", forbid_unknown_fields=True):
    id: str
    name: str
    input: dict[str, Raw]
    cache_control: CacheControl | None = None
    caller: Raw = NULL


class ToolResult(
    Struct, tag_field="type", tag="tool_result", forbid_unknown_fields=True
):
    tool_use_id: str
    content: "str | list[ResultBlock] | None" = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None


class Other(Struct, tag_field="type"):
    """A block this server takes as it is: it has no rule about its insides."""

    cache_control: CacheControl | None = None


class Document(Other, tag="document"): ...


class SearchResult(Other, tag="search_result"): ...


class ToolReference(Other, tag="tool_reference"): ...


class ContainerUpload(Other, tag="container_upload"): ...


class ServerToolUse(Other, tag="server_tool_use"): ...


class WebSearchResult(Other, tag="web_search_tool_result"): ...


class WebFetchResult(Other, tag="web_fetch_tool_result"): ...


class CodeResult(Other, tag="code_execution_tool_result"): ...


class BashCodeResult(Other, tag="bash_code_execution_tool_result"): ...


class EditorCodeResult(Other, tag="text_editor_code_execution_tool_result"): ...


class ToolSearchResult(Other, tag="tool_search_tool_result"): ...


class ToolAddition(Other, tag="tool_addition"): ...


class McpToolUse(Other, tag="mcp_tool_use"): ...


class McpToolResult(Other, tag="mcp_tool_result"): ...


class AdvisorResult(Other, tag="advisor_tool_result"): ...


class Compaction(Other, tag="compaction"):
    """What a compaction left; see rules_compaction.py."""

    content: str | None = None
    encrypted_content: str | None = None
    signature: str | None = None


ResultBlock = Text | Image | Document | SearchResult | ToolReference
Passive = (
    Document
    | SearchResult
    | ToolReference
    | ContainerUpload
    | ServerToolUse
    | WebSearchResult
    | WebFetchResult
    | CodeResult
    | BashCodeResult
    | EditorCodeResult
    | ToolSearchResult
    | AdvisorResult
    | ToolAddition
    | McpToolUse
    | McpToolResult
    | Compaction
)
Block = Text | Image | Thinking | RedactedThinking | ToolUse | ToolResult | Passive


class Message(Struct, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]

    @property
    def blocks(self) -> list[Block]:
        """The content as blocks; a string is one text block."""
        if isinstance(self.content, str):
            return [Text(text=self.content)] if self.content else []
        return self.content


class InputSchema(Struct):
    type: Literal["object"]


class Tool(Struct):
    """A tool. One with a *type* other than "custom" is the provider's own."""

    name: str
    type: str = "custom"
    description: str = ""
    input_schema: Raw = NULL
    cache_control: CacheControl | None = None


class Adaptive(Struct, tag_field="type", tag="adaptive", forbid_unknown_fields=True):
    display: str | None = None


class Enabled(Struct, tag_field="type", tag="enabled", forbid_unknown_fields=True):
    budget_tokens: int
    display: str | None = None


class Disabled(Struct, tag_field="type", tag="disabled", forbid_unknown_fields=True):
    pass


class ToolChoice(Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None


class OutputConfig(Struct):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class Summarize(Struct, tag_field="type", tag="summarize", forbid_unknown_fields=True):
    instructions: str | None = None


class Prompt(Struct, forbid_unknown_fields=True, kw_only=True):
    """What is counted: the fields both endpoints take."""

    model: str
    messages: list[Message]
    system: str | list[Text] = ""
    tools: list[Tool] = []
    tool_choice: ToolChoice | None = None
    thinking: Adaptive | Enabled | Disabled | None = None
    output_config: OutputConfig | None = None
    cache_control: CacheControl | None = None
    context_management: Raw = NULL
    mcp_servers: Raw = NULL
    speed: Raw = NULL

    @property
    def system_blocks(self) -> list[Text]:
        """The system prompt as blocks; a string is one text block."""
        if isinstance(self.system, str):
            return [Text(text=self.system)] if self.system else []
        return self.system


class Body(Prompt, forbid_unknown_fields=True, kw_only=True):
    """The body of ``POST /v1/messages``."""

    max_tokens: int
    stream: bool = False
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    top_k: int | None = None
    top_p: float | None = None
    metadata: Raw = NULL
    service_tier: Raw = NULL
    container: Raw = NULL
    diagnostics: Raw = NULL
    inference_geo: Raw = NULL
    compaction: Summarize | None = None
    fallbacks: Raw = NULL


_Read = TypeVar("_Read", bound=Prompt)

_body = msgspec.json.Decoder(Body)
_prompt = msgspec.json.Decoder(Prompt)


def read_body(data: bytes) -> Body:
    """Read a request for an answer. Raises Refused where its shape is wrong."""
    return _read(_body, data)


def read_prompt(data: bytes) -> Prompt:
    """Read a request for a count. Raises Refused where its shape is wrong."""
    return _read(_prompt, data)


def _read(decoder: msgspec.json.Decoder[_Read], data: bytes) -> _Read:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise Refused(Refusal(400, _reworded(str(error)))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(
            Refusal(400, f"The request body is not valid JSON: {error}")
        ) from None
    except RecursionError:
        raise Refused(
            Refusal(400, "The request body is not valid JSON: nested too deeply")
        ) from None


_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`")
_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_TAG = re.compile(r"Invalid value '([^']*)'")
_KINDS = {
    "str": "a valid string",
    "int": "a valid integer",
    "float": "a valid number",
    "bool": "a valid boolean",
    "array": "a valid list",
    "object": "a valid dictionary",
}


def _reworded(message: str) -> str:
    """Say what msgspec found in the API's manner: ``path: reason``."""
    reason, _, where = message.partition(" - at `$")
    path = where.rstrip("`").replace("[...]", "").replace("[", ".").replace("]", "")
    path = path.lstrip(".")
    if found := _UNKNOWN.match(reason):
        return f"{_join(path, found[1])}: Extra inputs are not permitted"
    if found := _MISSING.match(reason):
        return f"{_join(path, found[1])}: Field required"
    if (found := _TAG.match(reason)) and path.endswith(".type"):
        return (
            f"{path.removesuffix('.type')}: Input tag '{found[1]}' found using 'type' "
            "does not match any of the expected tags"
        )
    if found := re.match(r"Expected `([^`]*)`", reason):
        wanted = found[1].split(" | ", maxsplit=1)[0]
        return f"{path}: Input should be {_KINDS.get(wanted, wanted)}"
    return f"{path}: {reason}" if path else reason


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
