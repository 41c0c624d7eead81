"""Runs a compact worker: a turn loop of its own, until there is a summary."""

from collections.abc import Callable
from decimal import Decimal

import trio
from msgspec import Raw, Struct
from msgspec.structs import replace

from prompts import fill, load
from tools.base import Spill, Tool
from tools.scope import Scope
from worker.api import ToolSpec
from worker.calls import OutputLimits, Toolbox
from worker.client import Client
from worker.compact.auto_read import FileLines
from worker.compact.budget import AutoReadBudget
from worker.compact.draft import Draft
from worker.compact.ends import (
    MOST_CUT_OFF,
    End,
    Standing,
    end_of_turn,
    end_of_work,
)
from worker.compact.guard import InputGuard
from worker.compact.history import Counted, WorkerHistory
from worker.compact.quotes import check_quotes, quotable
from worker.compact.task import Budgets, CompactError, Progress, Result, Task
from worker.compact.task_text import task_text
from worker.compact.tools import (
    READS,
    AddReference,
    Guarded,
    MarkReadRequired,
    Read,
    WriteSummary,
)
from worker.endings import Ending, Finished, Yielded
from worker.events import Listen
from worker.items import Item, ToolCall, UserText
from worker.limits import Limits, Spent
from worker.loop import run_turn
from worker.model import Model
from worker.occupancy import Occupancy
from worker.permit import Decision, Denied, Permit, Stopped, allow_all
from worker.retry import RetryPolicy
from worker.tokens import Counter, count_tool
from worker.turn import Setup
from worker.usage import Usage
from worker.wire import Cache

MOST_NUDGES = 2
"""How often a turn that ended without a summary or a mark is answered."""

SMALLER = 2
"""How often the record is halved because the provider says the task is too long."""

OUTPUT_BYTES = 64 * 1024


class Parts(Struct, frozen=True):
    """What a compact worker runs with besides its task.

    *count* gives a text's tokens as the model counts them: budgets and caps are
    in these. *limits* is what the Pod's own limits leave; *scope* is only read
    from. *model* may be another than the Pod's.
    """

    client: Client
    model: Model
    scope: Scope
    counter: Counter
    count: Callable[[str], int]
    price: Callable[[str, Usage], Decimal | None]
    new_id: Callable[[], str]
    jitter: Callable[[], float]
    spill: Spill
    render: Callable[[FileLines], str]
    """Returns the block that puts lines in front of the model; it is what a mark costs."""
    retry: RetryPolicy = RetryPolicy()
    cache: Cache = Cache()
    limits: Limits = Limits()
    permit: Permit = allow_all
    """What stops a turn of the Pod's denies a call here."""
    budgets: Budgets = Budgets()


