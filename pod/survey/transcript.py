"""What a request tells of the calls made so far, and what came of them."""

import re
from collections import Counter

import msgspec
from msgspec import Struct

from worker.api import Image, Request, Text, ToolResult, ToolUse

LOST = (
    "no result of this call was kept",
    "cancelled before it ended",
    "the session goes on from before this call",
)
"""How the runtime says that it does not know what came of a call (prompts/, calls.py)."""

PATIENCE = 3
"""How often a call whose result was lost is made again."""


class Call(Struct, frozen=True):
    """A call as the survey makes it; *arguments* is JSON."""

    name: str
    arguments: str


class Result(Struct, frozen=True):
    """What came of a call. *is_new*: nothing was said since it came."""

    text: str
    is_error: bool = False
    has_image: bool = False
    is_new: bool = False


class Made(Struct, frozen=True):
    """A call that was made; *result* is None where nobody knows it (any more)."""

    call: Call
    result: Result | None


class Transcript:
    """The calls in a request, oldest first."""

    def __init__(self, request: Request) -> None:
        results: dict[str, Result] = {}
        calls: dict[str, Call] = {}
        last = len(request.messages) - 1
        for number, message in enumerate(request.messages):
            for block in message.content:
                if isinstance(block, ToolUse):
                    arguments = bytes(block.input).decode()
                    calls[block.id] = Call(block.name, arguments)
                elif isinstance(block, ToolResult):
                    results[block.tool_use_id] = _result(block, is_new=number == last)
        self.made = [
            Made(call, _in_view(call, results.get(id))) for id, call in calls.items()
        ]
        self.next_number = 1 + max((_number(id) for id in calls), default=0)
        self._latest: dict[Call, Result | None] = {}
        lost: Counter[Call] = Counter()
        for made in self.made:
            lost[made.call] += is_lost(made.result)
            is_known = not is_lost(made.result) or lost[made.call] >= PATIENCE
            self._latest[made.call] = made.result if is_known else None

    def result_of(self, call: Call) -> Result | None:
        """Return the newest result of exactly this call; None: make it (again)."""
        return self._latest.get(call)


def call_id(number: int) -> str:
    """Return the id of the survey's call with this number."""
    return f"{_PREFIX}{number:05}"


def arguments(**fields: object) -> str:
    """Return a call's arguments as JSON."""
    return msgspec.json.encode(fields).decode()


def is_lost(result: Result | None) -> bool:
    """Tell whether nobody knows what came of a call."""
    if result is None:
        return True
    return result.is_error and any(words in result.text for words in LOST)


def _in_view(call: Call, result: Result | None) -> Result | None:
    """Return *result* if it still says what it once said.

    Pruned from the view, only its summary is left.
    """
    if result is None or result.is_error or result.is_new:
        return result
    pruned = _SUMMARY.get(call.name)
    return None if pruned is not None and pruned.match(result.text) else result


# The summaries of the tools' answers where there was more to say.
_SUMMARY = {
    "bash": re.compile(r"bash: "),
    "glob": re.compile(r'glob ".*: \d+ files'),
    "grep": re.compile(r'grep ".*: \d+ matching lines in'),
    "read_file": re.compile(r"read .* lines \d+-\d+ of \d+$"),
}
_PREFIX = "toolu_survey_"


def _number(id: str) -> int:
    digits = id.removeprefix(_PREFIX)
    return int(digits) if digits != id and digits.isdecimal() else 0


def _result(block: ToolResult, *, is_new: bool) -> Result:
    texts = [part.text for part in block.content if isinstance(part, Text)]
    has_image = any(isinstance(part, Image) for part in block.content)
    return Result("\n".join(texts), block.is_error, has_image, is_new)
