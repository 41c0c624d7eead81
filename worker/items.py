"""The things a history is made of.

Everything the model sees is an item, and every item is in the session log
before it is sent. Text that came from the provider is kept byte for byte.
"""

from msgspec import Struct

from tools.base import Image


class Native(Struct, frozen=True):
    """A block of the provider's that stands for a text, byte for byte.

    Only *model* of *provider* can read it; *json* is the whole block.
    """

    provider: str
    model: str
    json: str


class SystemText(Struct, frozen=True, tag="system_text", omit_defaults=True):
    """Told to the model by the runtime: a summary, an auto-read file, a notice.

    *native* is sent in the text's place to who can read it, at the very beginning
    of the messages.
    """

    text: str
    native: Native | None = None


class UserText(Struct, frozen=True, tag="user_text", omit_defaults=True):
    """From the user; *synthetic* when the runtime wrote it in the user's place."""

    text: str
    images: tuple[Image, ...] = ()
    synthetic: bool = False


class AssistantText(Struct, frozen=True, tag="assistant_text", omit_defaults=True):
    """What the model said. *extra* is a JSON object of other fields of its block."""

    text: str
    response: str
    extra: str = ""


class Reasoning(Struct, frozen=True, tag="reasoning", omit_defaults=True):
    """A thinking block, byte for byte, with the model that made it.

    Either *text* with its *signature*, or *redacted* data alone.
    """

    text: str
    response: str
    model: str
    signature: str = ""
    redacted: str = ""
    extra: str = ""


class ToolCall(Struct, frozen=True, tag="tool_call", omit_defaults=True):
    """A call the model made; *arguments* is a JSON object as it came.

    *incomplete* says that the response ended inside the arguments: then
    *arguments* is "{}", and the call is answered but never run.
    """

    call_id: str
    name: str
    arguments: str
    response: str
    incomplete: bool = False
    extra: str = ""


class ToolResult(Struct, frozen=True, tag="tool_result", omit_defaults=True):
    """The answer to one call. The model sees *content*, or *summary* without it."""

    call_id: str
    summary: str
    content: str | None = None
    is_error: bool = False
    referenced_files: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()


class Opaque(Struct, frozen=True, tag="opaque", omit_defaults=True):
    """A block of the provider's that Pod does not know, as the JSON that came."""

    json: str
    response: str


Item = (
    SystemText | UserText | AssistantText | Reasoning | ToolCall | ToolResult | Opaque
)
FromModel = AssistantText | Reasoning | ToolCall | Opaque
"""The items a response consists of; they carry its id in *response*."""
