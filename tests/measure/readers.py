"""Readers of the logs that tell each request's usage.

Each returns the requests of a log, none of a log that is not its own.
"""

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from tests.measure.logged import (
    Block,
    Content,
    Gatherer,
    Logged,
    answer_of,
    blocks_of,
    image_of,
    read_lines,
    text_of,
)
from worker.items import (
    AssistantText,
    FromModel,
    Item,
    Reasoning,
    ToolCall,
    ToolResult,
    UserText,
)


def read_log(path: Path) -> list[Logged]:
    """Return the requests of a log; none where it is of no kind known here."""
    if path.suffix == ".json":
        return read_cline(path)
    for read in (read_claude_code, read_pi, read_codex):
        if found := read(path):
            return found
    return []


def user_items(content: Content) -> list[Item]:
    """Turn the blocks of a user message into items."""
    items: list[Item] = []
    for block in blocks_of(content):
        if block.type == "tool_result":
            text, images = text_of(block.content)
            items.append(ToolResult("", "", content=text, images=images))
        elif block.type == "image":
            items.append(UserText("", images=(image_of(block),)))
        else:
            items.append(UserText(block.text))
    return items


# Claude Code: a line per block, with the message's usage on each


class ClaudeUsage(Struct, frozen=True):
    input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0

    @property
    def prompt(self) -> int:
        cached = self.cache_read_input_tokens + self.cache_creation_input_tokens
        return self.input_tokens + cached


class ClaudeMessage(Struct, frozen=True):
    content: Content = None
    id: str = ""
    model: str = ""
    usage: ClaudeUsage | None = None


class ClaudeLine(Struct, frozen=True):
    type: str
    message: ClaudeMessage | None = None
    subtype: str | None = None
    uuid: str | None = None
    parent: str | None = msgspec.field(default=None, name="parentUuid")
    is_sidechain: bool = msgspec.field(default=False, name="isSidechain")
    is_summary: bool = msgspec.field(default=False, name="isCompactSummary")


class ClaudeCode:
    """Follows one log, line by line."""

    def __init__(self) -> None:
        self.log = Gatherer()
        self._parents: dict[str, str | None] = {}
        self._message: list[ClaudeLine] = []
        """The lines of the answer that is being read."""
        self._before: frozenset[str | None] = frozenset()
        """The ids of the lines of the answer before it."""
        self._later: list[Item] = []
        """What came after the first line of it: new in the request after it."""

    def take(self, line: ClaudeLine | None) -> None:
        if line is None:
            self.log.broke("damaged line")
            return
        if line.uuid is not None:
            self._parents[line.uuid] = line.parent
        if line.is_sidechain:
            return
        if line.is_summary or (
            line.type == "system" and "compact" in str(line.subtype)
        ):
            self.end()
            self.log.broke("compaction")
        message = line.message
        if line.type == "user" and message is not None:
            self._later += user_items(message.content)
        if line.type == "assistant" and message is not None and message.usage:
            if message.model == "<synthetic>":
                return
            if self._message and self._id(self._message[0]) != message.id:
                self.end()
            if not self._message:
                self.log.new += self._later
                self._later = []
                if not self._follows(line):
                    self.log.broke("branch")
            self._message.append(line)

    def end(self) -> None:
        """The answer is whole: its request can be told."""
        messages = [line.message for line in self._message if line.message is not None]
        usages = [message.usage for message in messages if message.usage is not None]
        if not usages:
            return
        blocks = [block for m in messages for block in blocks_of(m.content)]
        first = messages[0]
        self.log.answered(
            first.id,
            first.model,
            answer_of(blocks, first.id, first.model),
            prompt=usages[-1].prompt,
            output=max(usage.output_tokens for usage in usages),
        )
        self._before = frozenset(line.uuid for line in self._message)
        self._message = []

    def _follows(self, line: ClaudeLine) -> bool:
        """Whether the answer before is on the way from *line* to the root."""
        at, seen = line.parent, set[str]()
        while at is not None and at not in seen:
            if at in self._before:
                return True
            seen.add(at)
            at = self._parents.get(at)
        return False

    def _id(self, line: ClaudeLine) -> str:
        return "" if line.message is None else line.message.id


def read_claude_code(path: Path) -> list[Logged]:
    reader = ClaudeCode()
    for line in read_lines(path, ClaudeLine):
        reader.take(line)
    reader.end()
    return reader.log.done


# pi: a line per message


class PiUsage(Struct, frozen=True):
    input: int = 0
    output: int = 0
    cache_read: int = msgspec.field(default=0, name="cacheRead")
    cache_write: int = msgspec.field(default=0, name="cacheWrite")


class PiMessage(Struct, frozen=True):
    role: Literal["user", "assistant", "toolResult", "bashExecution"]
    content: Content = None
    model: str = ""
    usage: PiUsage = PiUsage()
    stop: str = msgspec.field(default="", name="stopReason")
    timestamp: int = 0
    command: str = ""
    output: str = ""


