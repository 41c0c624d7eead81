"""Asks the hooks of an event, one after the other, and puts their answers together.

A hook that fails, hangs or answers nonsense is reported, and what would have
happened without it happens. Two exceptions fail closed: pre_tool_call, since a
call that nobody judged is not run, and hooks with ``on_failure = "block"``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import trio
from msgspec import Struct

from pod.events import HookFailed
from pod.hooks.answers import (
    Answer,
    BeforeCompactAnswer,
    BeforeTreeAnswer,
    CompactingAnswer,
    Garbage,
    Looked,
    Nothing,
    PostToolCallAnswer,
    PreLlmRequestAnswer,
    PreToolCallAnswer,
    changed,
    parse,
    withheld,
)
from pod.hooks.hook import (
    NAME_CHARACTERS,
    TIMEOUT,
    Hook,
    HookError,
    OnFailure,
    on_failure_problem,
    tools_problem,
)
from pod.hooks.payloads import (
    AnyPayload,
    BeforeCompact,
    BeforeTree,
    Compacted,
    Compacting,
    HookEvent,
    Navigated,
    PostToolCall,
    PreLlmRequest,
    PreToolCall,
    RunEnded,
    event_of,
)
from tools.text import short_line
from worker.cancelled import parted
from worker.crash import crash_text

__all__ = ["Hook", "HookError", "Hooks"]


class Missed(Struct, frozen=True):
    """A hook gave no answer, and *message* says why."""

    message: str


A = TypeVar("A", bound=Answer)


def _nobody(event: HookFailed) -> None:
    pass


class Hooks:
    """The hooks of a Pod, in the order they were added. *tell* hears of failures."""

    def __init__(
        self,
        hooks: Iterable[Hook] = (),
        *,
        tell: Callable[[HookFailed], None] = _nobody,
    ) -> None:
        self._hooks: dict[HookEvent, tuple[Hook, ...]] = {}
        self._tell = tell
        for hook in hooks:
            self.append(hook)

    def append(self, hook: Hook) -> None:
        """Add *hook* behind those of its event."""
        self._hooks[hook.event] = (*self._hooks.get(hook.event, ()), hook)

    def add(
        self,
        event: HookEvent,
        function: Callable[..., object],
        *,
        timeout: float = TIMEOUT,
        on_failure: OnFailure | None = None,
        tools: Sequence[str] = (),
    ) -> None:
        """Have *function*, async (trio) or not, called at *event*.

        It gets the event's payload and returns its answer: the struct, a mapping,
        or None. Raises ValueError for what *event* does not take.
        """
        from pod.hooks.python import ask_function

        for problem in (
            on_failure_problem(event, on_failure),
            tools_problem(event, tools),
        ):
            if problem is not None:
                raise ValueError(problem)
        name = getattr(function, "__qualname__", None) or repr(function)
        self.append(
            Hook(
                event=event,
                name=short_line(name, NAME_CHARACTERS),
                ask=ask_function(function),
                timeout=timeout,
                on_failure=on_failure,
                tools=tuple(tools),
            )
        )

    def has(self, event: HookEvent) -> bool:
        """Whether anybody is to be asked at *event*."""
        return event in self._hooks

    async def before_compact(self, payload: BeforeCompact) -> BeforeCompactAnswer:
        """Ask whether to compact, and for a whole compaction.

        A hook that blocks and fails cancels it.
        """
        return await self._ask(
            payload,
            BeforeCompactAnswer,
            blocked=lambda why: BeforeCompactAnswer(cancel=True, message=why),
        )

    async def compacting(self, payload: Compacting) -> CompactingAnswer:
        """Ask how the summary is to be written."""
        return await self._ask(payload, CompactingAnswer)

    async def compact(self, payload: Compacted) -> None:
        """Tell that a compaction is in the log."""
        await self._ask(payload, Nothing)

    async def before_tree(self, payload: BeforeTree) -> BeforeTreeAnswer:
        """Ask whether to navigate, and with which summary.

        A hook that blocks and fails cancels it.
        """
        return await self._ask(
            payload,
            BeforeTreeAnswer,
            blocked=lambda why: BeforeTreeAnswer(cancel=True, message=why),
        )

    async def tree(self, payload: Navigated) -> None:
        """Tell that the leaf has moved."""
        await self._ask(payload, Nothing)

    async def pre_llm_request(self, payload: PreLlmRequest) -> PreLlmRequestAnswer:
        """Ask before a request. A hook that blocks and fails stops the run."""
        return await self._ask(
            payload,
            PreLlmRequestAnswer,
            blocked=lambda why: PreLlmRequestAnswer(stop=True, message=why),
        )

    async def pre_tool_call(self, payload: PreToolCall) -> PreToolCallAnswer:
        """Ask whether a call may be run. A hook that fails denies it."""
        return await self._ask(
            payload,
            PreToolCallAnswer,
            blocked=lambda why: PreToolCallAnswer(deny=True, message=why),
            tool=payload.name,
        )

    async def post_tool_call(self, payload: PostToolCall) -> Looked:
        """Have a result looked at; each hook sees what those before it made of it.

        One that stops the run does not keep the others from looking: they may
        have something to take out. A hook that blocks and fails stops the run
        and withholds the result.
        """
        seen, stop = payload, None
        for hook in self._of(payload, payload.name):
            said = await self._answer(hook, seen, PostToolCallAnswer)
            if isinstance(said, Missed):
                if not hook.blocks:
                    continue
                said = withheld(payload.name, said.message)
            seen = changed(seen, said)
            if said.stop and stop is None:
                stop = said.message
        return Looked(seen.summary, seen.content, seen.images, stop)

    def withholds(self, tool: str) -> bool:
        """Whether no result of *tool* is kept that its hooks have not seen."""
        hooks = self._hooks.get("post_tool_call", ())
        return any(hook.blocks for hook in hooks if hook.concerns(tool))

    async def run_end(self, payload: RunEnded) -> None:
        """Tell that a run is over."""
        await self._ask(payload, Nothing)

    async def _ask(
        self,
        payload: AnyPayload,
        kind: type[A],
        *,
        blocked: Callable[[str], A] | None = None,
        tool: str | None = None,
    ) -> A:
        answer = kind()
        for hook in self._of(payload, tool):
            said = await self._answer(hook, payload, kind)
            if isinstance(said, Missed):
                if hook.blocks and blocked is not None:
                    return answer.with_later(blocked(said.message))
                continue
            answer = answer.with_later(said)
            if answer.is_final:
                break
        return answer

    def _of(self, payload: AnyPayload, tool: str | None) -> Iterator[Hook]:
        hooks = self._hooks.get(event_of(payload), ())
        return (hook for hook in hooks if tool is None or hook.concerns(tool))

    async def _answer(
        self, hook: Hook, payload: AnyPayload, kind: type[A]
    ) -> A | Missed:
        """Ask one hook; what goes wrong is told and returned."""
        try:
            with trio.move_on_after(hook.timeout):
                return parse(await hook.ask(payload), kind).signed(hook.name)
            why = f"no answer within {hook.timeout:g} seconds"
        except (HookError, Garbage) as error:
            why = str(error)
        except BaseException as error:  # noqa: BLE001  a hook may raise anything
            stops, crash = parted(error)
            if stops is not None:
                raise stops from None
            why = crash_text(crash or error)
        self._tell(HookFailed(event=hook.event, hook=hook.name, message=why))
        return Missed(f"the hook {hook.name} failed: {why}")
