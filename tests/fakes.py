"""Stand-ins that do the real thing simply."""

from collections.abc import Awaitable, Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, TypeVar

import trio

from pod.events import PodLive
from tools.base import Call, ToolOutput
from worker.api import Request
from worker.client import Delta, Failure, ProviderError, Response, TextDelta
from worker.events import Live
from worker.items import AssistantText, FromModel, Item, Reasoning, ToolCall, UserText
from worker.permit import Decision
from worker.turn import Answered
from worker.usage import Usage

T = TypeVar("T")


class MemorySpill:
    """Keeps spilled output in memory."""

    def __init__(self) -> None:
        self.files: dict[Path, BytesIO] = {}

    def open(self, name: str) -> tuple[Path, IO[bytes]]:
        path = Path(f"/spill/{name}-{len(self.files)}")
        file = _Kept()
        self.files[path] = file
        return path, file


class _Kept(BytesIO):
    """Can be read after it was closed."""

    def close(self) -> None:
        pass


class MemoryHistory:
    """A history without a log; remembers in which order things were told to it."""

    def __init__(self, *items: Item) -> None:
        self.items: list[Item] = list(items)
        self.waiting: list[str] = []
        self.trace: list[str] = []
        self.discarded: list[FromModel] = []
        self.usages: list[Answered] = []

    def add(self, items: Sequence[Item]) -> None:
        self.items.extend(items)
        self.trace.extend(type(item).__name__ for item in items)

    def deliver(self) -> int:
        waiting, self.waiting = self.waiting, []
        self.items.extend(UserText(text=text) for text in waiting)
        return len(waiting)

    def discard(self, items: Sequence[FromModel]) -> None:
        self.discarded.extend(items)

    def decided(self, call: ToolCall, decision: Decision) -> None:
        self.trace.append(f"decide {call.call_id}")

    def start_tool(self, call: ToolCall) -> None:
        self.trace.append(f"start {call.call_id}")

    def answered(self, answered: Answered) -> None:
        self.usages.append(answered)

    async def commit(self) -> None:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
        self.trace.append("commit")


Action = Callable[[Call], Awaitable[ToolOutput | str]]


class FakeTool:
    """A tool that does what it is told to."""

    description = "does what the test says"
    parameters = b'{"type":"object","properties":{}}'

    def __init__(self, name: str, action: Action, *, has_effects: bool = True) -> None:
        self.name = name
        self.has_effects = has_effects
        self.runs = 0
        self._action = action

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        self.runs += 1
        output = await self._action(call)
        return ToolOutput(summary=output) if isinstance(output, str) else output


Step = Sequence[FromModel] | Failure | Callable[[], Awaitable[Sequence[FromModel]]]


class StepClient:
    """Gives one prepared answer after the other, and keeps the requests."""

    def __init__(self, *steps: tuple[Step, str] | Step) -> None:
        self._steps = list(steps)
        self.requests: list[Request] = []
        self.model: str | None = None
        """Who answers; None: who is asked."""
        self.usage: Usage | None = Usage(input=100, output=10)
        self.context_tokens = 110

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        step = self._steps.pop(0)
        stop: str | None = None
        if isinstance(step, tuple) and len(step) == 2 and isinstance(step[1], str):
            step, stop = step
        if isinstance(step, Failure):
            raise ProviderError(step)
        items = await step() if callable(step) else step
        for item in items:
            if isinstance(item, AssistantText):
                on_delta(TextDelta(text=item.text))
        made = tuple(items)
        calls = any(isinstance(item, ToolCall) for item in made)
        return Response(
            message_id=f"msg_{len(self.requests)}",
            model=self.model or request.model,
            items=made,
            stop_reason=stop or ("tool_use" if calls else "end_turn"),
            usage=self.usage,
            context_tokens=self.context_tokens,
        )

    async def count_tokens(self, request: Request) -> int:
        await trio.lowlevel.checkpoint()
        return 1


def said(text: str) -> AssistantText:
    return AssistantText(text=text, response="")


def thought(text: str) -> Reasoning:
    return Reasoning(text=text, response="", model="m", signature="s")


def called(call_id: str, name: str = "do", arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id=call_id, name=name, arguments=arguments, response="")


class Heard:
    """Collects live events, and tells them to *also*."""

    def __init__(self) -> None:
        self.events: list[Live | PodLive] = []
        self.also: Callable[[Live | PodLive], None] = lambda event: None

    def __call__(self, event: Live | PodLive) -> None:
        self.events.append(event)
        self.also(event)

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]
