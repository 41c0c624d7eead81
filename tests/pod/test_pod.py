"""A run: what it leaves in the log, and how every way out of it ends."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from pod.closing import is_open
from pod.ending import Stop
from pod.entries import (
    DeliveredEntry,
    InputEntry,
    ItemEntry,
    RunEnd,
    RunStart,
    ToolStart,
    UsageEntry,
)
from pod.exits import Exit
from pod.pod import NothingToDo
from pod.session import Session
from tests.fakes import FakeTool, called, said
from tests.pod.runs import Case, new_session
from tools.base import Call, ToolOutput
from worker.client import Failure, FailureKind
from worker.items import AssistantText, ToolCall, ToolResult, UserText
from worker.limits import Limits
from worker.usage import Usage


async def test_a_run_leaves_its_whole_story_in_the_log() -> None:
    case = Case([said("on it"), called("a")], [said("all done")])

    end = await case.pod.run("go")

    assert case.kinds == [
        RunStart,
        InputEntry,
        ItemEntry,  # the prompt
        DeliveredEntry,
        ItemEntry,  # on it
        ItemEntry,  # the call
        UsageEntry,
        ToolStart,
        ItemEntry,  # its result
        ItemEntry,  # all done
        UsageEntry,
        RunEnd,
    ]
    assert len({entry.run for entry in case.entries}) == 1
    assert end == case.entries[-1]
    assert (end.outcome, end.reason, end.exit_code) == ("finished", "done", 0)
    assert (end.text, end.requests, end.tool_calls) == ("all done", 2, 1)
    assert end.usage == Usage(input=200, output=20)
    assert end.cost_usd == 0.02


async def test_a_second_run_goes_on_with_the_history_of_the_first() -> None:
    case = Case([said("one")], [said("two")])

    await case.pod.run("first")
    await case.pod.run("second")

    assert list(case.session.items) == [
        UserText(text="first"),
        AssistantText(text="one", response=_response(case, 0)),
        UserText(text="second"),
        AssistantText(text="two", response=_response(case, 1)),
    ]


async def test_a_prompt_that_is_no_unicode_is_made_so() -> None:
    case = Case([said("one")])

    await case.pod.run("caf\udce9")

    assert case.session.items[0] == UserText(text="caf?")


async def test_only_the_second_run_goes_on() -> None:
    case = Case([said("one")], [said("two")])

    await case.pod.run("first")
    await case.pod.run("second")

    starts = [entry.resumed for entry in case.entries if isinstance(entry, RunStart)]
    assert starts == [False, True]


async def test_a_run_that_said_nothing_does_not_repeat_the_answer_before() -> None:
    case = Case([said("one")])
    await case.pod.run("first")
    case.pod.stop("sigint")

    end = await case.pod.run("second")

    assert end.text == ""


async def test_an_answer_in_two_pieces_is_one_text() -> None:
    case = Case(([said("first half, ")], "max_tokens"), [said("second half")])

    end = await case.pod.run("go")

    assert end.text == "first half, second half"


async def test_a_stop_that_came_too_late_is_not_meant_for_the_next_run() -> None:
    async def answer_and_stop() -> list[AssistantText]:
        case.pod.stop("sigint")
        return [said("one")]

    case = Case(answer_and_stop, [said("two")])
    await case.pod.run("first")
    case.pod.stop("sigint")
    await case.pod.run("second")

    end = await case.pod.run("third")

    assert end.reason == "done"


async def test_a_pod_has_one_run_at_a_time() -> None:
    async def run_another(call: Call) -> ToolOutput:
        with pytest.raises(RuntimeError, match="one run at a time"):
            await case.pod.run("again")
        return ToolOutput(summary="refused")

    case = Case([called("a")], [said("done")], tools=[FakeTool("do", run_another)])

    end = await case.pod.run("go")

    assert (end.reason, end.tool_errors) == ("done", 0)


async def test_a_reader_that_takes_nothing_cannot_keep_a_run_from_its_stop() -> None:
    case = Case([said("never")])
    case.pod._settled = trio.sleep_forever

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                await trio.testing.wait_all_tasks_blocked()
                case.pod.stop("sigterm")

            nursery.start_soon(stop)
            end = await case.pod.run("go")

    assert end.exit_code == Exit.SIGTERM


async def test_a_fault_of_ours_closes_the_run_and_is_raised() -> None:
    async def fall_over() -> list[AssistantText]:
        raise ZeroDivisionError("\ud800")

    case = Case(fall_over)

    with pytest.raises(ZeroDivisionError):
        await case.pod.run("go")

    end = case.entries[-1]
    assert isinstance(end, RunEnd)
    assert (end.reason, end.exit_code) == ("internal_error", Exit.FAILED)
    assert end.message == "ZeroDivisionError: \ufffd"


def _response(case: Case, number: int) -> str:
    usages = [entry for entry in case.entries if isinstance(entry, UsageEntry)]
    return usages[number].response


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        ("auth", Exit.AUTH),
        ("billing", Exit.AUTH),
        ("overflow", Exit.CONTEXT),
        ("payload_too_large", Exit.CONTEXT),
        ("invalid", Exit.FAILED),
        ("not_found", Exit.FAILED),
    ],
)
async def test_a_failure_ends_the_run_with_its_exit_code(
    kind: FailureKind, exit_code: Exit
) -> None:
    case = Case(*[Failure(kind=kind, message="no such luck")] * 10)

    end = await case.pod.run("go")

    assert (end.outcome, end.reason, end.exit_code) == ("failed", kind, exit_code)
    if kind == "overflow":
        # After recovery was tried; what the provider said is quoted.
        assert end.message.startswith("Context overflow recovery failed: ")
        assert "no such luck" in end.message
    else:
        assert end.message == "no such luck"
    assert end.interrupted


async def test_a_stop_answers_the_calls_and_closes_the_run() -> None:
    async def hang(call: Call) -> ToolOutput:
        case.pod.stop("sigint")
        await trio.sleep_forever()
        raise AssertionError

    case = Case([called("a")], tools=[FakeTool("do", hang)])

    end = await case.pod.run("go")

    assert (end.outcome, end.reason, end.exit_code) == ("cancelled", "sigint", 130)
    assert end.interrupted
    assert isinstance(case.session.items[-1], ToolResult)
    assert isinstance(case.entries[-1], RunEnd)


async def test_a_stop_before_the_run_ends_it_before_any_request() -> None:
    case = Case()
    case.pod.stop("sigterm")

    end = await case.pod.run("go")

    assert end.exit_code == Exit.SIGTERM
    assert case.client.requests == []
    assert is_open(case.session)


@pytest.mark.parametrize(
    ("stops", "reason"),
    [
        (("sigint", "shutdown"), "sigint"),
        (("shutdown", "paused"), "shutdown"),
        (("paused", "sigterm"), "sigterm"),
    ],
)
async def test_the_first_stop_counts_and_any_more_than_a_pause(
    stops: Sequence[Stop], reason: str
) -> None:
    case = Case()
    for why in stops:
        case.pod.stop(why)

    end = await case.pod.run("go")

    assert end.reason == reason


async def test_time_is_up_is_a_limit_with_what_there_is(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def hang(call: Call) -> ToolOutput:
        await trio.sleep_forever()
        raise AssertionError

    autojump_clock.autojump_threshold = 0.05  # a thread counts meanwhile
    case = Case(
        [said("half way"), called("a")], tools=[FakeTool("do", hang)], timeout=60
    )

    end = await case.pod.run("go")

    assert (end.outcome, end.reason, end.exit_code) == ("limit", "timeout", 3)
    assert end.text == "half way"


async def test_a_cancel_from_outside_closes_the_run_and_goes_on() -> None:
    async def hang(call: Call) -> ToolOutput:
        scope.cancel()
        await trio.sleep_forever()
        raise AssertionError

    case = Case([called("a")], tools=[FakeTool("do", hang)])

    with trio.CancelScope() as scope:
        await case.pod.run("go")

    assert scope.cancelled_caught
    end = case.entries[-1]
    assert isinstance(end, RunEnd)
    assert (end.outcome, end.interrupted) == ("cancelled", True)
    assert isinstance(case.session.items[-1], ToolResult)


async def test_a_limit_is_told_with_its_name_and_figure() -> None:
    case = Case([called("a")], limits=Limits(max_requests=1))

    end = await case.pod.run("go")

    assert (end.outcome, end.reason, end.exit_code) == ("limit", "max_requests", 3)
    assert "limits.max_requests = 1" in end.message


async def test_an_open_turn_goes_on_without_a_prompt() -> None:
    case = Case([called("a")], [said("done")], limits=Limits(max_requests=1))
    await case.pod.run("go")

    end = await case.pod.run(None)

    assert end.text == "done"
    assert [type(i) for i in case.session.items] == [
        UserText,
        ToolCall,
        ToolResult,
        AssistantText,
    ]


async def test_a_finished_session_has_nothing_to_go_on_with() -> None:
    case = Case([said("done")])
    await case.pod.run("go")

    with pytest.raises(NothingToDo):
        await case.pod.run(None)


async def test_steering_is_in_the_log_at_once_and_in_the_history_once() -> None:
    async def steer(call: Call) -> ToolOutput:
        case.pod.steer("and this")
        assert case.session.pending_inputs != []
        return ToolOutput(summary="did it")

    case = Case([called("a")], [said("done")], tools=[FakeTool("do", steer)])

    await case.pod.run("go")

    texts = [i.text for i in case.session.items if isinstance(i, UserText)]
    assert texts == ["go", "and this"]
    assert case.session.pending_inputs == []


async def test_a_session_is_the_same_after_it_is_loaded_again(tmp_path: Path) -> None:
    session = new_session(tmp_path / "s.jsonl")
    case = Case([called("a")], [said("done")], session=session)
    await case.pod.run("go")
    items = list(session.items)
    session.close()

    with Session.open(tmp_path / "s.jsonl") as again:
        assert list(again.items) == items
        assert again.recovered == ()
