"""Runs that are cancelled at any step, or find the disk full at any write."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import trio

from pod.closing import is_open
from pod.context import context
from pod.disk import RealDisk
from pod.entries import (
    AnyEntry,
    RunEnd,
    RunStart,
)
from pod.exits import Exit
from pod.log import read_log
from pod.session import Session
from tests.fakes import FakeTool, Step, called, said
from tests.instruments import CancelAt
from tests.pod.faults import FaultyDisk, FillingDisk
from tests.pod.runs import Case, new_session
from tests.turns import done
from tools.base import Call, ToolOutput
from worker.client import Failure
from worker.events import Warning
from worker.history import faults
from worker.items import AssistantText, ToolCall, ToolResult
from worker.usage import Usage


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
