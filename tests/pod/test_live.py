"""A Pod that stays: what it accepts when, and what becomes of it."""

from pathlib import Path

import pytest
import trio

from pod.entries import (
    DeliveredEntry,
    HandedBack,
    InputEntry,
    ItemEntry,
    RunEnd,
    RunStart,
    TurnAbandoned,
)
from pod.errors import (
    AlreadyRunning,
    InvalidRequest,
    NotPaused,
    NotRunning,
    ShutDown,
)
from pod.events import Status
from pod.live import LivePod
from pod.session import Session
from tests.fakes import FakeTool, called, said
from tests.pod.compaction.pods import header
from tests.pod.faults import SmallDisk
from tests.pod.lives import Gate, living, reaching, texts, until
from tests.pod.runs import Case
from tools.base import Call, ToolOutput
from worker.client import Failure
from worker.events import Retry, Warning
from worker.history import faults
from worker.items import AssistantText, ToolResult


def ends(case: Case) -> list[tuple[str, str]]:
    return [(e.outcome, e.reason) for e in case.entries if isinstance(e, RunEnd)]


async def test_a_prompt_is_accepted_once_its_run_has_begun() -> None:
    gate = Gate([said("one")])
    case = Case(gate)

    async with living(case.pod, case.heard) as live:
        run = await live.prompt("go")
        assert live.state == "running"
        assert case.session.run == run
        gate.open()
        await until(live, "idle")

    assert [type(entry) for entry in case.entries[:4]] == [
        InputEntry,
        RunStart,
        ItemEntry,
        DeliveredEntry,
    ]
    assert ends(case) == [("finished", "done")]


async def test_a_second_prompt_is_refused_while_a_run_is_under_way() -> None:
    gate = Gate([said("one")])
    case = Case(gate)

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        with pytest.raises(AlreadyRunning):
            await live.prompt("and this")
        gate.open()
        await until(live, "idle")

    assert texts(case.session.items) == ["go", "one"]


async def test_steering_goes_with_the_next_request_a_follow_up_is_a_run_behind() -> (
    None
):
    gate = Gate([called("a")])
    case = Case(gate, [said("steered")], [said("followed")])

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        live.follow_up("later")
        live.steer("now")
        gate.open()
        await reaching(lambda: len(ends(case)) == 2)

    assert texts(case.session.items) == ["go", "now", "steered", "later", "followed"]
    assert ends(case) == [("finished", "done")] * 2


async def test_two_follow_ups_are_two_runs() -> None:
    gate = Gate([said("one")])
    case = Case(gate, [said("two")], [said("three")])

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        live.follow_up("a")
        live.follow_up("b")
        gate.open()
        await reaching(lambda: len(ends(case)) == 3)

    assert texts(case.session.items) == ["go", "one", "a", "two", "b", "three"]


async def test_without_a_run_there_is_nothing_to_steer_pause_resume_or_interrupt() -> (
    None
):
    case = Case()

    async with living(case.pod, case.heard) as live:
        with pytest.raises(NotRunning):
            live.steer("x")
        with pytest.raises(NotRunning):
            await live.pause()
        with pytest.raises(NotPaused):
            await live.resume()
        with pytest.raises(NotRunning):
            await live.interrupt()
        with pytest.raises(InvalidRequest):
            await live.prompt(" \n")
    assert case.entries == []


async def test_a_pause_breaks_an_answer_off_and_the_turn_is_resumed() -> None:
    gate = Gate([said("never")])
    case = Case([called("a")], gate, [said("done")])

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await reaching(lambda: gate.is_reached)
        await live.pause()
        assert live.state == "paused"
        assert faults(case.session.items) == []
        run = await live.resume()
        await until(live, "idle")

    assert ends(case) == [("yielded", "paused"), ("finished", "done")]
    assert case.entries[-1].run == run
    assert texts(case.session.items) == ["go", "done"]
    broken_off, again = case.client.requests[1:]
    assert (
        again.messages[-1] == broken_off.messages[-1]
    )  # the first: but for cache marks


async def test_a_pause_awaits_tools() -> None:
    running, released = trio.Event(), trio.Event()

    async def work(call: Call) -> ToolOutput:
        running.set()
        await released.wait()
        return ToolOutput(summary="worked")

    case = Case([called("a")], tools=[FakeTool("do", work)])

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await running.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.pause)
            await trio.testing.wait_all_tasks_blocked()
            assert live.state == "running"
            released.set()
        await until(live, "paused")

    results = [i for i in case.session.items if isinstance(i, ToolResult)]
    assert [(r.summary, r.is_error) for r in results] == [("worked", False)]