async def compact(
    task: Task,
    parts: Parts,
    *,
    spent: Spent,
    listen: Listen,
    on_progress: Callable[[Progress], None],
    record: Callable[[Item], None],
) -> Result:
    """Have a compact worker write the summary of *task*.

    *spent* is a fresh one; it adds up what is used, and holds it after a cancel
    too. *listen* hears the live events, *on_progress* how far it is, *record*
    every item of its history, the task first; none of them may raise. Raises
    CompactError where no usable summary comes of it.
    """
    budgets = _fitting(parts.budgets, parts.model)
    worker = _Worker(task, parts, budgets, spent, listen, on_progress, record)
    seconds = budgets.seconds
    late = End("timeout", f"not done after {seconds:g} seconds (worker_timeout)")
    end = late
    with trio.move_on_after(seconds):
        end = await worker.run()
        for _ in range(SMALLER):
            if not (end.code == "overflow" and worker.is_unanswered):
                break
            budgets = replace(budgets, overview=budgets.overview // 2)
            worker = _Worker(task, parts, budgets, spent, listen, on_progress, record)
            end = late
            end = await worker.run()
    return await worker.result(end)


def first_message(task: Task, parts: Parts) -> str:
    """Return the message that a compact worker with these *parts* begins with."""
    return task_text(task, _fitting(parts.budgets, parts.model), parts.count)


def _fitting(budgets: Budgets, model: Model) -> Budgets:
    """Return *budgets* as they fit the model's window: all input stays in its context."""
    cap = budgets.max_input_tokens
    if model.window is not None:
        cap = min(cap, model.window - min(model.max_tokens, model.window // 3))
    return replace(
        budgets, max_input_tokens=cap, overview=min(budgets.overview, cap // 4)
    )


class _Worker:
    """One compact worker, from its task to its end."""

    def __init__(
        self,
        task: Task,
        parts: Parts,
        budgets: Budgets,
        spent: Spent,
        listen: Listen,
        on_progress: Callable[[Progress], None],
        record: Callable[[Item], None],
    ) -> None:
        self._task = task
        self._parts = parts
        self._budgets = budgets
        self._spent = spent
        self._listen = listen
        self._on_progress = on_progress
        self._guard = InputGuard(budgets.max_input_tokens)
        self._marks = AutoReadBudget(budgets.auto_read, [f.path for f in task.files])
        self._draft = Draft(budgets.summary_cap, parts.count)
        self._history = WorkerHistory(
            self._guard, parts.count, record=record, answered=self._progress
        )
        self._nudges = 0
        self._was_sent_back = False

    @property
    def is_unanswered(self) -> bool:
        """Whether not even the task was answered."""
        return len(self._history.items) <= 1

    async def run(self) -> End:
        """Run until it is done, or something ends it."""
        text = await trio.to_thread.run_sync(
            task_text, self._task, self._budgets, self._parts.count
        )
        self._history.add([UserText(text=text, synthetic=True)])
        setup = self._setup()
        occupancy = Occupancy(
            model=setup.model,
            system=setup.system,
            specs=setup.specs,
            counter=setup.counter,
        )
        while True:
            ending = await run_turn(
                setup,
                self._history,
                spent=self._spent,
                listen=self._listen,
                occupancy=occupancy,
                gate=self._gate,
            )
            missing = self._missing() if isinstance(ending, Finished) else None
            if missing is None:
                return self._end(ending)
            self._history.add([UserText(text=missing, synthetic=True)])

    async def result(self, end: End) -> Result:
        """Return what came of it. Raises CompactError."""
        if (summary := self._draft.usable) is None:
            raise self._error(end)
        sources = [
            *(
                item.text
                for item in self._task.head
                if isinstance(item, UserText) and not item.synthetic
            ),
            *self._task.directives,
            *quotable(self._task.previous_summary),
        ]
        checked = await trio.to_thread.run_sync(check_quotes, summary.text, sources)
        return Result(
            summary=checked.summary,
            marks=self._marks.marks,
            references=self._marks.references,
            dropped_quotes=checked.dropped,
            requests=self._spent.requests,
            input_tokens=self._guard.sent,
            usage=self._spent.usage,
            cost_usd=_dollars(self._spent.cost),
        )

    def _setup(self) -> Setup:
        """Put the loop's setup together; its fixed part of the input is counted."""
        parts, budgets = self._parts, self._budgets
        system = load("compact_system")
        fixed = parts.count(system) + sum(
            count_tool(_spec(tool), Counted(parts.count)) for tool in self._tools(0)
        )
        self._guard.add(fixed)
        tools = {
            tool.name: Guarded(
                tool,
                guard=self._guard,
                budget=self._marks,
                count=parts.count,
                order=self._history.order,
                admitted=self._history.admitted.add,
            )
            for tool in self._tools(self._guard.share(READS))
        }
        return Setup(
            client=parts.client,
            model=parts.model,
            system=system,
            specs=tuple(_spec(tool) for tool in tools.values()),
            toolbox=Toolbox(
                tools=tools,
                spill=parts.spill,
                output=OutputLimits(
                    max_bytes=OUTPUT_BYTES, max_tokens=OUTPUT_BYTES, count=parts.count
                ),
                permit=_never_stopping(parts.permit),
            ),
            cache=parts.cache,
            retry=parts.retry,
            limits=replace(
                parts.limits,
                max_requests=min(
                    budgets.max_requests, parts.limits.max_requests or 2**62
                ),
            ),
            counter=parts.counter,
            price=parts.price,
            new_id=parts.new_id,
            jitter=parts.jitter,
        )

    def _tools(self, read_tokens: int) -> list[Tool]:
        scope, count, render = self._parts.scope, self._parts.count, self._parts.render
        return [
            Read(scope, max_tokens=read_tokens, guard=self._guard, count=count),
            MarkReadRequired(
                scope,
                self._marks,
                max_tokens=self._budgets.auto_read,
                cost=lambda lines: count(render(lines)),
                marked=self._progress,
            ),
            AddReference(scope, self._marks),
            WriteSummary(self._draft),
        ]

    async def _gate(self) -> Yielded | None:
        await trio.lowlevel.checkpoint()
        if self._guard.is_over or self._history.cut_off >= MOST_CUT_OFF:
            return Yielded(tokens=self._guard.counted)
        self._guard.send()
        return None

    def _missing(self) -> str | None:
        """Return what to answer to a turn that ended too early, None for nothing."""
        last = self._draft.last
        if last is not None and last.is_too_large and not self._was_sent_back:
            self._was_sent_back = True
            return fill("compact_too_large", tokens=str(last.tokens), cap=str(last.cap))
        if self._nudges == MOST_NUDGES:
            return None
        prompts = []
        if last is None:
            problems = "write_summary was never called"
            prompts.append(fill("compact_missing_summary", problems=problems))
        elif last.problems:
            problems = "; ".join(last.problems)
            prompts.append(fill("compact_missing_summary", problems=problems))
        if not self._marks.marks and any(f.size is not None for f in self._task.files):
            prompts.append(load("compact_missing_marks"))
        self._nudges += 1
        return "\n\n".join(prompts) or None

    def _end(self, ending: Ending) -> End:
        if isinstance(ending, Finished):
            return end_of_work(self._draft.last)
        standing = Standing(
            requests=self._spent.requests,
            cut_off=self._history.cut_off,
            max_tokens=self._parts.model.max_tokens,
        )
        return end_of_turn(ending, self._budgets, standing)

    def _error(self, end: End) -> CompactError:
        return CompactError(
            end.code,
            end.message,
            counts=end.counts,
            usage=self._spent.usage,
            cost_usd=_dollars(self._spent.cost),
            requests=self._spent.requests,
            input_tokens=self._guard.sent,
        )

    def _progress(self) -> None:
        self._on_progress(
            Progress(
                requests=self._spent.requests,
                input_tokens=self._guard.sent,
                auto_read_tokens=self._marks.spent,
                references=len(self._marks.references),
                has_summary=self._draft.usable is not None,
            )
        )


def _never_stopping(permit: Permit) -> Permit:
    """A compaction is the runtime's own doing: nothing in it may end the run."""

    async def ask(call: ToolCall) -> Decision:
        match await permit(call):
            case Stopped(reason, by, rule):
                return Denied(reason, by, rule)
            case decision:
                return decision

    return ask


def _spec(tool: Tool) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        input_schema=Raw(tool.parameters),
    )


def _dollars(cost: Decimal | None) -> float | None:
    return None if cost is None else float(cost)
