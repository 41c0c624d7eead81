"""The requests of an agent's log, whichever agent it was."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from tools.base import Image
from worker.items import AssistantText, FromModel, Item, Reasoning, ToolCall

T = TypeVar("T", bound=Struct)

Break = Literal["first", "compaction", "branch", "aborted", "damaged line"]
"""Why a request cannot be compared with the one before it in its log."""


class Logged(Struct, frozen=True):
    """One request of a log, in tokens as the provider counted them.

    *new* is what came after the last answer, *prompt* the whole of what was
    sent, *kept* what of *output* stays in the context.
    """

    id: str
    model: str
    new: tuple[Item, ...]
    answer: tuple[FromModel, ...]
    prompt: int
    output: int
    broken: Break | None = None

    @property
    def context(self) -> int:
        return self.prompt + self.output


class Gatherer:
    """Puts the lines of one log together to requests."""

    def __init__(self) -> None:
        self.done: list[Logged] = []
        self.new: list[Item] = []
        self._broken: Break | None = "first"

    def broke(self, why: Break) -> None:
        self._broken = self._broken or why

    def answered(
        self,
        id: str,
        model: str,
        answer: list[FromModel],
        *,
        prompt: int,
        output: int,
    ) -> None:
        new = tuple(self.new)
        self.new = []
        self.done.append(
            Logged(id, model, new, tuple(answer), prompt, output, self._broken)
        )
        self._broken = None


class Source(Struct, frozen=True):
    """Where the bytes of an image block of the Anthropic API are."""

    media_type: str = ""
    data: str = ""


class Block(Struct, frozen=True):
    """A block of a message, with the names of all the logs' formats."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    thinking_signature: str = msgspec.field(default="", name="thinkingSignature")
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    arguments: Raw = Raw(b"{}")
    content: Raw = Raw(b"null")
    source: Source = Source()
    data: str = ""
    mime_type: str = msgspec.field(default="", name="mimeType")


Content = str | list[Block] | None


def read_lines(path: Path, kind: type[T]) -> Iterator[T | None]:
    """Read a file of JSON lines; None stands for a line that is damaged."""
    decoder = msgspec.json.Decoder(kind)
    for line in path.read_bytes().split(b"\n"):
        if line.strip():
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                yield None


def blocks_of(content: Content) -> list[Block]:
    return [Block("text", content)] if isinstance(content, str) else content or []


def text_of(content: Raw) -> tuple[str, tuple[Image, ...]]:
    """Return text and images of what is in a tool result.

    Whatever is no string and no list of blocks is taken as the JSON it is.
    """
    try:
        blocks = blocks_of(msgspec.json.decode(content, type=Content))
    except msgspec.DecodeError:
        return bytes(content).decode(), ()
    if any(block.type not in {"text", "image"} for block in blocks):
        return bytes(content).decode(), ()
    images = tuple(image_of(block) for block in blocks if block.type == "image")
    return "".join(block.text for block in blocks), images


def image_of(block: Block) -> Image:
    return Image(
        block.mime_type or block.source.media_type, block.data or block.source.data
    )


def answer_of(blocks: list[Block], id: str, model: str) -> list[FromModel]:
    """Turn the blocks of an answer into items."""
    items: list[FromModel] = []
    for block in blocks:
        match block.type:
            case "thinking":
                signature = block.signature or block.thinking_signature
                items.append(Reasoning(block.thinking, id, model, signature))
            case "tool_use" | "toolCall":
                raw = block.input if block.type == "tool_use" else block.arguments
                items.append(ToolCall(block.id, block.name, bytes(raw).decode(), id))
            case _:
                items.append(AssistantText(block.text, id))
    return items
