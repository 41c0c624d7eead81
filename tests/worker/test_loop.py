"""The turn loop: what is sent, what is kept, and how a turn ends."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TypeGuard

import pytest
import trio
from msgspec.structs import replace

from pod.events import PodLive
from tests.fakes import (
    FakeTool,
    Heard,
    MemoryHistory,
    Step,
    StepClient,
    called,
    said,
    thought,
)
from tests.turns import MODEL, done, setup_for
from tests.worker.loopback.pictures import png
from tools.base import Call, Image, Tool, ToolOutput
from worker.client import Failure, FailureKind, TextDelta
from worker.content import count_images
from worker.endings import (
    Ending,
    Exhausted,
    Failed,
    Finished,
    Limited,
    Refused,
    Yielded,
)
from worker.events import Live, RequestStart, Retry, Warning
from worker.items import (
    AssistantText,
    Item,
    Reasoning,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.limits import Limits, Spent
from worker.loop import run_turn
from worker.model import Model
from worker.occupancy import Occupancy
from worker.scripted import Script, ScriptedClient, say
from worker.usage import Usage


def a_cent(model: str, usage: Usage) -> Decimal:
    return Decimal("0.01")


class Case:
    """One turn with prepared answers."""

    def __init__(
        self,
        *steps: tuple[Step, str] | Step,
        tools: Sequence[Tool] = (FakeTool("do", done),),
        limits: Limits = Limits(),  # noqa: B008  frozen
        price: Callable[[str, Usage], Decimal | None] = a_cent,
        history: MemoryHistory | None = None,
        model: Model = MODEL,
    ) -> None:
        self.client = StepClient(*steps)
        self.history = history or MemoryHistory(UserText(text="go"))
        self.heard = Heard()
        self.listen: Callable[[Live | PodLive], None] = self.heard
        self.spent = Spent()
        self.yields_at = 1_000
        self.setup = setup_for(
            self.client, tools, limits=limits, price=price, model=model
        )

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
            listen=self.listen,
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
        ToolResult(
            call_id="a",
            summary="did it",
            content="all of it",
            referenced_files=("/a",),
        ),
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
    case = Case([said("done")], price=lambda model, usage: None)

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


async def test_usage_of_an_answer_that_is_cancelled_half_way_is_billed() -> None:
    case = Case()
    client = ScriptedClient(Script([say("word " * 100)]), case.setup.model)
    case.setup = replace(case.setup, client=client)
    with trio.CancelScope() as scope:

        def cancel_at_the_first_words(event: Live | PodLive) -> None:
            if isinstance(event, TextDelta):
                scope.cancel()

        case.listen = cancel_at_the_first_words
        await case.run()

    (used,) = case.history.usages
    assert scope.cancelled_caught
    assert used.stop_reason == "cancelled"
    assert used.usage == case.spent.usage
    assert used.usage.input > 0
    assert case.spent.cost == used.cost == Decimal("0.01")
    assert used.context_tokens is None
    assert case.added == []


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


async def test_an_answer_that_filled_the_window_stays_out_of_the_history() -> None:
    case = Case(([said("half"), called("a")], "model_context_window_exceeded"))

    ending = await case.run()

    assert isinstance(ending, Failed)
    assert ending.failure.kind == "overflow"
    assert case.added == []
    assert case.history.discarded == [
        AssistantText(text="half", response="id1"),
        ToolCall(call_id="a", name="do", arguments="{}", response="id1"),
    ]
    assert [usage.context_tokens for usage in case.history.usages] == [None]
    assert case.spent.usage == Usage(input=100, output=10)


async def test_an_unknown_stop_reason_is_the_end_with_a_warning() -> None:
    case = Case(([said("done")], "zz_new"))

    ending = await case.run()

    assert ending == Finished("done")
    assert "zz_new" in case.heard.of(Warning)[0].message


async def test_input_is_taken_between_requests() -> None:
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
    scope = trio.CancelScope()

    def price(model: str, usage: Usage) -> Decimal:
        if usage.total:  # not when the prices are loaded
            scope.cancel()
        return Decimal("0.01")

    case = Case([called("a")], price=price)
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


def images(number: int) -> tuple[Image, ...]:
    """Return *number* pictures that the API would take."""
    return (Image("image/png", png(10, 10)),) * number


def sent_images(case: Case) -> list[int]:
    return [count_images(request) for request in case.client.requests]


TOO_BIG = Failure(kind="payload_too_large", message="413 request too large", status=413)


async def test_a_payload_that_is_too_large_is_sent_with_fewer_images() -> None:
    history = MemoryHistory(UserText(text="look", images=images(5)))
    case = Case(TOO_BIG, TOO_BIG, [said("seen")], history=history)

    ending = await case.run()

    assert ending == Finished("seen")
    assert sent_images(case) == [5, 1, 0]
    assert [w.message for w in case.heard.of(Warning)] == [
        "sending 2 images at most",
        "sending 0 images at most",
    ]
    assert case.spent.requests == 1


async def test_a_payload_without_images_cannot_be_made_smaller() -> None:
    case = Case(TOO_BIG)

    ending = await case.run()

    assert ending == Failed(TOO_BIG)
    assert len(case.client.requests) == 1


def too_much_output(limit: int | None) -> Failure:
    return Failure(
        kind="output_too_large", message="input + max_tokens", output_limit=limit
    )


@pytest.mark.parametrize(
    ("failures", "asked"),
    [
        ([too_much_output(700)], [1_000, 700]),
        ([too_much_output(None), too_much_output(None)], [1_000, 500, 250]),
    ],
    ids=["the provider says how much", "it does not"],
)
async def test_less_output_is_asked_for_where_that_was_too_much(
    failures: list[Failure], asked: list[int]
) -> None:
    case = Case(*failures, [called("a")], [said("done")], limits=Limits(max_requests=2))

    ending = await case.run()

    assert ending == Finished("done")
    assert [r.max_tokens for r in case.client.requests] == [*asked, asked[-1]]


@pytest.mark.parametrize("limit", [0, 1_000, 5_000])
async def test_output_that_cannot_be_lowered_ends_the_turn(limit: int) -> None:
    failure = too_much_output(limit)
    case = Case(failure)

    ending = await case.run()

    assert ending == Failed(failure)


async def test_results_of_one_batch_share_what_is_left_of_the_window() -> None:
    async def talk(call: Call) -> ToolOutput:
        return ToolOutput(summary="talked", content="x" * 20_000)

    history = MemoryHistory(UserText(text="y" * 50_000))
    case = Case(
        [called(name) for name in "abcd"],
        [said("done")],
        tools=[FakeTool("do", talk)],
        history=history,
        model=Model(provider="scripted", id="m", window=100_000, max_tokens=20_000),
    )
    case.client.context_tokens = 60_000

    await case.run()

    sizes = [len((i.content or "").encode()) for i in case.added if is_result(i)]
    assert len(sizes) == 4
    assert all(4_000 < size <= (100_000 - 20_000 - 60_000) // 4 for size in sizes)


async def test_a_lone_result_keeps_its_own_cap() -> None:
    async def talk(call: Call) -> ToolOutput:
        return ToolOutput(summary="talked", content="x" * 19_000)

    case = Case([called("a")], [said("done")], tools=[FakeTool("do", talk)])

    await case.run()

    assert [len(i.content or "") for i in case.added if is_result(i)] == [19_000]


def is_result(item: Item) -> TypeGuard[ToolResult]:
    return isinstance(item, ToolResult)


async def test_a_budget_is_not_gone_on_with_when_a_price_is_unknown() -> None:
    case = Case(
        [called("a")],
        limits=Limits(max_budget_usd=5.0),
        price=lambda model, usage: None,
    )

    ending = await case.run()

    assert isinstance(ending, Limited)
    assert ending.reached.name == "max_budget_usd"
    assert "not known" in ending.reached.message


async def test_an_answer_in_an_unpriced_name_costs_what_the_model_asked_does() -> None:
    case = Case(
        [said("done")],
        price=lambda model, usage: Decimal(1) if model == "m" else None,
    )
    case.client.model = "m-20260101"

    await case.run()

    assert case.spent.cost == Decimal(1)


async def test_a_provider_that_tells_no_usage_is_warned_of_once() -> None:
    case = Case([called("a")], [said("done")])
    case.client.usage = None

    await case.run()

    assert len(case.heard.of(Warning)) == 1
    assert case.spent.cost is None


async def test_user_input_starts_the_count_of_unfinished_answers_anew() -> None:
    async def cut_while_the_user_types() -> Sequence[AssistantText]:
        case.history.waiting.append("go on")
        return [said("part")]

    cut = ([said("part")], "max_tokens")
    case = Case(cut, cut, (cut_while_the_user_types, "max_tokens"), cut, cut, cut, cut)

    ending = await case.run()

    assert isinstance(ending, Exhausted)
    assert len(case.client.requests) == 7


async def test_a_retry_is_not_another_request(
    autojump_clock: trio.testing.MockClock,
) -> None:
    down = Failure(kind="overloaded", message="529", status=529)
    case = Case(
        down, [called("a")], down, [said("done")], limits=Limits(max_requests=2)
    )

    ending = await case.run()

    assert ending == Finished("done")
    assert case.spent.requests == 2


async def test_every_call_of_a_wide_batch_is_answered_before_a_limit_ends_the_turn() -> (
    None
):
    calls = [called(str(number)) for number in range(20)]
    case = Case(calls, limits=Limits(max_requests=1))

    ending = await case.run()

    assert isinstance(ending, Limited)
    answers = [i.call_id for i in case.added if isinstance(i, ToolResult)]
    assert answers == [call.call_id for call in calls]
