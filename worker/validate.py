"""What the Messages API rejects, checked before a request is sent.

Written from the API's side: nothing here knows how wire.py makes a request.
Sources are the API's documentation and the texts of its 400 answers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import is_

from msgspec import Struct, field
from msgspec.structs import replace

from worker.api import Message, Request, ToolResult, ToolUse
from worker.model import Model
from worker.validate_content import (
    REASONING,
    Seen,
    Turn,
    images_of,
    is_marked,
    mark_problems,
    media_problems,
    message_problems,
    request_problems,
    seen,
)

_ASSISTANT_ONLY = {"tool_use", "server_tool_use", *REASONING}
_OPEN_END = 2
"""Messages at the end of a request that more history may still change."""


class Checked:
    """What was found right in one request, and need not be looked at in the next.

    Serves the requests of one history. Messages count as known only where they
    are the very objects of the last request, from the first one on.
    """

    def __init__(self) -> None:
        self._messages: Sequence[Message] = ()
        self._facts = _Facts()
        self._model: Model | None = None

    def start(self, messages: Sequence[Message], model: Model) -> "_Facts":
        """Return the facts about those of *messages* that are known to be right."""
        is_known = (
            model == self._model
            and len(self._messages) <= len(messages)
            and all(map(is_, self._messages, messages))
        )
        return self._facts.copy() if is_known else _Facts()

    def keep(self, messages: Sequence[Message], facts: "_Facts", model: Model) -> None:
        """Remember that the messages which *facts* are about are right."""
        self._messages = messages[: facts.count]
        self._facts = facts
        self._model = model

    def forget(self) -> None:
        """Know nothing any more."""
        self._messages, self._facts, self._model = (), _Facts(), None


def problems(
    request: Request, *, model: Model, checked: Checked | None = None
) -> list[str]:
    """Return what the API would reject *request* for; empty if nothing.

    Each says where (``messages.3.content.0``) and what. With *checked*, what was
    right in the request before is not looked at again, and the answer the same.
    """
    checked = checked or Checked()
    messages = request.messages
    facts = checked.start(messages, model)
    settled, settled_facts = _settled(messages, facts.count), facts.copy()
    found = list(request_problems(request, model))
    turns: list[Turn] = []
    for message in messages[facts.count :]:
        if facts.count == settled:
            settled_facts = facts.copy()
        turn = (message.role, [seen(block) for block in message.content])
        found += _order_problems(facts, turn, model)
        found += message_problems(facts.count, message, turn)
        facts.take(message, turn)
        turns.append(turn)
    found += mark_problems(request.system, turns, len(messages) - len(turns))
    found += _ending_problems(facts, request, model)
    if found:
        checked.forget()
    else:
        checked.keep(messages, settled_facts, model)
    return found


def _settled(messages: Sequence[Message], known: int) -> int:
    """Count the messages that the next request has again, the same objects.

    The first *known* are. A mark moves on, and leaves another message behind.
    """
    most = len(messages) - _OPEN_END
    return next((at for at in range(known, most) if is_marked(messages[at])), most)


class _Facts(Struct):
    """What the rules about a message ask of those before it."""

    count: int = 0
    before: Turn = ("", ())
    """The message just before."""
    speaker: str = ""
    """Who spoke last; system messages do not count."""
    call_ids: set[str] = field(default_factory=set)
    server_call_ids: set[str] = field(default_factory=set)
    has_tool_blocks: bool = False
    images: int = 0
    image_bytes: int = 0
    loop: int | None = None
    """Where the tool loop that is open begins: with which assistant message."""
    loop_opening: str = ""
    """The type of that message's first block."""
    loop_reasoning: int | None = None
    """The first message of that loop with reasoning in it."""

    def copy(self) -> "_Facts":
        return replace(
            self,
            call_ids=self.call_ids.copy(),
            server_call_ids=self.server_call_ids.copy(),
        )

    def take(self, message: Message, turn: Turn) -> None:
        """Go on to the message behind this one."""
        role, blocks = turn
        self._follow_loop(role, blocks)
        self.call_ids.update(_calls(blocks))
        if role == "assistant":
            self.server_call_ids.update(
                block.id for block in blocks if block.type.endswith("_tool_use")
            )
        for block in message.content:
            if isinstance(block, ToolUse | ToolResult):
                self.has_tool_blocks = True
            for image in images_of(block):
                self.images += 1
                self.image_bytes += len(image.source.data)
        if role != "system":
            self.speaker = role
        self.before = turn
        self.count += 1

    def _follow_loop(self, role: str, blocks: Sequence[Seen]) -> None:
        if role == "user" and not _answers(blocks):
            self.loop, self.loop_opening, self.loop_reasoning = None, "", None
        elif role == "assistant" and blocks:
            if self.loop is None:
                self.loop, self.loop_opening = self.count, blocks[0].type
            if self.loop_reasoning is None and _has_reasoning(blocks):
                self.loop_reasoning = self.count


def _order_problems(facts: _Facts, turn: Turn, model: Model) -> Iterator[str]:
    """Give what is wrong with a message where it stands, behind *facts*."""
    yield from _role(facts, turn)
    yield from _system_message(facts, turn, model)
    yield from _pairs(facts, turn)
    yield from _server_pairs(facts, turn)
    yield from _reasoning(facts.count, turn)


