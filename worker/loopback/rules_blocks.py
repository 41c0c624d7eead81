"""Rules about blocks: where they may stand, and that they hold something."""

from collections.abc import Iterator

from worker.loopback.body import (
    Block,
    CacheControl,
    Image,
    Message,
    Prompt,
    RedactedThinking,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)

# From the prompt caching page of the API.
MAX_MARKS = 4


def roles(prompt: Prompt) -> Iterator[str]:
    """Calls and thinking are the assistant's, results and pictures the user's."""
    for i, message in enumerate(prompt.messages):
        for block in message.blocks:
            if (kind := _of_assistant(block)) and message.role != "assistant":
                yield f"messages.{i}: `{kind}` blocks can only be in `assistant` messages"
            if (kind := _of_user(block)) and message.role != "user":
                yield f"messages.{i}: `{kind}` blocks can only be in `user` messages"


def _of_assistant(block: Block) -> str | None:
    if isinstance(block, ToolUse):
        return "tool_use"
    if isinstance(block, Thinking):
        return "thinking"
    return "redacted_thinking" if isinstance(block, RedactedThinking) else None


def _of_user(block: Block) -> str | None:
    if isinstance(block, ToolResult):
        return "tool_result"
    return "image" if isinstance(block, Image) else None


def contents(prompt: Prompt) -> Iterator[str]:
    """No message and no text block is empty or blank.

    An assistant's blank text passes beside other blocks: the API takes back
    what its models say. Text inside a tool result is held to the same as a
    user's, which is stricter than what is known of the API about blank ones.
    """
    for text in prompt.system_blocks:
        yield from _text("system", text)
    last = len(prompt.messages) - 1
    for i, message in enumerate(prompt.messages):
        if not message.blocks and not (i == last and message.role == "assistant"):
            yield (
                f"messages.{i}: all messages must have non-empty content except for "
                "the optional final assistant message"
            )
        for j, block in enumerate(message.blocks):
            if not _is_blank_of_many(message, block):
                yield from _block(f"messages.{i}.content.{j}", block)


def _is_blank_of_many(message: Message, block: Block) -> bool:
    return (
        message.role == "assistant"
        and len(message.blocks) > 1
        and isinstance(block, Text)
        and block.text.isspace()
    )


def _block(path: str, block: Block) -> Iterator[str]:
    if isinstance(block, Text):
        yield from _text("messages", block, f"{path}.text")
    if isinstance(block, ToolResult):
        if block.is_error and not block.content:
            yield f"{path}.tool_result: content cannot be empty if `is_error` is true"
        for part in block.content if isinstance(block.content, list) else ():
            if isinstance(part, Text):
                yield from _text("messages", part, f"{path}.tool_result.content")


def _text(place: str, block: Text, path: str = "") -> Iterator[str]:
    if not block.text and block.cache_control is not None:
        yield f"{path or place}: cache_control cannot be set for empty text blocks"
    if not block.text:
        yield f"{place}: text content blocks must be non-empty"
    elif not block.text.strip():
        yield f"{place}: text content blocks must contain non-whitespace text"


def cache_marks(prompt: Prompt) -> Iterator[str]:
    """At most four breakpoints, and the long ones first."""
    marks = list(_marks(prompt))
    if len(marks) > MAX_MARKS:
        yield (
            f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. "
            f"Found {len(marks)}."
        )
    short = False
    for path, mark in marks:
        if short and mark.ttl == "1h":
            yield (
                f"{path}.cache_control.ttl: a ttl='1h' cache_control block must not "
                "come after a ttl='5m' cache_control block. Note that blocks are "
                "processed in the following order: `tools`, `system`, `messages`."
            )
        short = short or mark.ttl == "5m"


def _marks(prompt: Prompt) -> Iterator[tuple[str, CacheControl]]:
    for i, tool in enumerate(prompt.tools):
        if tool.cache_control is not None:
            yield f"tools.{i}", tool.cache_control
    for i, block in enumerate(prompt.system_blocks):
        if block.cache_control is not None:
            yield f"system.{i}", block.cache_control
    for i, message in enumerate(prompt.messages):
        yield from _marks_in(f"messages.{i}", message)
    if prompt.cache_control is not None:
        yield "", prompt.cache_control


def _marks_in(path: str, message: Message) -> Iterator[tuple[str, CacheControl]]:
    for j, block in enumerate(message.blocks):
        if isinstance(block, ToolResult) and isinstance(block.content, list):
            for k, part in enumerate(block.content):
                if part.cache_control is not None:
                    yield f"{path}.content.{j}.content.{k}", part.cache_control
        if isinstance(block, Thinking | RedactedThinking):
            continue
        if block.cache_control is not None:
            yield f"{path}.content.{j}", block.cache_control
