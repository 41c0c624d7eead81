"""Rules about tools: how they are defined, and that calls and results pair."""

import re
from collections.abc import Iterator

import msgspec

from worker.loopback.body import NULL, InputSchema, Prompt, Tool, ToolResult, ToolUse

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_USED_NAME = re.compile(r"[a-zA-Z0-9_-]{1,200}")

_schema = msgspec.json.Decoder(InputSchema)


def definitions(prompt: Prompt) -> Iterator[str]:
    """Names fit and are unique, schemas are objects, and calls have tools."""
    names = [tool.name for tool in prompt.tools]
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."
    for i, tool in enumerate(prompt.tools):
        if tool.type == "custom":
            yield from _definition(f"tools.{i}.custom", tool)
    uses_tools = any(
        isinstance(block, ToolUse | ToolResult)
        for message in prompt.messages
        for block in message.blocks
    )
    if uses_tools and not names:
        yield (
            "Requests which include `tool_use` or `tool_result` blocks must define "
            "tools."
        )
    choice = prompt.tool_choice
    if choice is not None and not names:
        yield "tool_choice: may only be specified while providing tools"
    if choice is not None and choice.type == "tool" and choice.name not in names:
        yield f"tool_choice: Tool '{choice.name}' not found in provided tools"


def _definition(path: str, tool: Tool) -> Iterator[str]:
    if not _TOOL_NAME.fullmatch(tool.name):
        yield f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if tool.input_schema == NULL:
        yield f"{path}.input_schema: Field required"
        return
    try:
        _schema.decode(tool.input_schema)
    except msgspec.ValidationError as error:
        missing = "missing" in str(error)
        reason = "Field required" if missing else "Input should be 'object'"
        yield f"{path}.input_schema.type: {reason}"


def calls(prompt: Prompt) -> Iterator[str]:
    """Ids and names fit; no id is used twice; each call is answered at once.

    At once: by a result at the head of the very next message. The API merges
    neighbours of one role before it looks, which this does not; and it takes
    an id again in a later turn, which servers that speak its language refuse.
    """
    seen: set[str] = set()
    for i, message in enumerate(prompt.messages):
        uses = [b for b in message.blocks if isinstance(b, ToolUse)]
        for j, block in enumerate(message.blocks):
            if isinstance(block, ToolUse):
                yield from _call(f"messages.{i}.content.{j}.tool_use", block)
                if block.id in seen:
                    yield "messages: `tool_use` ids must be unique"
                seen.add(block.id)
        answered = _answered_at_head(prompt, i + 1)
        open_calls = [use.id for use in uses if use.id not in answered]
        if open_calls:
            yield (
                f"messages.{i}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(open_calls)}. Each `tool_use` block "
                "must have a corresponding `tool_result` block in the next message."
            )


def _call(path: str, block: ToolUse) -> Iterator[str]:
    if not _ID.fullmatch(block.id):
        yield f"{path}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not _USED_NAME.fullmatch(block.name):
        yield f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'"


def _answered_at_head(prompt: Prompt, at: int) -> set[str]:
    found: set[str] = set()
    for block in prompt.messages[at].blocks if at < len(prompt.messages) else ():
        if not isinstance(block, ToolResult):
            break
        found.add(block.tool_use_id)
    return found


def results(prompt: Prompt) -> Iterator[str]:
    """Each result answers a call of the message before it, and each only once."""
    called: set[str] = set()
    for i, message in enumerate(prompt.messages):
        answered: set[str] = set()
        for j, block in enumerate(message.blocks):
            if not isinstance(block, ToolResult):
                continue
            path, id_ = f"messages.{i}.content.{j}", block.tool_use_id
            if id_ not in called:
                yield (
                    f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{id_}. Each `tool_result` block must have a corresponding "
                    "`tool_use` block in the previous message."
                )
            if id_ in answered:
                yield (
                    f"{path}: each tool_use must have a single result. Found multiple "
                    f"`tool_result` blocks with id: {id_}"
                )
            answered.add(id_)
        called = {b.id for b in message.blocks if isinstance(b, ToolUse)}
