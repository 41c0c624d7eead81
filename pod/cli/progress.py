"""What a person watching stderr sees of a run."""

from contextlib import AbstractContextManager, nullcontext

import msgspec
from rich.console import Console
from rich.status import Status
from rich.text import Text

from pod.cli.receipts import (
    branch_size,
    done_line,
    failed_line,
    prune_line,
    start_line,
)
from pod.entries import (
    BranchSummary,
    Compaction,
    CompactionFailed,
    CompactionStart,
    ItemEntry,
    Leaf,
    NavigationFailed,
    Notice,
    Prune,
    RunEnd,
    RunStart,
    UsageEntry,
)
from pod.events import (
    CompactProgress,
    CompactSkipped,
    Event,
    HookFailed,
    NavigateStart,
)
from tools.text import counted, short_line
from worker.events import RequestStart, Retry, ToolProgress, Warning
from worker.items import AssistantText, ToolCall, ToolResult
from worker.usage import Usage

WIDTH = 100
"""Characters that a line has where there is no terminal to ask."""

LEAST_WIDTH = 20


class Progress:
    """Prints one line an event that matters, and what is going on right now.

    On a terminal the last line is a live status; elsewhere only whole lines
    are written. Quiet, it prints nothing but warnings. With *answers* somebody
    else prints the answer: it is not among the lines, too.
    """

    def __init__(self, console: Console, *, quiet: bool, answers: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._answers = answers
        self._held: list[AssistantText] = []
        self._usage = Usage()
        self._requests = 0
        self._cost: float | None = 0.0
        self._status = (
            Status("starting", console=console)
            if console.is_terminal and not quiet
            else None
        )

    def shown(self) -> AbstractContextManager[object]:
        """Return the context in which the live status is on the screen."""
        return self._status if self._status is not None else nullcontext()

    def __call__(self, event: Event) -> None:
        """Take in one event. Never raises for what an event contains."""
        match event:
            case RequestStart():
                self._requests = event.request
                self._now(f"request {event.request}: waiting for {event.model}")
            case ToolProgress():
                self._now(f"{event.name}: {short_line(event.text, self._width)}")
            case Retry():
                self._say(
                    f"! {event.kind}: {short_line(event.message, self._width)};"
                    f" attempt {event.attempt + 1} of {event.attempts}"
                    f" in {event.wait:.1f} s",
                    "yellow",
                )
            case CompactionStart():
                self._say(f"⇣ {start_line(event)}", "magenta")
                self._now("compacting")
            case CompactProgress():
                self._now(_progress(event))
            case Compaction():
                self._say(f"⇣ {done_line(event)}", "magenta")
            case CompactionFailed():
                self._say(f"✗ compaction failed: {failed_line(event)}", "yellow")
            case Prune():
                self._say(f"⇣ {prune_line(event)}", "magenta")
            case CompactSkipped():
                self._say(f"! not compacted: {event.message}", "yellow")
            case NavigateStart():
                if event.summarize:
                    self._say(f"↶ summarising {branch_size(event)}", "magenta")
                    self._now("summarising the branch that is left")
            case Leaf(target=target):
                self._say(f"↶ on from {target or 'the beginning'}", "magenta")
            case BranchSummary():
                said = short_line(event.summary, self._width)
                self._say(f"↶ branch summary: {said}", "magenta")
            case NavigationFailed():
                self._say(
                    f"✗ not moved: {event.code}:"
                    f" {short_line(event.message, self._width)}",
                    "yellow",
                )
            case HookFailed(event=name, hook=hook):
                self._warn(f"the {name} hook {hook} failed: {event.message}")
            case Warning() | Notice():
                self._warn(event.message)
            case RunStart():
                self._now("starting")
            case UsageEntry():
                self._account(event)
            case ItemEntry():
                self._item(event)
            case _:
                pass

    def end(self, end: RunEnd, session: str | None = None) -> None:
        """Print the line that closes a run; *session* can be gone on with."""
        self._held = [said for said in self._held if said.text not in end.text]
        self._release()
        if self._quiet:
            return
        cost = "price unknown" if end.cost_usd is None else f"${end.cost_usd:.4f}"
        kept = "" if session is None else f", session {session}"
        self._say(
            f"{end.outcome} after {end.seconds:.1f} s: {counted(end.requests, 'request')},"
            f" {counted(end.tool_calls, 'tool call')}"
            f" ({counted(end.tool_errors, 'error')}{_denied(end)}),"
            f" {end.usage.total:,} tokens, {cost}{kept}",
            "green" if end.outcome == "finished" else "yellow",
        )

    def _item(self, entry: ItemEntry) -> None:
        match entry.item:
            case AssistantText() as said:
                self._text(said)
            case ToolCall() as call:
                self._release()
                self._say(f"→ {short_line(_call(call), self._width - 2)}", "cyan")
            case ToolResult() as result:
                self._release()
                mark, style = ("✗", "red") if result.is_error else ("←", "dim")
                text = short_line(result.summary, self._width - 2)
                self._say(f"{mark} {text}", style)
            case _:
                self._release()

    def _text(self, said: AssistantText) -> None:
        """Show what was said; the last of it only once it is known to be none."""
        if self._held and self._held[-1].response != said.response:
            self._release()
        self._held.append(said)
        if not self._answers:
            self._release()

    def _release(self) -> None:
        for said in self._held:
            if said.text.strip():
                self._say(short_line(said.text, self._width), "bold")
        self._held = []

    @property
    def _width(self) -> int:
        """Characters that a line may have. A terminal's may change."""
        if not self._console.is_terminal:
            return WIDTH
        return max(self._console.width, LEAST_WIDTH)

    def _account(self, entry: UsageEntry) -> None:
        self._usage += entry.usage or Usage()
        if self._cost is not None and entry.cost_usd is not None:
            self._cost += entry.cost_usd
        elif entry.usage is not None:
            self._cost = None
        cost = "" if self._cost is None else f", ${self._cost:.4f}"
        held = (
            ""
            if entry.context_tokens is None
            else f", context {entry.context_tokens:,} tokens"
        )
        self._now(f"{counted(self._requests, 'request')}{cost}{held}")

    def _now(self, text: str) -> None:
        if self._status is not None:
            self._status.update(Text(short_line(text, self._width - 2)))

    def _say(self, text: str, style: str) -> None:
        if not self._quiet:
            self._console.print(Text(text, style=style), soft_wrap=True)

    def _warn(self, text: str) -> None:
        self._console.print(
            Text(f"! {short_line(text, 400)}", "yellow"), soft_wrap=True
        )


def _denied(end: RunEnd) -> str:
    count = len(end.permission_denials)
    return f", {count} not allowed" if count else ""


def _progress(event: CompactProgress) -> str:
    written = ", the summary is written" if event.has_summary else ""
    marks = ""
    if event.auto_read_budget:  # only a compact worker marks
        marks = (
            f", marks {event.auto_read_tokens:,} of {event.auto_read_budget:,} tokens,"
            f" {event.references} references"
        )
    return (
        f"compacting: {counted(event.requests, 'request')},"
        f" {event.worker_input_tokens:,} tokens of input{marks}{written}"
    )


def _call(call: ToolCall) -> str:
    """Show a call as a person would write it."""
    try:
        fields = msgspec.json.decode(call.arguments, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return f"{call.name} {call.arguments}"
    words = (f"{name}={bytes(raw).decode()}" for name, raw in fields.items())
    return " ".join([call.name, *words])
