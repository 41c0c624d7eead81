"""What a turn uses and costs, and the limits that end it."""

from decimal import Decimal

import trio
from msgspec.structs import replace

from pod.events import PodLive
from tests.fakes import (
    called,
    said,
)
from tests.worker.loops import Case
from worker.client import Failure, TextDelta
from worker.endings import (
    Finished,
    Limited,
)
from worker.events import Live, Warning
from worker.items import (
    ToolCall,
    ToolResult,
)
from worker.limits import Limits
from worker.scripted import Script, ScriptedClient, say
from worker.usage import Usage


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
