"""Run the tool calls of one response; answer each exactly once, whatever happens."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

import trio
from msgspec import Struct

from tools.base import Call, Spill, Tool, ToolError, ToolOutput
from tools.cap import cap, fits
from tools.off_loop import off_loop
from tools.text import clean, short_line
from worker.cancelled import parted
from worker.crash import crash_place, crash_text
from worker.events import Listen, ToolProgress, Warning
from worker.items import ToolCall, ToolResult
from worker.permit import Allowed, Decision, Denied, Permit, Stopped, allow_all
from worker.result_hooks import ResultHooks

INLINE_BYTES = 256 * 1024
"""Output up to this size is cleaned and capped on the loop: it takes less than
a thread costs to wake."""


class Record(Protocol):
    """Where the facts about calls go, on disk before anything acts on them."""

    def decided(self, call: ToolCall, decision: Decision) -> None:
        """Write whether *call* may run. Not called where that goes without saying."""

    def start_tool(self, call: ToolCall) -> None:
        """Write that *call* is about to run."""

    def add(self, items: Sequence[ToolResult]) -> None:
        """Write the results, and put them into the history."""

    async def commit(self) -> None:
        """Wait until everything written is durable. Not cancelled half-way."""


class OutputLimits(Struct, frozen=True):
    """How much of one tool output reaches the model, and how tokens are counted.

    *max_bytes* are bytes of UTF-8.
    """

    max_bytes: int
    max_tokens: int
    count: Callable[[str], int]


class Toolbox(Struct, frozen=True):
    """The tools of a run and what surrounds each call.

    *seconds* bounds one call; None leaves it to the tool. *permit* says which
    calls may run, *hooks* see the results of those that did.
    """

    tools: Mapping[str, Tool]
    spill: Spill
    output: OutputLimits
    seconds: float | None = None
    permit: Permit = allow_all
    hooks: ResultHooks | None = None


async def answer_calls(
    calls: Sequence[ToolCall],
    toolbox: Toolbox,
    *,
    record: Record,
    listen: Listen,
    why_not: str | None = None,
) -> Stopped | None:
    """Run *calls* at the same time and record their results in call order.

    With *why_not* none is run, and all are answered with that text. The calls
    are in the history already, so from here on every way out, cancellation
    included, records one result for each. Returns what stops the turn: before
    any call was run, or once all have ended.
    """
    results: dict[str, ToolResult] = {}
    unseen: list[ToolCall] = []
    reason = why_not or "not run: the run was stopped before it began"
    try:
        if why_not is not None:
            return None
        known = [call for call in calls if _why_never(call, toolbox) is None]
        decisions = await _decide(known, toolbox.permit)
        for call in known:
            if decisions[call.call_id] != Allowed():
                record.decided(call, decisions[call.call_id])
        stops = [
            (c, d) for c in known if isinstance(d := decisions[c.call_id], Stopped)
        ]
        if stops:
            stopped, stop = stops[0]
            reason = f"not run: {stopped.name} of the same answer may not run at all"
            for call, each in stops:
                results[call.call_id] = _refused(call, f"not run: {each.reason}")
            return stop
        for call in known:
            match decisions[call.call_id]:
                case Denied(reason=why):
                    results[call.call_id] = _refused(call, f"not run: {why}")
                case Allowed() | Stopped():
                    record.start_tool(call)
        running = [call for call in calls if call.call_id not in results]
        if any(
            toolbox.tools[call.name].has_effects for call in known if call in running
        ):
            await record.commit()
        unseen += (call for call in known if call in running)
        reason = "cancelled before it ended; what it had done until then stays done"
        async with trio.open_nursery() as nursery:
            for call in running:
                nursery.start_soon(_answer, call, toolbox, listen, results)
        return await _look(unseen, toolbox, results)
    finally:
        _withhold(unseen, toolbox, results)
        record.add(
            [results.get(call.call_id) or _refused(call, reason) for call in calls]
        )


async def _look(
    unseen: list[ToolCall], toolbox: Toolbox, results: dict[str, ToolResult]
) -> Stopped | None:
    """Have each result looked at; take its call off *unseen*. Return what stops the turn.

    That does not keep the results behind it from being looked at.
    """
    stop: str | None = None
    while unseen and toolbox.hooks is not None:
        call = unseen[0]
        result = results[call.call_id]
        seen = await toolbox.hooks.look(call, result)
        if (kept := seen.result) != result:
            output = ToolOutput(
                summary=kept.summary,
                content=kept.content,
                referenced_files=kept.referenced_files,
                images=kept.images,
            )
            await _finish(call, output, toolbox, results, is_error=kept.is_error)
        del unseen[0]
        stop = seen.stop if stop is None else stop
    return None if stop is None else Stopped(stop, "hook")


def _withhold(
    unseen: Sequence[ToolCall], toolbox: Toolbox, results: dict[str, ToolResult]
) -> None:
    """Keep nothing that had to be looked at and was not, for a cancel."""
    for call in unseen:
        result = results.get(call.call_id)
        if result is not None and toolbox.hooks is not None:
            results[call.call_id] = toolbox.hooks.unseen(call, result)


async def _decide(calls: Sequence[ToolCall], permit: Permit) -> dict[str, Decision]:
    """Ask for all of *calls* at the same time: somebody who is asked sees them all."""
    decisions: dict[str, Decision] = {}

    async def ask(call: ToolCall) -> None:
        decisions[call.call_id] = await permit(call)

    async with trio.open_nursery() as nursery:
        for call in calls:
            nursery.start_soon(ask, call)
    return decisions


def _refused(call: ToolCall, reason: str) -> ToolResult:
    text = f"{call.name}: {reason}"
    summary = _line(text)
    return ToolResult(
        call_id=call.call_id,
        summary=summary,
        content=None if summary == text else clean(text).text,
        is_error=True,
    )


async def _answer(
    call: ToolCall,
    toolbox: Toolbox,
    listen: Listen,
    results: dict[str, ToolResult],
) -> None:
    """Put the result of *call* into *results*. Raises only what must stop the run."""
    stop: BaseException | None = None
    try:
        output = await _run(call, toolbox, listen)
        await _finish(call, output, toolbox, results)
        return
    except ToolError as error:
        text = str(error)
    except (
        BaseException
    ) as error:  # a tool may raise anything, SystemExit and panics included
        stop, crash = parted(error)
        if crash is None:
            raise
        text = _crash(call, crash, listen)
    failed = ToolOutput(summary=f"{call.name} failed: {text}", content=text)
    await _finish(call, failed, toolbox, results, is_error=True)
    if stop is not None:
        raise stop


def _why_never(call: ToolCall, toolbox: Toolbox) -> str | None:
    """Return why *call* can not be run at all, in words for the model."""
    if call.incomplete:
        return (
            f"{call.name} was not run: your answer reached its output limit inside"
            " the arguments of this call. Make the call again with shorter"
            " arguments, or split the work into several calls."
        )
    if call.name not in toolbox.tools:
        return _unknown_tool(call.name, toolbox.tools)
    return None


async def _run(call: ToolCall, toolbox: Toolbox, listen: Listen) -> ToolOutput:
    if why := _why_never(call, toolbox):
        raise ToolError(why)

    def progress(text: str) -> None:
        listen(ToolProgress(call_id=call.call_id, name=call.name, text=_line(text)))

    context = Call(call_id=call.call_id, spill=toolbox.spill, progress=progress)
    seconds = float("inf") if toolbox.seconds is None else toolbox.seconds
    with trio.move_on_after(seconds):
        return await toolbox.tools[call.name].run(call.arguments.encode(), context)
    raise ToolError(
        f"{call.name} was stopped after {seconds:g} seconds (tools.timeout)."
        " What it had done until then stays done."
    )


async def _finish(
    call: ToolCall,
    output: ToolOutput,
    toolbox: Toolbox,
    results: dict[str, ToolResult],
    *,
    is_error: bool = False,
) -> None:
    """Make the result of *output*. A cancel that goes by does not lose it."""
    size = len(output.summary) + len(output.content or "")
    if size <= INLINE_BYTES:
        results[call.call_id] = _safe(call, output, toolbox, is_error)
        return
    with trio.CancelScope(shield=True):
        results[call.call_id] = await off_loop(
            lambda: _safe(call, output, toolbox, is_error)
        )


def _safe(
    call: ToolCall, output: ToolOutput, toolbox: Toolbox, is_error: bool
) -> ToolResult:
    """Make *output* fit for the model: clean text, within the limits."""
    if not all(i.media_type.isascii() and i.data.isascii() for i in output.images):
        raise ValueError("an image of its output is no base64 text")
    return ToolResult(
        call_id=call.call_id,
        summary=_line(output.summary),
        content=None
        if output.content is None
        else _within(call, output.content, toolbox),
        is_error=is_error,
        referenced_files=tuple(clean(path).text for path in output.referenced_files),
        images=output.images,
    )


def _within(call: ToolCall, content: str, toolbox: Toolbox) -> str:
    """Return *content* clean and within the limits; where it is cut, whole in a file."""
    cleaned = clean(content)
    text = cleaned.text + (f"\n({cleaned.notes})" if cleaned.notes else "")
    bounds = toolbox.output
    if fits(
        text,
        max_bytes=bounds.max_bytes,
        max_tokens=bounds.max_tokens,
        count=bounds.count,
    ):
        return text
    return cap(
        text,
        max_bytes=bounds.max_bytes,
        max_tokens=bounds.max_tokens,
        count=bounds.count,
        where=_spilled(call, cleaned.text, toolbox.spill),
    ).text


def _spilled(call: ToolCall, text: str, spill: Spill) -> str:
    """Save *text* and return the path; the result must not be lost for want of room."""
    part: Path | None = None
    try:
        part, file = spill.open(call.call_id)
        with file:
            file.write(text.encode())
    except OSError as error:
        if part is not None:
            with suppress(OSError):  # half of it only takes room
                part.unlink()
        return f"nowhere: it could not be saved ({error.strerror})"
    return str(part)


SUMMARY_CHARACTERS = 400
"""A summary is a line: what is longer is cut."""


def _line(text: str) -> str:
    return short_line(text, SUMMARY_CHARACTERS)


def _unknown_tool(name: str, tools: Mapping[str, Tool]) -> str:
    near = get_close_matches(name, tools, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"there is no tool {name!r}.{hint} The tools are: {', '.join(tools)}."


def _crash(call: ToolCall, error: BaseException, listen: Listen) -> str:
    """Tell a person where the tool crashed; return what the model is told."""
    said, place = crash_text(error), crash_place(error)
    at = f" at {place}" if place else ""
    listen(Warning(message=f"the tool {_line(call.name)} crashed{at}: {said}"))
    stop = "" if said.endswith((".", "!", "?")) else "."
    return (
        f"{call.name} crashed with {said}{stop}\n"
        "This is a fault of the tool, not of your call; what it had done until"
        " then stays done."
    )
