"""What the Messages API rejects, checked before a request is sent.

Written from the API's side: nothing here knows how wire.py makes a request.
Sources are the API's documentation and the texts of its 400 answers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from worker.api import Request
from worker.model import Model
from worker.validate_content import REASONING, Seen, Turn, content_problems, seen

_ASSISTANT_ONLY = {"tool_use", "server_tool_use", *REASONING}


def problems(request: Request, *, model: Model) -> list[str]:
    """Return what the API would reject *request* for; empty if nothing.

    Each says where (``messages.3.content.0``) and what.
    """
    turns: list[Turn] = [
        (message.role, [seen(block) for block in message.content])
        for message in request.messages
    ]
    return [
        *_roles(turns),
        *_system_messages(turns, model),
        *_ending(turns, request, model),
        *_pairs(turns),
        *_server_pairs(turns),
        *_reasoning(turns, request),
        *content_problems(request, turns, model),
    ]


def _roles(turns: Sequence[Turn]) -> Iterator[str]:
    if not turns:
        yield "messages: at least one message is required"
    elif turns[0][0] != "user":
        yield f"messages.0: the first message is of role {turns[0][0]}, not user"
    speakers = [(at, role) for at, (role, _) in enumerate(turns) if role != "system"]
    for (_, before), (at, role) in pairwise(speakers):
        if before == role:
            yield f"messages.{at}: roles must alternate, but {role} follows {role}"
    for at, (role, blocks) in enumerate(turns):
        if not blocks:
            yield f"messages.{at}: a message must have content"
        for number, block in enumerate(blocks):
            where = f"messages.{at}.content.{number}"
            if not block.type:
                yield f"{where}: no JSON object with a type"
            elif role == "system" and block.type != "text":
                yield f"{where}: {block.type} in a system message, which is text only"
            elif role == "assistant" and block.type in ("tool_result", "image"):
                yield f"{where}: {block.type} in an assistant message"
            elif role == "user" and block.type in _ASSISTANT_ONLY:
                yield f"{where}: {block.type} in a user message"


def _system_messages(turns: Sequence[Turn], model: Model) -> Iterator[str]:
    for at, (role, _) in enumerate(turns):
        if role != "system":
            continue
        if not model.system_messages:
            yield f"messages.{at}: {model.id} takes no system messages"
        if at and turns[at - 1][0] == "system":
            yield f"messages.{at}: two system messages in a row"
        elif at and turns[at - 1][0] == "assistant" and not _is_paused(turns[at - 1]):
            yield f"messages.{at}: a system message must follow a user message"
        if at + 1 < len(turns) and turns[at + 1][0] == "user":
            yield f"messages.{at}: only the assistant may follow a system message"


def _is_paused(turn: Turn) -> bool:
    """Whether a message ends in a server tool, so that the model may go on."""
    role, blocks = turn
    if role != "assistant" or not blocks:
        return False
    return blocks[-1].type.endswith(("_tool_use", "_tool_result"))


def _ending(turns: Sequence[Turn], request: Request, model: Model) -> Iterator[str]:
    if not turns or turns[-1][0] != "assistant" or not turns[-1][1]:
        return
    at, last = len(turns) - 1, turns[-1][1][-1]
    if last.type == "text" and last.text != last.text.rstrip():
        yield f"messages.{at}: final assistant text ends with white space"
    if _is_paused(turns[-1]):
        return
    if not model.prefill:
        yield f"messages.{at}: {model.id} takes no assistant message at the end"
    elif request.thinking not in (None, "off"):
        yield f"messages.{at}: no assistant message at the end while thinking is on"


def _pairs(turns: Sequence[Turn]) -> Iterator[str]:
    ids = Counter(
        block.id for _, blocks in turns for block in blocks if block.type == "tool_use"
    )
    for call_id, count in ids.items():
        if count > 1:
            yield f"messages: tool_use ids must be unique, but {call_id!r} is not"
    for at, (role, blocks) in enumerate(turns):
        calls = [block.id for block in blocks if block.type == "tool_use"]
        following = turns[at + 1][1] if at + 1 < len(turns) else ()
        answers = _answers(following)
        for call_id in calls:
            if call_id not in answers:
                yield f"messages.{at}: tool_use {call_id!r} has no tool_result next"
        if role == "user":
            yield from _results(at, blocks, turns[at - 1][1] if at else ())


def _answers(blocks: Sequence[Seen]) -> list[str]:
    return [block.tool_use_id for block in blocks if block.type == "tool_result"]


def _results(at: int, blocks: Sequence[Seen], before: Sequence[Seen]) -> Iterator[str]:
    calls = {block.id for block in before if block.type == "tool_use"}
    for result, count in Counter(_answers(blocks)).items():
        if result not in calls:
            yield f"messages.{at}: tool_result for {result!r}, not called just before"
        elif count > 1:
            yield f"messages.{at}: {count} tool_result blocks for {result!r}"
    kinds = [block.type == "tool_result" for block in blocks]
    if kinds != sorted(kinds, reverse=True):
        yield f"messages.{at}: tool_result blocks must come before anything else"


def _server_pairs(turns: Sequence[Turn]) -> Iterator[str]:
    called: set[str] = set()
    for at, (role, blocks) in enumerate(turns):
        if role != "assistant":
            continue
        for number, block in enumerate(blocks):
            if block.type.endswith("_tool_use"):
                called.add(block.id)
            elif block.tool_use_id and block.tool_use_id not in called:
                where = f"messages.{at}.content.{number}"
                yield f"{where}: {block.type} without its server_tool_use"


def _reasoning(turns: Sequence[Turn], request: Request) -> Iterator[str]:
    for at, (_, blocks) in enumerate(turns):
        kinds = [block.type for block in blocks]
        if kinds and kinds[-1] in REASONING:
            yield f"messages.{at}: the final block cannot be {kinds[-1]}"
        for number, block in enumerate(blocks):
            if block.type in REASONING and not block.text:
                yield f"messages.{at}.content.{number}: {block.type} without signature"
    loop = _open_loop(turns)
    if not loop:
        return
    at = loop[0]
    if isinstance(request.thinking, int) and turns[at][1][0].type not in REASONING:
        yield (
            f"messages.{at}.content.0: expected thinking, found {turns[at][1][0].type}:"
            " with a thinking budget a tool loop starts with its reasoning"
        )
    if request.thinking == "off":
        for at in loop:
            if any(block.type in REASONING for block in turns[at][1]):
                yield f"messages.{at}: thinking in the last turn while thinking is off"


def _open_loop(turns: Sequence[Turn]) -> list[int]:
    """Return the assistant messages of the tool loop that the request goes on with."""
    loop: list[int] = []
    for at in reversed(range(len(turns))):
        role, blocks = turns[at]
        if role == "assistant" and blocks:
            loop.append(at)
        elif role == "user" and not _answers(blocks):
            break
    return loop[::-1]
