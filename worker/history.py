"""What every history keeps to, and where one may be cut.

Written once here: the turn loop, the log, pruning and compaction all ask this
module. Everything is one pass over the items, however many there are.
"""

import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from worker.items import (
    AssistantText,
    FromModel,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)

Rule = Literal[
    "duplicate_call",  # a call id that an earlier call has, or none at all
    "orphan_result",  # a result without a call before it
    "duplicate_result",  # a second result for one call
    "unanswered_call",  # a call without a result, and the history went on
    "split_response",  # another item between those of one response
    "misplaced_result",  # not directly behind its response, or not in call order
    "late_reasoning",  # reasoning only behind the calls it led to
]


class Fault(Struct, frozen=True):
    """One break of one rule, at the item with this index."""

    rule: Rule
    index: int
    message: str


def faults(items: Sequence[Item]) -> list[Fault]:
    """Return every break of the history's invariants, in the order of the items.

    Calls without a result at the very end are none: their tools may still run.
    """
    rules = (
        _duplicate_calls,
        _unmatched_results,
        _unanswered_calls,
        _split_responses,
        _misplaced_results,
        _late_reasoning,
    )
    found = [fault for rule in rules for fault in rule(items)]
    return sorted(found, key=lambda fault: fault.index)


def unanswered(items: Sequence[Item]) -> list[ToolCall]:
    """Return the calls that have no result yet, in call order."""
    answered = {item.call_id for item in items if isinstance(item, ToolResult)}
    return [
        item
        for item in items
        if isinstance(item, ToolCall) and item.call_id not in answered
    ]


def settle(items: Sequence[Item], text: str) -> list[ToolResult]:
    """Return an error result that says *text* for each unanswered call.

    Appended to *items* they make a history that was broken off whole again.
    """
    return [
        ToolResult(call_id=call.call_id, summary=text, is_error=True)
        for call in unanswered(items)
    ]


def mend(items: Sequence[Item], text: str) -> list[Item]:
    """Return *items* with every call answered once, right behind its response.

    For histories from elsewhere or with damage. A result moves to where it
    belongs, of several the last one that is no error result saying *text*
    stays, one without a call goes, and a call without a result gets one that
    says *text*. Expects unique call ids.
    """
    results: dict[str, ToolResult] = {}
    calls = {item.call_id for item in items if isinstance(item, ToolCall)}
    for item in items:
        if isinstance(item, ToolResult) and item.call_id in calls:
            is_stand_in = item.is_error and item.summary == text
            if not is_stand_in or item.call_id not in results:
                results[item.call_id] = item
    mended: list[Item] = []
    rest = [item for item in items if not isinstance(item, ToolResult)]
    for start, end in stretches(rest):
        mended += rest[start:end]
        mended += [
            results.get(call.call_id)
            or ToolResult(call_id=call.call_id, summary=text, is_error=True)
            for call in rest[start:end]
            if isinstance(call, ToolCall)
        ]
    return mended


def unique_calls(
    items: Sequence[FromModel], taken: Collection[str], new_id: Callable[[], str]
) -> tuple[FromModel, ...]:
    """Return a fresh response whose call ids are good and new.

    A call whose id is empty, among *taken*, used earlier in the response or
    of a shape the API refuses gets one from *new_id* (asked again while what
    it gives is in use). Do this before the response enters the history:
    results are matched to what is in there.
    """
    used: set[str] = set()
    fresh: list[FromModel] = []
    for item in items:
        if not isinstance(item, ToolCall):
            fresh.append(item)
            continue
        call_id = item.call_id
        while call_id in used or call_id in taken or not _CALL_ID.fullmatch(call_id):
            call_id = new_id()
        used.add(call_id)
        fresh.append(
            item if call_id == item.call_id else replace(item, call_id=call_id)
        )
    return tuple(fresh)