async def test_a_prompt_while_paused_leaves_the_turn_behind() -> None:
    gate = Gate([said("never")])
    case = Case([called("a")], gate, [said("done")])

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await reaching(lambda: gate.is_reached)
        await live.pause()
        await live.prompt("something else")
        await until(live, "idle")
        with pytest.raises(NotPaused):
            await live.resume()

    assert texts(case.session.items) == ["go", "something else", "done"]
    assert faults(case.session.items) == []


async def test_a_prompt_while_a_pause_waits_for_tools_stops_and_answers_them() -> None:
    running = trio.Event()

    async def hang(call: Call) -> ToolOutput:
        running.set()
        await trio.sleep_forever()
        raise AssertionError

    case = Case([called("a")], [said("done")], tools=[FakeTool("do", hang)])

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await running.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.pause)
            await trio.testing.wait_all_tasks_blocked()
            await live.prompt("never mind")
        await until(live, "idle")

    assert ends(case) == [("yielded", "paused"), ("finished", "done")]
    results = [i for i in case.session.items if isinstance(i, ToolResult)]
    assert ["cancelled" in r.summary for r in results] == [True]
    assert texts(case.session.items) == ["go", "never mind", "done"]


async def test_a_paused_turn_outlives_the_process() -> None:
    gate = Gate([said("never")])
    case = Case([called("a")], gate)
    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await reaching(lambda: gate.is_reached)
        await live.pause()

    again = Case([said("done")], session=case.session)
    async with living(again.pod, again.heard) as live:
        assert live.state == "paused"
        await live.resume()
        await until(live, "idle")
    assert texts(again.session.items) == ["go", "done"]


async def test_an_interrupted_run_ends_and_is_not_resumed() -> None:
    gate = Gate([said("never")])
    case = Case([called("a")], gate)

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await reaching(lambda: gate.is_reached)
        live.steer("waits")
        await live.interrupt()
        assert live.state == "idle"
        with pytest.raises(NotPaused):
            await live.resume()

    (end,) = [e for e in case.entries if isinstance(e, RunEnd)]
    assert (end.outcome, end.reason) == ("cancelled", "interrupted")
    assert end.returned == ("waits",)
    assert case.session.pending_inputs == []
    assert texts(case.session.items) == ["go"]


async def test_a_run_interrupted_before_any_answer_is_rolled_back_to_its_sender() -> (
    None
):
    gate = Gate([said("never")])
    case = Case([said("one")], gate, [said("two")])

    async with living(case.pod, case.heard) as live:
        await live.prompt("first")
        await until(live, "idle")
        items = list(case.session.items)
        await live.prompt("second")
        await reaching(lambda: gate.is_reached)
        live.steer("and this")
        await live.interrupt()
        assert list(case.session.items) == items

        await live.prompt("third")
        await until(live, "idle")

    end = [e for e in case.entries if isinstance(e, RunEnd)][1]
    assert (end.outcome, end.reason) == ("cancelled", "rolled_back")
    assert end.returned == ("second", "and this")
    assert texts(case.session.items) == ["first", "one", "third", "two"]
    assert {e.texts for e in case.entries if isinstance(e, HandedBack)} == {
        ("second",),
        ("and this",),
    }


async def test_an_interrupt_gives_a_paused_turn_up() -> None:
    gate = Gate([said("never")])
    case = Case([called("a")], gate)

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await reaching(lambda: gate.is_reached)
        await live.pause()
        await live.interrupt()
        assert live.state == "idle"
        with pytest.raises(NotPaused):
            await live.resume()
    assert isinstance(case.entries[-1], TurnAbandoned)


async def test_a_paused_turn_without_an_answer_is_taken_back_by_an_interrupt() -> None:
    gate = Gate([said("never")])
    case = Case(gate)

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await reaching(lambda: gate.is_reached)
        await live.pause()
        await live.interrupt()
    assert list(case.session.items) == []
    assert [e.texts for e in case.entries if isinstance(e, HandedBack)] == [("go",)]
    assert not case.session.state.interrupted


