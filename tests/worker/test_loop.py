"""The turn loop: what is sent, what is kept, and how a turn ends."""

from collections.abc import Sequence

import pytest
import trio

from tests.fakes import (
    FakeTool,
    MemoryHistory,
    called,
    said,
    thought,
)
from tests.turns import done
from tests.worker.loops import Case
from tools.base import Call, ToolOutput
from worker.client import Failure, FailureKind
from worker.endings import (
    Exhausted,
    Failed,
    Finished,
    Refused,
    Yielded,
)
from worker.events import RequestStart, Retry, Warning
from worker.items import (
    AssistantText,
    Reasoning,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.usage import Usage


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


async def test_user_input_starts_the_count_of_unfinished_answers_anew() -> None:
    async def cut_while_the_user_types() -> Sequence[AssistantText]:
        case.history.waiting.append("go on")
        return [said("part")]

    cut = ([said("part")], "max_tokens")
    case = Case(cut, cut, (cut_while_the_user_types, "max_tokens"), cut, cut, cut, cut)

    ending = await case.run()

    assert isinstance(ending, Exhausted)
    assert len(case.client.requests) == 7
