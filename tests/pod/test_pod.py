"""A run: what it leaves in the log, and how every way out of it ends."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
import trio

from pod.entries import (
    FORMAT,
    DeliveredEntry,
    Header,
    InputEntry,
    ItemEntry,
    Known,
    RunEnd,
    RunStart,
    ToolStart,
    UsageEntry,
)
from pod.exits import Exit
from pod.pod import Bounds, NothingToDo, Pod, is_open
from pod.session import Session
from tests.fakes import FakeTool, Heard, Step, StepClient, called, said
from tests.turns import done, setup_for
from tools.base import Call, Tool, ToolOutput
from worker.client import Failure, FailureKind
from worker.items import AssistantText, ToolCall, ToolResult, UserText
from worker.limits import Limits
from worker.usage import Usage


def new_session(path: Path | None = None) -> Session:
    header = Header(
        format=FORMAT, id="s", at="2026-01-01T00:00:00.000Z", cwd="/", system="Test."
    )
    if path is None:
        return Session.ephemeral(header, random=Random(1))
    return Session.create(path, header, random=Random(1))


class Case:
    """A Pod with prepared answers on a session of its own."""

    def __init__(
        self,
        *steps: tuple[Step, str] | Step,
        session: Session | None = None,
        tools: Sequence[Tool] = (FakeTool("do", done),),
        limits: Limits = Limits(),  # noqa: B008  frozen
        timeout: float | None = None,
    ) -> None:
        self.session = session or new_session()
        self.heard = Heard()
        self.entries: list[Known] = []
        self.session.on_entry = self.entries.append
        self.client = StepClient(*steps)
        setup = setup_for(self.client, tools, limits=limits)
        self.pod = Pod(
            self.session,
            setup,
            bounds=Bounds(timeout=timeout),
            listen=self.heard,
            settled=trio.lowlevel.checkpoint,
        )

    @property
    def kinds(self) -> list[type[Known]]:
        return [type(entry) for entry in self.entries]


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