async def test_a_shutdown_ends_the_run_and_keeps_what_waits() -> None:
    gate = Gate([said("never")])
    case = Case([called("a")], gate)
    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await reaching(lambda: gate.is_reached)
        live.steer("waits")
        await live.shutdown()
        with pytest.raises(ShutDown):
            await live.prompt("more")
    assert ends(case) == [("cancelled", "shutdown")]

    again = Case([said("done")], session=case.session)
    async with living(again.pod, again.heard) as live:
        await reaching(lambda: len(ends(again)) == 1)
    assert texts(again.session.items) == ["go", "waits", "done"]


async def test_an_interrupt_reaches_a_wait_for_a_retry(
    mock_clock: trio.testing.MockClock,
) -> None:
    busy = Failure("overloaded", "busy", status=529)
    case = Case([called("a")], busy)

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await reaching(lambda: bool(case.heard.of(Retry)))
        await live.interrupt()  # nobody lets time pass

    assert ends(case) == [("cancelled", "interrupted")]


async def test_a_pause_reaches_a_wait_for_a_retry(
    mock_clock: trio.testing.MockClock,
) -> None:
    busy = Failure("overloaded", "busy", status=529)
    case = Case([called("a")], busy, [said("done")])

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await reaching(lambda: bool(case.heard.of(Retry)))
        await live.pause()
        assert live.state == "paused"
        await live.resume()
        await until(live, "idle")

    assert ends(case) == [("yielded", "paused"), ("finished", "done")]


async def test_an_interrupt_stops_tools_and_answers_their_calls() -> None:
    running = trio.Event()

    async def hang(call: Call) -> ToolOutput:
        running.set()
        await trio.sleep_forever()
        raise AssertionError

    case = Case([called("a")], tools=[FakeTool("do", hang)])

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await running.wait()
        await live.interrupt()

    assert ends(case) == [("cancelled", "interrupted")]
    assert faults(case.session.items) == []
    assert isinstance(case.session.items[-1], ToolResult)


async def test_what_is_under_way_is_told_as_it_changes() -> None:
    gate = Gate([said("never")])
    case = Case([called("a")], gate, [said("done")])

    async with living(case.pod, case.heard) as live:
        await live.prompt("go")
        await reaching(lambda: gate.is_reached)
        await live.pause()
        await live.resume()
        await until(live, "idle")

    told = [event.state for event in case.heard.of(Status)]
    assert told == ["idle", "running", "paused", "running", "idle"]


async def test_a_run_that_ends_by_a_bug_does_not_end_the_pod() -> None:
    class Broken(Exception):
        pass

    async def fail() -> list[AssistantText]:
        raise Broken("no such thing")

    case = Case(fail, [said("two")])

    async with living(case.pod, case.heard) as live:
        await live.prompt("a")
        await until(live, "idle")
        await live.prompt("b")
        await until(live, "idle")

    assert ends(case) == [("failed", "internal_error"), ("finished", "done")]
    assert any("no such thing" in w.message for w in case.heard.of(Warning))


async def test_a_pod_that_was_never_served_can_be_shut_down() -> None:
    case = Case()
    live = LivePod(case.pod, listen=case.heard)

    await live.shutdown()

    with pytest.raises(ShutDown):
        live.steer("x")


async def test_who_waits_for_a_prompt_may_go_away_and_the_run_goes_on() -> None:
    gate = Gate([said("one")])
    case = Case(gate)

    async with living(case.pod, case.heard) as live:
        with trio.CancelScope() as scope:
            scope.cancel()
            await live.prompt("go")
        await reaching(lambda: gate.is_reached)
        gate.open()
        await until(live, "idle")

    assert texts(case.session.items) == ["go", "one"]


async def test_a_full_disk_is_not_written_to_again_and_again_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    disk = SmallDisk(1 << 30)
    gate = Gate([called("a")])
    session = Session.create(
        tmp_path / "s.jsonl", header(), disk=disk, durability="flush"
    )
    case = Case(gate, [said("done")], [said("after")], session=session)

    with session:
        async with living(case.pod, case.heard) as live:
            await live.prompt("go")
            await reaching(lambda: gate.is_reached)
            live.follow_up("later")
            disk.room = 0
            gate.open()
            await until(live, "idle")
            await trio.testing.wait_all_tasks_blocked()
            assert live.state == "idle"
            assert ends(case) == []  # there is no room to say so

            disk.room = 1 << 30
            await live.resume()
            await reaching(lambda: len(ends(case)) == 3)
            await until(live, "idle")

    assert ends(case) == [("failed", "disk_full"), *[("finished", "done")] * 2]
    assert texts(case.session.items) == ["go", "done", "later", "after"]