def stretches(items: Sequence[Item], start: int = 0) -> Iterator[tuple[int, int]]:
    """Give [start, end) of each response, and of every other item by itself.

    Only of those from *start* on, where one begins.
    """
    for index in range(start + 1, len(items) + 1):
        if index == len(items) or not _is_one_response(items[start], items[index]):
            yield start, index
            start = index


def is_signed(item: Item) -> bool:
    """Whether *item* is reasoning that the provider can verify."""
    return isinstance(item, Reasoning) and bool(item.signature or item.redacted)


def is_paused(response: Sequence[Item]) -> bool:
    """Whether a response ended inside the provider's own tools.

    Then the model goes on in the next response as if there were one.
    """
    said = (item for item in reversed(response) if not isinstance(item, Reasoning))
    last = next(said, None)
    return isinstance(last, Opaque) and _server_tool(last).type.endswith(
        ("_tool_use", "_tool_result")
    )


def is_same_model(one: str, other: str) -> bool:
    """Whether two model ids name one model: a date at the end does not count."""
    return _DATE.sub("", one) == _DATE.sub("", other)


def without_reasoning(items: Sequence[Item]) -> list[Item]:
    """Return *items* without any reasoning; the rest of each response stays."""
    return [item for item in items if not isinstance(item, Reasoning)]


def drop_foreign_reasoning(items: Sequence[Item], model: str) -> list[Item]:
    """Return *items* without the reasoning of any model but *model* (an id)."""
    return [
        item
        for item in items
        if not isinstance(item, Reasoning) or is_same_model(item.model, model)
    ]


def legal_cuts(items: Sequence[Item]) -> list[int]:
    """Return every index at which *items* may be split, ascending.

    Cutting at i gives ``items[:i]`` and ``items[i:]``; 0 is always legal and
    ``len(items)`` is unless a call is unanswered. A cut is illegal inside a
    response and its results, between a server tool's call and its result, in
    a tool loop with signed reasoning anywhere but before its first response,
    and anywhere behind a call that is unanswered.
    """
    steps = [0] * (len(items) + 2)
    for first, last in _uncuttable(items):
        steps[first] += 1
        steps[last + 1] -= 1
    depths = list(accumulate(steps))
    return [index for index in range(len(items) + 1) if depths[index] == 0]


_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
"""What the Messages API takes as the id of a tool_use block."""
_DATE = re.compile(r"[-@]\d{8}$")
"""How a dated snapshot of a model is named; Vertex writes @."""


class _ServerTool(Struct, frozen=True):
    """What of an opaque block shows which server tool's call it belongs to."""

    type: str = ""
    id: str = ""
    tool_use_id: str = ""


def _uncuttable(items: Sequence[Item]) -> Iterator[tuple[int, int]]:
    """Give the ranges (first, last) of cuts that some rule forbids."""
    yield from _within_responses(items)
    yield from _behind_unanswered(items)
    yield from _within_server_tools(items)
    yield from _within_signed_loops(items)


def _within_responses(items: Sequence[Item]) -> Iterator[tuple[int, int]]:
    for index in range(1, len(items)):
        item = items[index]
        if isinstance(item, ToolResult) or _is_one_response(items[index - 1], item):
            yield index, index


def _behind_unanswered(items: Sequence[Item]) -> Iterator[tuple[int, int]]:
    waiting = {call.call_id for call in unanswered(items)}
    for index, item in enumerate(items):
        if isinstance(item, ToolCall) and item.call_id in waiting:
            yield index + 1, len(items)
            return


def _within_server_tools(items: Sequence[Item]) -> Iterator[tuple[int, int]]:
    """A server tool's result may come a response later than its call."""
    called: dict[str, int] = {}
    for index, item in enumerate(items):
        if not isinstance(item, Opaque):
            continue
        block = _server_tool(item)
        if block.tool_use_id in called:
            yield called[block.tool_use_id] + 1, index
        elif block.id:
            called[block.id] = index


def _server_tool(item: Opaque) -> _ServerTool:
    try:
        return msgspec.json.decode(item.json, type=_ServerTool)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _ServerTool()


