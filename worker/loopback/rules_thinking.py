"""Rules about thinking: its budget, where it must stand, and its signatures."""

from collections.abc import Iterator

from worker.loopback import signing
from worker.loopback.body import (
    Adaptive,
    Body,
    Enabled,
    Message,
    Prompt,
    RedactedThinking,
    Thinking,
    ToolResult,
)

_DOCS = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
# The least budget, from the same page.
MIN_BUDGET = 1024


def parameters(body: Body) -> Iterator[str]:
    """The budget is large enough and below max_tokens; nothing contradicts it."""
    thinking = body.thinking
    if isinstance(thinking, Enabled):
        if thinking.budget_tokens < MIN_BUDGET:
            yield (
                "thinking.enabled.budget_tokens: Input should be greater than or equal "
                f"to {MIN_BUDGET}"
            )
        if thinking.budget_tokens >= body.max_tokens:
            yield (
                "`max_tokens` must be greater than `thinking.budget_tokens`. Please "
                f"consult our documentation at {_DOCS}"
                "#max-tokens-and-context-window-size"
            )
    if not isinstance(thinking, Enabled | Adaptive):
        return
    if body.temperature is not None and body.temperature != 1:
        yield (
            "`temperature` may only be set to 1 when thinking is enabled. Please "
            f"consult our documentation at {_DOCS}"
            "#important-considerations-when-using-extended-thinking"
        )
    if body.tool_choice is not None and body.tool_choice.type in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use."


def places(prompt: Prompt) -> Iterator[str]:
    """A message does not end in thinking; with a budget, a loop starts with it.

    Adaptive thinking does not ask for the second.
    """
    for i, message in enumerate(prompt.messages):
        if message.blocks and _is_thinking(message, -1):
            kind = _kind(message, -1)
            yield (
                f"messages.{i}: The final block in an assistant message cannot be "
                f"`{kind}`."
            )
    if not isinstance(prompt.thinking, Enabled):
        return
    at = _loop_start(prompt.messages)
    if at is not None and not _is_thinking(prompt.messages[at], 0):
        yield (
            f"messages.{at}.content.0.type: Expected `thinking` or "
            f"`redacted_thinking`, but found `{_kind(prompt.messages[at], 0)}`. When "
            "`thinking` is enabled, a final `assistant` message must start with a "
            "thinking block (preceeding the lastmost set of `tool_use` and "
            "`tool_result` blocks). We recommend you include thinking blocks from "
            "previous turns. To avoid this requirement, disable `thinking`. Please "
            f"consult our documentation at {_DOCS}"
        )


def _loop_start(messages: list[Message]) -> int | None:
    """Find the assistant message that opened the loop the request is in."""
    start: int | None = None
    for i in range(len(messages) - 1, -1, -1):
        message = messages[i]
        if message.role == "assistant" and message.blocks:
            start = i
        elif message.role == "user" and not _answers(message):
            break
    return start


def _answers(message: Message) -> bool:
    return any(isinstance(block, ToolResult) for block in message.blocks)


def _is_thinking(message: Message, at: int) -> bool:
    return isinstance(message.blocks[at], Thinking | RedactedThinking)


def _kind(message: Message, at: int) -> str:
    tag = message.blocks[at].__struct_config__.tag
    return str(tag)


def signatures(prompt: Prompt, key: bytes) -> Iterator[str]:
    """Every thinking block is as this server made it, for this model.

    The API lets some blocks of earlier turns pass; this does not.
    """
    last = max(
        (i for i, m in enumerate(prompt.messages) if m.role == "assistant"), default=-1
    )
    for i, message in enumerate(prompt.messages):
        for j, block in enumerate(message.blocks):
            path = f"messages.{i}.content.{j}"
            if isinstance(block, RedactedThinking):
                verdict = signing.check_sealed(key, prompt.model, block.data)
            elif isinstance(block, Thinking):
                verdict = signing.check(
                    key, prompt.model, block.thinking, block.signature
                )
            else:
                continue
            if verdict == "changed" and i == last:
                yield (
                    f"{path}: `thinking` or `redacted_thinking` blocks in the latest "
                    "assistant message cannot be modified. These blocks must remain "
                    "as they were in the original response."
                )
            elif verdict != "valid":
                field = "data" if isinstance(block, RedactedThinking) else "signature"
                yield f"{path}: Invalid `{field}` in `{_kind(message, j)}` block"
