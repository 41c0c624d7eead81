"""The turn loop: what is sent, what is kept, and how a turn ends."""

import random
from collections.abc import Sequence
from decimal import Decimal

import pytest
import trio
from msgspec import Raw

from tests.fakes import (
    FakeTool,
    Heard,
    MemoryHistory,
    MemorySpill,
    Step,
    StepClient,
    called,
    said,
    thought,
)
from tools.base import Call, Tool, ToolOutput
from worker.api import ToolSpec
from worker.calls import OutputLimits, Toolbox
from worker.client import Failure, FailureKind
from worker.events import RequestStart, Retry, Warning
from worker.items import (
    AssistantText,
    Item,
    Reasoning,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.limits import Limits, Spent
from worker.loop import (
    Ending,
    Exhausted,
    Failed,
    Finished,
    Limited,
    Refused,
    Setup,
    Yielded,
    run_turn,
)
from worker.model import Model
from worker.occupancy import Occupancy
from worker.retry import RetryPolicy
from worker.usage import Usage
from worker.wire import Cache

MODEL = Model(provider="scripted", id="m", window=100_000, max_tokens=1_000)


class Bytes:
    """Counts a token a byte."""

    def count(self, text: str) -> int:
        return len(text.encode())


async def done(call: Call) -> ToolOutput:
    return ToolOutput(summary="did it", content="all of it")


class Case:
    """One turn with prepared answers."""

    def __init__(
        self,
        *steps: tuple[Step, str] | Step,
        tools: Sequence[Tool] = (FakeTool("do", done),),
        limits: Limits = Limits(),  # noqa: B008  frozen
        price: Decimal | None = Decimal("0.01"),
        history: MemoryHistory | None = None,
    ) -> None:
        self.client = StepClient(*steps)
        self.history = history or MemoryHistory(UserText(text="go"))
        self.heard = Heard()
        self.spent = Spent()
        self.yields_at = 1_000
        self._ids = 0
        self.setup = Setup(
            client=self.client,
            model=MODEL,
            system="You are a test.",
            specs=tuple(
                ToolSpec(
                    name=t.name,
                    description=t.description,
                    input_schema=Raw(t.parameters),
                )
                for t in tools
            ),
            toolbox=Toolbox(
                tools={t.name: t for t in tools},
                spill=MemorySpill(),
                output=OutputLimits(max_bytes=10_000, max_tokens=10_000, count=len),
            ),
            cache=Cache(),
            retry=RetryPolicy(),
            limits=limits,
            counter=Bytes(),
            price=lambda model, usage: price,
            new_id=self._new_id,
            jitter=random.Random(1).random,
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"

    async def run(self) -> Ending:
        occupancy = Occupancy(
            model=self.setup.model,
            system=self.setup.system,
            specs=self.setup.specs,
            counter=self.setup.counter,
        )
        return await run_turn(
            self.setup,
            self.history,
            spent=self.spent,
            listen=self.heard,
            occupancy=occupancy,
            gate=self.gate,
        )

    async def gate(self) -> Yielded | None:
        await trio.lowlevel.checkpoint()
        if len(self.history.items) < self.yields_at:
            return None
        return Yielded(tokens=len(self.history.items))

    @property
    def added(self) -> list[Item]:
        return self.history.items[1:]


async def test_a_turn_runs_tools_until_the_model_is_done() -> None:
    case = Case([said("looking"), called("a")], [said("done")])

    ending = await case.run()

    assert ending == Finished("done")
    assert case.added == [
        AssistantText(text="looking", response="id1"),
        ToolCall(call_id="a", name="do", arguments="{}", response="id1"),
        ToolResult(call_id="a", summary="did it", content="all of it"),
        AssistantText(text="done", response="id2"),
    ]


async def test_what_a_turn_used_is_added_up_and_recorded() -> None:
    case = Case([called("a")], [said("done")])

    await case.run()

    assert case.spent.requests == 2
    assert case.spent.usage == Usage(input=200, output=20)
    assert case.spent.cost == Decimal("0.02")
    assert [u.response for u in case.history.usages] == ["id1", "id2"]


async def test_an_unknown_price_makes_the_cost_unknown_not_zero() -> None:
    case = Case([said("done")], price=None)

    await case.run()

    assert case.spent.cost is None


async def test_a_transient_failure_is_waited_out_visibly(
    autojump_clock: trio.testing.MockClock,
) -> None:
    case = Case(
        Failure(kind="overloaded", message="529", status=529),
        Failure(kind="rate_limit", message="429", status=429, retry_after=7.0),
        [said("done")],
    )

    started = trio.current_time()
    ending = await case.run()

    assert ending == Finished("done")
    assert [r.kind for r in case.heard.of(Retry)] == ["overloaded", "rate_limit"]
    assert trio.current_time() - started >= 7.0
    assert case.spent.requests == 1


@pytest.mark.parametrize("kind", ["invalid", "auth", "billing", "overflow"])
async def test_what_cannot_get_better_is_not_retried(kind: FailureKind) -> None:
    failure = Failure(kind=kind, message="no")
    case = Case(failure)

    ending = await case.run()

    assert ending == Failed(failure)
    assert case.heard.of(Retry) == []


async def test_a_provider_that_stays_down_ends_the_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    down = Failure(kind="overloaded", message="529 overloaded", status=529)
    case = Case(*[down] * 8)

    ending = await case.run()

    assert isinstance(ending, Failed)
    assert ending.failure.kind == "overloaded"
    assert len(case.heard.of(Retry)) == 7


async def test_usage_of_a_broken_answer_is_billed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    broken = Failure(kind="truncated", message="cut", usage=Usage(input=50, output=5))
    case = Case(broken, [said("done")])

    await case.run()

    assert case.spent.usage == Usage(input=150, output=15)
    assert case.spent.cost == Decimal("0.02")
    assert case.history.usages[0].stop_reason == "failed:truncated"
    assert case.history.usages[0].context_tokens is None


async def test_a_limit_on_requests_ends_the_turn_with_every_call_answered() -> None:
    case = Case([called("a")], [called("b")], limits=Limits(max_requests=2))

    ending = await case.run()

    assert isinstance(ending, Limited)
    assert ending.reached.name == "max_requests"
    assert [i.call_id for i in case.added if isinstance(i, ToolResult)] == ["a", "b"]


async def test_a_limit_on_tokens_ends_the_turn() -> None:
    case = Case([called("a")], limits=Limits(max_total_tokens=100))

    ending = await case.run()

    assert isinstance(ending, Limited)
    assert ending.reached.name == "max_total_tokens"


async def test_a_budget_ends_the_turn() -> None:
    case = Case([called("a")], limits=Limits(max_budget_usd=0.005))

    ending = await case.run()

    assert isinstance(ending, Limited)
    assert ending.reached.name == "max_budget_usd"


async def test_an_answer_that_was_cut_off_is_gone_on_with() -> None:
    case = Case(([said("first half")], "max_tokens"), [said("second half")])

    ending = await case.run()

    assert ending == Finished("second half")
    assert isinstance(case.added[1], UserText)
    assert case.added[1].synthetic
    assert "cut off" in case.added[1].text
    assert case.heard.of(Warning) != []


async def test_an_answer_that_keeps_being_cut_off_ends_the_turn() -> None:
    case = Case(*[([said("more")], "max_tokens")] * 4)

    ending = await case.run()

    assert isinstance(ending, Exhausted)
    assert ending.reason == "cut_off"


async def test_reasoning_that_used_up_the_output_is_told_to_be_shorter() -> None:
    case = Case(([thought("hm")], "max_tokens"), [said("done")])

    ending = await case.run()

    assert ending == Finished("done")
    assert case.added[0] == Reasoning(
        text="hm", response="id1", model="m", signature="s"
    )
    assert "less reasoning" in str(case.added[1])


async def test_an_empty_answer_is_asked_again_and_never_taken_for_success() -> None:
    case = Case([], [said("  ")], [], [])

    ending = await case.run()

    assert isinstance(ending, Exhausted)
    assert ending.reason == "empty"


async def test_a_paused_turn_goes_on_with_what_was_said() -> None:
    case = Case(([said("so far")], "pause_turn"), [said("done")])

    ending = await case.run()

    assert ending == Finished("done")
    assert not any(isinstance(i, UserText) for i in case.added)


async def test_a_refusal_ends_the_turn_and_its_calls_do_not_run() -> None:
    tool = FakeTool("do", done)
    case = Case(([said("I won't"), called("a")], "refusal"), tools=[tool])

    ending = await case.run()

    assert ending == Refused("I won't")
    assert tool.runs == 0
    assert isinstance(case.added[-1], ToolResult)


async def test_a_full_window_is_an_overflow_and_its_answer_is_kept() -> None:
    case = Case(([said("half")], "model_context_window_exceeded"))

    ending = await case.run()

    assert isinstance(ending, Failed)
    assert ending.failure.kind == "overflow"
    assert case.added == [AssistantText(text="half", response="id1")]


async def test_an_unknown_stop_reason_is_the_end_with_a_warning() -> None:
    case = Case(([said("done")], "zz_new"))

    ending = await case.run()

    assert ending == Finished("done")
    assert "zz_new" in case.heard.of(Warning)[0].message


async def test_input_is_taken_between_requests() -> None:
    case = Case([called("a")], [said("done")])

    async def steer(call: Call) -> ToolOutput:
        case.history.waiting.append("also this")
        return ToolOutput(summary="did it")

    case = Case([called("a")], [said("done")], tools=[FakeTool("do", steer)])
    await case.run()

    texts = [i.text for i in case.added if isinstance(i, UserText)]
    assert texts == ["also this"]
    assert isinstance(case.added[1], ToolResult)


async def test_input_that_arrives_with_the_last_answer_keeps_the_turn_going() -> None:
    async def answer_while_the_user_types() -> Sequence[AssistantText]:
        case.history.waiting.append("one more thing")
        return [said("done")]

    case = Case(answer_while_the_user_types, [said("that too")])

    ending = await case.run()

    assert ending == Finished("that too")


async def test_repeated_and_empty_call_ids_are_renamed_and_answered() -> None:
    case = Case([called("a"), called("a"), called("")], [called("a")], [said("done")])

    await case.run()

    calls = [i.call_id for i in case.added if isinstance(i, ToolCall)]
    answers = [i.call_id for i in case.added if isinstance(i, ToolResult)]
    assert len(set(calls)) == 4
    assert "" not in calls
    assert answers == calls


async def test_a_request_the_api_would_reject_is_not_sent() -> None:
    history = MemoryHistory(
        UserText(text="go"),
        ToolResult(call_id="orphan", summary="of nothing"),
    )
    case = Case([said("never")], history=history)

    ending = await case.run()

    assert isinstance(ending, Failed)
    assert ending.failure.kind == "invalid"
    assert case.client.requests == []


async def test_a_cancel_while_the_answer_is_priced_loses_neither_bill_nor_calls() -> (
    None
):
    case = Case([called("a")])
    scope = trio.CancelScope()

    def price(model: str, usage: Usage) -> Decimal:
        trio.from_thread.run_sync(scope.cancel)
        return Decimal("0.01")

    case.setup = Setup(
        **{f: getattr(case.setup, f) for f in case.setup.__struct_fields__}
        | {"price": price}
    )
    with scope:
        await case.run()

    assert case.spent.cost == Decimal("0.01")
    assert [type(i) for i in case.added] == [ToolCall, ToolResult]


async def test_nothing_of_old_items_changes_from_request_to_request() -> None:
    case = Case([called("a")], [called("b")], [said("done")])

    await case.run()

    first, second, third = (r.messages for r in case.client.requests)
    assert [m.role for m in second] == ["user", "assistant", "user"]
    assert [m.role for m in third][:3] == [m.role for m in second]
    assert len(first) == 1


async def test_a_turn_that_yields_goes_on_where_it_stood() -> None:
    case = Case([called("a")], [said("done")])
    case.yields_at = 3

    ending = await case.run()
    case.yields_at = 1_000
    again = await case.run()

    assert ending == Yielded(tokens=3)
    assert again == Finished("done")
    assert [type(i) for i in case.added] == [ToolCall, ToolResult, AssistantText]


async def test_every_answer_is_recorded_with_what_its_prompt_was_estimated_at() -> None:
    case = Case([called("a")], [said("done")])

    await case.run()

    first, second = case.history.usages
    starts = [event.estimate for event in case.heard.of(RequestStart)]
    assert starts[0] is None  # bytes had proved that it fits
    assert first.estimate is not None
    assert second.estimate == starts[1]
    assert second.estimate is not None
    assert second.estimate > 110  # what was measured, and the tool's result
