"""A compaction that is cancelled, or whose process dies, anywhere at all."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings, strategies as st
from msgspec import Struct
from msgspec.structs import replace

from pod.context import context
from pod.entries import (
    AnyEntry,
    Compaction,
    CompactionFailed,
    CompactionStart,
    Mode,
)
from pod.log import read_log
from pod.session import Session
from pod.view import problems_of_path
from tests.instruments import CancelAt
from tests.pod.compaction.pods import TABLE, FillingPod, unpaired
from tests.strategies import modest
from tests.worker.compact import policies, summarisers
from worker.history import faults
from worker.items import AssistantText, Item

CALLS = 8
DONE = f"All {CALLS} are fetched."
MOST_STEPS = 4_000
STRIDE = 17
"""Every step would take minutes. A prime comes by all places of the loop's rhythm."""


class Case(Struct, frozen=True):
    """Who summarises: a worker, or what *mode* asks.

    *stride* is every how many steps a run is cancelled: a compaction of one
    request takes few.
    """

    worker: str = "lazy"
    mode: Mode = "worker"
    stride: int = STRIDE

    def pod(self, path: Path) -> FillingPod:
        table = replace(TABLE, mode=self.mode, keep_recent_tokens=4_000)
        return FillingPod(
            path,
            calls=CALLS,
            worker=policies.ALL[self.worker](),
            summariser=summarisers.careful(),
            table=replace(table, order=("mechanical",)),
        )


CASES = {
    "careful": Case("careful"),
    "lazy": Case("lazy"),
    "empty": Case("empty"),
    "summarize": Case(mode="summarize"),
    "native": Case(mode="native", stride=5),
}


def entries_of(path: Path) -> Sequence[AnyEntry]:
    scan = read_log(path)
    assert scan.damage == ()
    return scan.entries


def check(path: Path) -> None:
    """Open the log, as the next process does, and hold it to what is promised."""
    with Session.open(path) as session:
        entries = session.path_entries()
        assert unpaired(list(entries)) == []
        assert problems_of_path(entries) == []
        assert faults(session.items) == []
        assert list(session.items) == context(entries)


async def finish(path: Path, case: Case) -> None:
    """Go on with the session until its job is done, or begin it."""
    pod = case.pod(path)
    try:
        items = pod.session.items
        if is_done(items):
            return
        is_begun = bool(items) or bool(pod.session.pending_inputs)
        end = await pod.pod.run(None if is_begun else "Fetch everything.")
    finally:
        pod.close()
    assert (end.outcome, end.text) == ("finished", DONE)


def is_done(items: Sequence[Item]) -> bool:
    return bool(items) and isinstance(items[-1], AssistantText)


async def cancelled_at(path: Path, number: int, case: Case) -> bool:
    """Cancel a run at its *number*-th step; return whether it came to that."""
    pod = case.pod(path)
    scope = trio.CancelScope()
    instrument = CancelAt(scope, number)
    trio.lowlevel.add_instrument(instrument)
    try:
        with scope:
            await pod.pod.run("Fetch everything.")
    finally:
        trio.lowlevel.remove_instrument(instrument)
        pod.close()
    return instrument.has_come


@pytest.mark.parametrize("name", CASES)
def test_a_compaction_cancelled_at_any_step_has_one_end_and_the_job_gets_done(
    name: str, tmp_path: Path
) -> None:
    case = CASES[name]

    async def run(folder: Path, number: int) -> bool:
        path = folder / "s.jsonl"
        has_come = await cancelled_at(path, number, case)
        check(path)
        if has_come:
            await finish(path, case)
            check(path)
        return has_come

    number, codes = 1, set[str]()
    while number < MOST_STEPS:
        folder = tmp_path / str(number)
        folder.mkdir()
        has_come = trio.run(run, folder, number)
        codes |= {
            entry.code
            for entry in entries_of(folder / "s.jsonl")
            if isinstance(entry, CompactionFailed)
        }
        shutil.rmtree(folder)
        if not has_come:
            break
        number += case.stride

    assert number > 3 * case.stride
    assert "cancelled" in codes


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with compactions in it, of a run that was never interrupted."""
    path = tmp_path_factory.mktemp("whole") / "s.jsonl"

    async def run() -> None:
        pod = FillingPod(path, calls=CALLS, worker=policies.ALL["careful"]())
        await pod.pod.run("Fetch everything.")
        pod.close()

    trio.run(run)
    return path


@settings(modest, max_examples=8)
@given(data=st.data())
def test_a_log_that_ends_anywhere_opens_whole_and_the_job_gets_done(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = whole.read_bytes().splitlines(keepends=True)
    kept = data.draw(st.integers(2, len(lines)), label="lines")
    torn = data.draw(st.integers(0, 200), label="bytes of the next")
    path = tmp_path_factory.mktemp("cut") / "s.jsonl"
    following = lines[kept] if kept < len(lines) else b""
    path.write_bytes(b"".join(lines[:kept]) + following[:torn][: len(following) - 1])

    check(path)
    if kept < len(lines):
        trio.run(finish, path, CASES["careful"])
        check(path)


def test_a_compaction_the_process_died_in_is_told_to_have_crashed(
    whole: Path, tmp_path: Path
) -> None:
    lines = whole.read_bytes().splitlines(keepends=True)
    at = next(
        number
        for number, entry in enumerate(entries_of(whole), start=1)
        if isinstance(entry, CompactionStart)
    )
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(lines[: at + 1]))

    check(path)

    failed = [e for e in entries_of(path) if isinstance(e, CompactionFailed)]
    assert [entry.code for entry in failed] == ["crashed"]
    assert not any(isinstance(e, Compaction) for e in entries_of(path))
