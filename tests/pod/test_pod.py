"""A run: what it leaves in the log, and how every way out of it ends."""

import errno
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest
import trio

from pod.closing import is_open
from pod.compaction.opening import open_watch
from pod.context import context
from pod.disk import Disk, RealDisk
from pod.ending import Stop
from pod.entries import (
    FORMAT,
    AnyEntry,
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
from pod.log import read_log
from pod.manifest import Manifest
from pod.pod import Bounds, NothingToDo, Pod
from pod.session import Session
from tests.fakes import FakeTool, Heard, Step, StepClient, called, said
from tests.instruments import CancelAt
from tests.pod.faults import FaultyDisk, FillingDisk
from tests.turns import MODEL, done, setup_for
from tools.base import Call, Tool, ToolOutput
from tools.files_in_use import FilesInUse
from tools.scope import Scope
from worker.client import Failure, FailureKind
from worker.events import Warning
from worker.history import faults
from worker.items import AssistantText, ToolCall, ToolResult, UserText
from worker.limits import Limits
from worker.usage import Usage


def new_session(path: Path | None = None, disk: Disk | None = None) -> Session:
    header = Header(
        format=FORMAT, id="s", at="2026-01-01T00:00:00.000Z", cwd="/", system="Test."
    )
    if path is None:
        session = Session.ephemeral(header, random=Random(1))
        # Whatever becomes of the test, its folder goes with the session.
        weakref.finalize(session, rmtree, session.files, ignore_errors=True)
        return session
    return Session.create(path, header, disk=disk, random=Random(1))


class Case:
    """A Pod with prepared answers on a session of its own."""

    def __init__(
        self,
        *steps: tuple[Step, str] | Step,
        session: Session | None = None,
        tools: Sequence[Tool] = (FakeTool("do", done),),
        limits: Limits = Limits(),  # noqa: B008  frozen
        timeout: float | None = None,
        manifest: Manifest = Manifest(),  # noqa: B008  frozen
    ) -> None:
        self.session = session or new_session()
        self.tools = tools
        random = Random(len(self.session.tree))  # another in each process
        self.heard = Heard()
        self.entries: list[Known] = []
        self.session.on_entry = self.entries.append
        self.client = StepClient(*steps)
        setup = setup_for(
            self.client,
            tools,
            limits=limits,
            new_id=lambda: f"{random.getrandbits(32):08x}",
        )
        self.scope = Scope([], [], Path.cwd())
        files = FilesInUse()
        watch = open_watch(
            manifest,
            self.session,
            setup,
            scope=self.scope,
            worker_model=MODEL,
            files=files,
            tell=self.heard,
        )
        self.pod = Pod(
            self.session,
            setup,
            bounds=Bounds(timeout=timeout),
            listen=self.heard,
            settled=trio.lowlevel.checkpoint,
            watch=watch,
            files=files,
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


def check_story(entries: Sequence[AnyEntry]) -> None:
    """Hold a log to what is promised of every one."""
    items = context(entries)
    starts = [entry.run for entry in entries if isinstance(entry, RunStart)]
    ends = [entry.run for entry in entries if isinstance(entry, RunEnd)]
    calls = [item.call_id for item in items if isinstance(item, ToolCall)]
    answers = [item.call_id for item in items if isinstance(item, ToolResult)]
    assert faults(items) == []
    assert answers == calls
    assert ends == starts
    assert isinstance(entries[-1], RunEnd)


def steps() -> list[Step]:
    return [
        [said("first"), called("a"), called("b", "slow"), called("c", "unknown")],
        Failure(kind="truncated", message="cut", usage=Usage(input=50, output=5)),
        [called("d"), called("e")],
        [said("done")],
    ]


async def slow(call: Call) -> ToolOutput:
    for _ in range(3):
        await trio.lowlevel.checkpoint()
    return ToolOutput(summary="slow", content="x" * 300_000)


async def run_and_cancel(folder: Path, number: int) -> bool:
    """Cancel a run at its *number*-th step; return whether it came to that."""
    path = folder / f"{number}.jsonl"
    with new_session(path) as session:
        case = Case(
            *steps(),
            session=session,
            tools=[FakeTool("do", done), FakeTool("slow", slow, has_effects=False)],
        )
        with trio.CancelScope() as scope:
            instrument = CancelAt(scope, number)
            trio.lowlevel.add_instrument(instrument)
            try:
                await case.pod.run("go")
            finally:
                trio.lowlevel.remove_instrument(instrument)
        items = list(session.items)
        told = list(case.entries)
    with Session.open(path) as again:
        assert list(again.items) == items
        assert again.recovered == ()
        assert again.path_entries() == told
        check_story(told)
        if is_open(again):
            await Case([said("done")], session=again).pod.run(None)
            check_story(again.path_entries())
    return instrument.has_come


async def test_a_run_cancelled_at_any_of_its_steps_leaves_a_whole_story(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    number = 1
    while await run_and_cancel(tmp_path, number):
        number += 1

    assert number > 30


async def run_until_full(folder: Path, room: int) -> RunEnd:
    """Run on a disk with *room* bytes, then with more; return the first run's end."""
    path = folder / f"{room}.jsonl"
    disk = FillingDisk(folder / f"{room}.jsonl.reserve")
    with new_session(path, disk) as session:
        disk.fill(room)
        case = Case(
            *steps(),
            session=session,
            tools=[FakeTool("do", done), FakeTool("slow", done)],
        )
        end = await case.pod.run("go")
        items = list(session.items)
        is_left_open = is_open(session)
        told = list(case.entries)
    assert told[-1] == end
    with Session.open(path) as again:
        assert list(again.items) == items
        assert again.path_entries() == told
        assert is_open(again) == is_left_open == end.interrupted
        assert faults(items) == []
        rest = Case([said("done")], session=again)
        later = await rest.pod.run(None if is_left_open else "go")
        assert (later.reason, later.text) == ("done", "done")
        assert faults(list(again.items)) == []
    return end


async def test_a_disk_that_is_full_at_any_write_ends_the_run_resumably(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    room = 0
    ends: list[RunEnd] = []
    while not ends or ends[-1].reason != "done":
        ends.append(await run_until_full(tmp_path, room))
        room += 97

    assert len(ends) > 30
    assert {end.reason for end in ends[:-1]} == {"disk_full"}
    assert {end.exit_code for end in ends[:-1]} == {Exit.FAILED}
    assert not ends[0].interrupted  # the prompt never got in


async def test_the_same_pod_goes_on_once_there_is_room(tmp_path: Path) -> None:
    disk = FillingDisk(tmp_path / "s.jsonl.reserve")

    async def fill(call: Call) -> ToolOutput:
        disk.fill(300)
        return ToolOutput(summary="filled", content="x" * 5_000)

    session = new_session(tmp_path / "s.jsonl", disk)
    case = Case(
        [called("a")], [said("done")], session=session, tools=[FakeTool("do", fill)]
    )
    first = await case.pod.run("go")
    disk.fill(1 << 20)

    second = await case.pod.run(None)

    assert (first.reason, second.reason) == ("disk_full", "done")
    check_story(session.path_entries())
    session.close()


async def test_last_words_are_short_though_the_answer_was_long(tmp_path: Path) -> None:
    disk = FillingDisk(tmp_path / "s.jsonl.reserve")

    async def fill() -> list[AssistantText]:
        disk.fill(200_500)
        return [said("x" * 200_000)]

    session = new_session(tmp_path / "s.jsonl", disk)
    case = Case(fill, session=session)

    end = await case.pod.run("go")

    session.close()
    assert (end.reason, len(end.text)) == ("disk_full", 200_000)
    with Session.open(tmp_path / "s.jsonl") as again:
        last = again.path_entries()[-1]
    assert isinstance(last, RunEnd)
    assert (last.reason, last.text) == ("disk_full", "x" * 4_000)


async def test_a_log_that_cannot_be_synced_ends_the_run(tmp_path: Path) -> None:
    disk = FaultyDisk(
        lambda number, name: errno.EIO if number > 6 and name == "sync" else 0
    )
    session = new_session(tmp_path / "s.jsonl", disk)
    case = Case([called("a")], [said("done")], session=session)

    end = await case.pod.run("go")

    session.close()
    assert (end.outcome, end.reason, end.exit_code) == ("failed", "log_failed", 1)


async def test_what_a_run_says_at_its_end_is_what_was_told(tmp_path: Path) -> None:
    syncs = 0

    def fails(number: int, name: str) -> int:
        nonlocal syncs
        syncs += name == "sync"
        return errno.EIO if name == "sync" and syncs == 4 else 0

    session = new_session(tmp_path / "s.jsonl", FaultyDisk(fails))
    case = Case([said("done")], session=session)

    end = await case.pod.run("go")

    session.close()
    assert syncs == 4
    assert end == case.entries[-1]
    assert end.reason == "done"
    assert "could not be synced" in case.heard.of(Warning)[-1].message or (
        "cannot sync" in case.heard.of(Warning)[-1].message
    )


class OnceFailing(RealDisk):
    """A disk that fails once, in the write that has *text* in it."""

    def __init__(self, text: bytes) -> None:
        self._text: bytes | None = text

    def write(self, fd: int, data: memoryview) -> int:
        if self._text is not None and self._text in bytes(data):
            self._text = None
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(fd, data)


async def test_an_end_that_the_log_did_not_take_is_written_before_the_next_run(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.jsonl"
    session = new_session(path, OnceFailing(b'"run_end"'))
    case = Case([said("one")], [said("two")], session=session)

    first = await case.pod.run("first")
    second = await case.pod.run("second")
    session.close()

    entries = read_log(path).entries
    starts = [entry.run for entry in entries if isinstance(entry, RunStart)]
    ends = [entry.run for entry in entries if isinstance(entry, RunEnd)]
    assert (first.reason, second.reason) == ("log_failed", "done")
    assert ends == starts


async def test_a_run_whose_start_found_no_room_has_a_start_before_its_end(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.jsonl"
    session = new_session(path, OnceFailing(b'"run_start"'))
    case = Case(session=session)

    end = await case.pod.run("first")
    session.close()

    kinds = [type(entry) for entry in read_log(path).entries]
    assert (end.reason, kinds) == ("log_failed", [RunStart, RunEnd])


async def test_a_run_that_was_left_without_an_end_gets_one_on_opening(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.jsonl"
    session = new_session(path, OnceFailing(b'"run_end"'))
    await Case([said("one")], session=session).pod.run("first")
    session.navigate(None)
    session.close()

    with Session.open(path) as opened:
        (end,) = opened.recovered

    assert isinstance(end, RunEnd)
    assert (end.reason, end.interrupted) == ("crashed", False)