def _role(facts: _Facts, turn: Turn) -> Iterator[str]:
    at, (role, blocks) = facts.count, turn
    is_compacted = bool(blocks) and blocks[0].type == "compaction"
    if at == 0 and role != "user" and not (role == "assistant" and is_compacted):
        yield f"messages.0: the first message is of role {role}, not user"
    if role == facts.speaker:
        yield f"messages.{at}: roles must alternate, but {role} follows {role}"
    if not blocks:
        yield f"messages.{at}: a message must have content"
    for number, block in enumerate(blocks):
        where = f"messages.{at}.content.{number}"
        if block.type == "compaction" and (at or number or role == "system"):
            yield f"{where}: a compaction block anywhere but at the very beginning"
        if not block.type:
            yield f"{where}: no JSON object with a type"
        elif role == "system" and block.type != "text":
            yield f"{where}: {block.type} in a system message, which is text only"
        elif role == "assistant" and block.type in ("tool_result", "image"):
            yield f"{where}: {block.type} in an assistant message"
        elif role == "user" and block.type in _ASSISTANT_ONLY:
            yield f"{where}: {block.type} in a user message"


def _system_message(facts: _Facts, turn: Turn, model: Model) -> Iterator[str]:
    at, (role, _), (before, _) = facts.count, turn, facts.before
    if role == "user" and before == "system":
        yield f"messages.{at - 1}: only the assistant may follow a system message"
    if role != "system":
        return
    if not model.system_messages:
        yield f"messages.{at}: {model.id} takes no system messages"
    if before == "system":
        yield f"messages.{at}: two system messages in a row"
    elif before == "assistant" and not _is_paused(facts.before):
        yield f"messages.{at}: a system message must follow a user message"


def _is_paused(turn: Turn) -> bool:
    """Whether a message ends in a server tool, so that the model may go on."""
    role, blocks = turn
    if role != "assistant" or not blocks:
        return False
    return blocks[-1].type.endswith(("_tool_use", "_tool_result"))


def _pairs(facts: _Facts, turn: Turn) -> Iterator[str]:
    at, (role, blocks) = facts.count, turn
    calls = Counter(_calls(blocks))
    for call_id, count in calls.items():
        if count > 1 or call_id in facts.call_ids:
            yield f"messages: tool_use ids must be unique, but {call_id!r} is not"
    yield from _unanswered(at - 1, facts.before, _answers(blocks))
    if role == "user":
        yield from _results(at, blocks, facts.before)


def _calls(blocks: Sequence[Seen]) -> list[str]:
    return [block.id for block in blocks if block.type == "tool_use"]


def _answers(blocks: Sequence[Seen]) -> list[str]:
    return [block.tool_use_id for block in blocks if block.type == "tool_result"]


def _unanswered(at: int, turn: Turn, answers: Sequence[str]) -> Iterator[str]:
    for call_id in _calls(turn[1]):
        if call_id not in answers:
            yield f"messages.{at}: tool_use {call_id!r} has no tool_result next"


def _results(at: int, blocks: Sequence[Seen], before: Turn) -> Iterator[str]:
    calls = _calls(before[1])
    for result, count in Counter(_answers(blocks)).items():
        if result not in calls:
            yield f"messages.{at}: tool_result for {result!r}, not called just before"
        elif count > 1:
            yield f"messages.{at}: {count} tool_result blocks for {result!r}"
    kinds = [block.type == "tool_result" for block in blocks]
    if kinds != sorted(kinds, reverse=True):
        yield f"messages.{at}: tool_result blocks must come before anything else"


def _server_pairs(facts: _Facts, turn: Turn) -> Iterator[str]:
    role, blocks = turn
    if role != "assistant":
        return
    called: set[str] = set()
    for number, block in enumerate(blocks):
        id = block.tool_use_id
        if block.type.endswith("_tool_use"):
            called.add(block.id)
        elif id and id not in called and id not in facts.server_call_ids:
            where = f"messages.{facts.count}.content.{number}"
            yield f"{where}: {block.type} without its server_tool_use"


def _reasoning(at: int, turn: Turn) -> Iterator[str]:
    _, blocks = turn
    if blocks and blocks[-1].type in REASONING:
        yield f"messages.{at}: the final block cannot be {blocks[-1].type}"
    for number, block in enumerate(blocks):
        if block.type in REASONING and not block.text:
            yield f"messages.{at}.content.{number}: {block.type} without signature"


def _has_reasoning(blocks: Sequence[Seen]) -> bool:
    return any(block.type in REASONING for block in blocks)


def _ending_problems(facts: _Facts, request: Request, model: Model) -> Iterator[str]:
    """Give what is wrong with the messages as a whole."""
    if not facts.count:
        yield "messages: at least one message is required"
    yield from _unanswered(facts.count - 1, facts.before, ())
    yield from _last_word(facts, request, model)
    yield from _open_loop(facts, request)
    yield from media_problems(facts.images, facts.image_bytes, model)
    if facts.has_tool_blocks and not request.tools:
        yield "tools: must be defined where messages have tool_use or tool_result"


def _last_word(facts: _Facts, request: Request, model: Model) -> Iterator[str]:
    at, (role, blocks) = facts.count - 1, facts.before
    if role != "assistant" or not blocks:
        return
    if blocks[-1].type == "text" and blocks[-1].text != blocks[-1].text.rstrip():
        yield f"messages.{at}: final assistant text ends with white space"
    if _is_paused(facts.before):
        return
    if not model.prefill:
        yield f"messages.{at}: {model.id} takes no assistant message at the end"
    elif request.thinking not in (None, "off"):
        yield f"messages.{at}: no assistant message at the end while thinking is on"


def _open_loop(facts: _Facts, request: Request) -> Iterator[str]:
    opening = facts.loop_opening
    if isinstance(request.thinking, int) and opening and opening not in REASONING:
        yield (
            f"messages.{facts.loop}.content.0: expected thinking, found {opening}:"
            " with a thinking budget a tool loop starts with its reasoning"
        )
    if request.thinking == "off" and facts.loop_reasoning is not None:
        at = facts.loop_reasoning
        yield f"messages.{at}: thinking in the last turn while thinking is off"