class PiLine(Struct, frozen=True):
    type: str
    message: PiMessage | None = None


def read_pi(path: Path) -> list[Logged]:
    log = Gatherer()
    for line in read_lines(path, PiLine):
        if line is None:
            log.broke("damaged line")
        elif line.type == "compaction":
            log.broke("compaction")
        elif line.type == "message" and line.message is not None:
            _take_pi(log, line.message)
    return log.done


def _take_pi(log: Gatherer, message: PiMessage) -> None:
    blocks = blocks_of(message.content)
    match message.role:
        case "user":
            log.new += user_items(message.content)
        case "bashExecution":
            log.new.append(UserText(f"Ran `{message.command}`\n{message.output}"))
        case "toolResult":
            text = "".join(block.text for block in blocks)
            images = tuple(image_of(block) for block in blocks if block.type == "image")
            log.new.append(ToolResult("", "", content=text, images=images))
        case "assistant":
            usage = message.usage
            prompt = usage.input + usage.cache_read + usage.cache_write
            if message.stop in {"aborted", "error"} or not prompt:
                log.broke("aborted")
                return
            id = f"pi {message.timestamp} {prompt}"
            answer = answer_of(blocks, id, message.model)
            log.answered(id, message.model, answer, prompt=prompt, output=usage.output)


# Codex: the usage of a response is told before its items


class CodexUsage(Struct, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class CodexInfo(Struct, frozen=True):
    last_token_usage: CodexUsage | None = None


class CodexPayload(Struct, frozen=True):
    type: str = ""
    role: str = ""
    model: str = ""
    content: Content = None
    name: str = ""
    arguments: str = ""
    call_id: str = ""
    encrypted_content: str | None = None
    output: Raw = Raw(b"null")
    info: CodexInfo | None = None


class CodexLine(Struct, frozen=True):
    type: str
    payload: CodexPayload = CodexPayload()
    timestamp: str = ""


def read_codex(path: Path) -> list[Logged]:
    log = Gatherer()
    model = ""
    told: CodexUsage | None = None
    at = ""
    answer: list[FromModel] = []
    later: list[Item] = []

    def end() -> None:
        nonlocal told, answer, later
        if told is not None:
            log.answered(
                f"codex {at}",
                model,
                answer,
                prompt=told.input_tokens,
                output=told.output_tokens,
            )
        log.new += later
        told, answer, later = None, [], []

    for line in read_lines(path, CodexLine):
        if line is None:
            log.broke("damaged line")
            continue
        payload = line.payload
        match (line.type, payload.type):
            case ("turn_context", _):
                model = payload.model
            case ("compacted", _):
                end()
                log.broke("compaction")
            case ("event_msg", "turn_aborted"):
                end()
                log.broke("aborted")
            case ("event_msg", "token_count"):
                usage = None if payload.info is None else payload.info.last_token_usage
                if usage is not None and usage != told:
                    end()
                    told, at = usage, line.timestamp
            case ("response_item", "message") if payload.role == "assistant":
                text = "".join(b.text for b in blocks_of(payload.content))
                answer.append(AssistantText(text, at))
            case ("response_item", "message"):
                later += user_items(payload.content)
            case ("response_item", "reasoning"):
                sealed = payload.encrypted_content or ""
                answer.append(Reasoning("", at, model, redacted=sealed))
            case ("response_item", "function_call"):
                call = ToolCall(payload.call_id, payload.name, payload.arguments, at)
                answer.append(call)
            case ("response_item", "function_call_output"):
                text, _ = text_of(payload.output)
                later.append(ToolResult("", "", content=text))
            case _:
                pass
    end()
    return log.done


# Cline: one document


class ClineMetrics(Struct, frozen=True):
    """*inputTokens* is the whole prompt, cached tokens included."""

    input: int = msgspec.field(default=0, name="inputTokens")
    output: int = msgspec.field(default=0, name="outputTokens")


class ClineModel(Struct, frozen=True):
    id: str = ""


class ClineMessage(Struct, frozen=True):
    role: str
    id: str = ""
    content: Content = None
    metrics: ClineMetrics | None = None
    model: ClineModel = msgspec.field(default=ClineModel(), name="modelInfo")


class Cline(Struct, frozen=True):
    messages: list[ClineMessage]


def read_cline(path: Path) -> list[Logged]:
    try:
        session = msgspec.json.decode(path.read_bytes(), type=Cline)
    except msgspec.DecodeError:
        return []
    log = Gatherer()
    for message in session.messages:
        if message.role != "assistant":
            log.new += user_items(message.content)
        elif message.metrics is None:
            log.broke("aborted")
        else:
            blocks: list[Block] = blocks_of(message.content)
            log.answered(
                message.id,
                message.model.id,
                answer_of(blocks, message.id, message.model.id),
                prompt=message.metrics.input,
                output=message.metrics.output,
            )
    return log.done
