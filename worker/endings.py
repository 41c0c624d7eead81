"""How a turn ends, and what an answer means for it."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from worker.client import Failure, Response
from worker.items import AssistantText, FromModel, Opaque, ToolCall
from worker.limits import Reached


class Finished(Struct, frozen=True):
    """The model ended its turn; *text* is its last answer."""

    text: str


class Limited(Struct, frozen=True):
    """A limit ended the turn. What the model said until then is in the history."""

    reached: Reached


Unfinished = Literal["paused", "cut_off", "only_reasoning", "empty"]
"""How an answer can leave the turn open without calling a tool."""


class Exhausted(Struct, frozen=True):
    """The model kept being cut off, pausing or answering nothing."""

    reason: Unfinished
    message: str


class Refused(Struct, frozen=True):
    """The model, or a filter before it, refused to answer."""

    message: str


class Failed(Struct, frozen=True):
    """The provider gave no answer, and asking again cannot help."""

    failure: Failure


class Yielded(Struct, frozen=True):
    """The gate ended the turn before a request; it can go on where it stands.

    *tokens* is the estimate of the request that was not sent.
    """

    tokens: int


class Held(Struct, frozen=True):
    """The gate ended the turn before a request: somebody asked for a halt there.

    It can go on where it stands.
    """


class Blocked(Struct, frozen=True):
    """A permission rule or a hook that is set to stop ended the turn.

    Its calls are answered: the turn can be gone on with.
    """

    by: Literal["permission", "hook"]
    message: str


Ending = Finished | Limited | Exhausted | Refused | Failed | Yielded | Held | Blocked

UNFINISHED: Mapping[Unfinished, str] = {
    "paused": "the provider paused the turn",
    "cut_off": "the answer was cut off at model.max_tokens",
    "only_reasoning": "the answer was all reasoning and reached model.max_tokens",
    "empty": "the model answered nothing",
}

NOT_RUN: Mapping[str, str] = {
    "refusal": "not run: the answer that asked for it was refused",
}
"""Why calls of a response with this stop reason are answered but never run."""

CONTINUE: Mapping[Unfinished, str] = {
    "cut_off": "continue_cut_off",
    "only_reasoning": "continue_only_reasoning",
    "empty": "continue_empty",
}
"""The prompt that an unfinished answer is gone on with; a pause needs none."""

KNOWN_STOPS = frozenset(
    {
        "end_turn",
        "max_tokens",
        "model_context_window_exceeded",
        "pause_turn",
        "refusal",
        "stop_sequence",
        "tool_use",
    }
)


class CallsMade(Struct, frozen=True):
    """No end: the answer asks for tools, and their results go back."""


def ending_of(
    response: Response, items: Sequence[FromModel]
) -> Finished | Refused | Exhausted | CallsMade:
    """Say what a whole answer with *items* means for its turn.

    Exhausted stands for an answer that left the turn open: it is gone on with
    first. A stop reason that nobody knows is the end.
    """
    text = "".join(item.text for item in items if isinstance(item, AssistantText))
    is_blank = not text.strip()
    match response.stop_reason:
        case "refusal":
            return Refused(response.explanation or text or "no reason given")
        case _ if any(isinstance(item, ToolCall) for item in items):
            return CallsMade()
        case "pause_turn":
            return _unfinished("paused")
        case "max_tokens":
            return _unfinished("only_reasoning" if is_blank else "cut_off")
        case _ if is_blank and not any(isinstance(item, Opaque) for item in items):
            return _unfinished("empty")
        case _:
            return Finished(text)


def _unfinished(what: Unfinished) -> Exhausted:
    return Exhausted(what, UNFINISHED[what])