def _within_signed_loops(items: Sequence[Item]) -> Iterator[tuple[int, int]]:
    first = last = 0
    signed = joined = False
    for start, end in stretches(items):
        item = items[start]
        match item:
            case AssistantText() | Reasoning() | ToolCall() | Opaque():
                if not joined:
                    if signed and first < last:
                        yield first + 1, last
                    first, signed = start, False
                last = start
                signed = signed or any(map(is_signed, items[start:end]))
                # A paused response goes on in the next one.
                joined = is_paused(items[start:end])
            case ToolResult():
                joined = True
            case UserText():
                joined = joined and not (item.text.strip() or item.images)
            case SystemText():
                pass
    if signed and first < last:
        yield first + 1, last


def _is_one_response(one: Item, other: Item) -> bool:
    return (
        isinstance(one, FromModel)
        and isinstance(other, FromModel)
        and one.response == other.response
    )


def _duplicate_calls(items: Sequence[Item]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        if not isinstance(item, ToolCall):
            continue
        if not item.call_id:
            yield Fault("duplicate_call", index, f"the call of {item.name} has no id")
        elif item.call_id in seen:
            message = f"a second call has the id {item.call_id}"
            yield Fault("duplicate_call", index, message)
        seen.add(item.call_id)


def _unmatched_results(items: Sequence[Item]) -> Iterator[Fault]:
    called: set[str] = set()
    answered: set[str] = set()
    for index, item in enumerate(items):
        if isinstance(item, ToolCall):
            called.add(item.call_id)
        elif isinstance(item, ToolResult):
            if item.call_id not in called:
                message = f"a result for {item.call_id}, which was never called"
                yield Fault("orphan_result", index, message)
            elif item.call_id in answered:
                message = f"a second result for {item.call_id}"
                yield Fault("duplicate_result", index, message)
            answered.add(item.call_id)


def _unanswered_calls(items: Sequence[Item]) -> Iterator[Fault]:
    waiting = {call.call_id for call in unanswered(items)}
    end = len(items)
    while end and isinstance(items[end - 1], ToolResult):
        end -= 1
    running = items[end - 1] if end else None
    for index, item in enumerate(items):
        if not isinstance(item, ToolCall) or item.call_id not in waiting:
            continue
        if running is None or not _is_one_response(item, running):
            message = f"the call {item.call_id} of {item.name} has no result"
            yield Fault("unanswered_call", index, message)


def _split_responses(items: Sequence[Item]) -> Iterator[Fault]:
    seen: set[str] = set()
    for start, _ in stretches(items):
        item = items[start]
        if isinstance(item, FromModel):
            if item.response in seen:
                message = f"response {item.response} goes on behind other items"
                yield Fault("split_response", start, message)
            seen.add(item.response)


def _misplaced_results(items: Sequence[Item]) -> Iterator[Fault]:
    known: set[str] = set()
    expected: deque[str] = deque()  # the calls to be answered from here on
    for index, item in enumerate(items):
        if isinstance(item, ToolResult):
            if item.call_id not in known:
                continue  # an orphan, which is another rule's business
            if not expected or expected.popleft() != item.call_id:
                message = f"the result for {item.call_id} is not where its call has it"
                yield Fault("misplaced_result", index, message)
            continue
        if index and not _is_one_response(items[index - 1], item):
            expected.clear()
        if isinstance(item, ToolCall):
            expected.append(item.call_id)
            known.add(item.call_id)


def _late_reasoning(items: Sequence[Item]) -> Iterator[Fault]:
    for start, end in stretches(items):
        for index in range(start, end):
            if isinstance(items[index], Reasoning):
                break
            if isinstance(items[index], ToolCall):
                late = (i for i in range(index, end) if is_signed(items[i]))
                for at in late:
                    message = "the reasoning stands behind the call it led to"
                    yield Fault("late_reasoning", at, message)
                break
