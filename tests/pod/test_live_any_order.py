"""A Pod that stays, asked for anything in any order, at any moment."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

import pytest
import trio
from hypothesis import example, given, settings, strategies as st
from msgspec import Struct
from msgspec.structs import replace

from pod.between_runs import Doors
from pod.branch_summary.summary import Summarized
from pod.compaction.opening import open_watch
from pod.context import context
from pod.entries import (
    AnyEntry,
    DeliveredEntry,
    FileDetails,
    HandedBack,
    Header,
    InputEntry,
    ItemEntry,
    RunEnd,
    RunStart,
)
from pod.errors import Refused, SetupError
from pod.live import LivePod
from pod.log import read_log
from pod.manifest import Manifest
from pod.pod import Switched
from pod.session import Session
from prompts import load
from tests.pod.compaction.pods import MODEL, TABLE, FillingPod, answering, unpaired
from tests.pod.lives import reaching
from tests.worker.compact import policies
from worker.history import faults
from worker.items import UserText
from worker.limits import Spent
from worker.policy import Route
from worker.scripted import ScriptedClient

What = Literal[
    "prompt",
    "steer",
    "follow_up",
    "interrupt",
    "pause",
    "resume",
    "compact",
    "abort_compaction",
    "navigate",
    "fork",
    "set_model",
]


class Step(Struct, frozen=True):
    """Something that is asked for after *wait* checkpoints.

    *number* is how many calls a prompt leads to, and which entry a leaf goes to.
    """

    wait: int
    what: What
    number: int


def steps() -> st.SearchStrategy[list[Step]]:
    # Mostly what makes work, and waits from none to those of a whole run.
    what = st.sampled_from(
        (
            *("prompt", "prompt", "steer", "follow_up", "pause", "resume", "resume"),
            *("compact", "compact", "interrupt", "abort_compaction"),
            *("navigate", "fork", "set_model"),
        )
    )
    wait = st.one_of(st.integers(0, 8), st.integers(0, 400))
    return st.lists(st.builds(Step, wait, what, st.integers(0, 6)), max_size=14)


def create(path: Path, header: Header) -> Session:
    if path.exists():
        return Session.open(path, durability="flush")
    return Session.create(path, header, durability="flush")


MODELS = {"m": MODEL, "small": replace(MODEL, id="small", window=30_000)}


class Slow:
    """Summarises a branch, a checkpoint an entry."""

    async def summarize(
        self,
        entries: Sequence[AnyEntry],
        *,
        spent: Spent,
        instructions: str = "",
        replace_instructions: bool = False,
    ) -> Summarized:
        for _ in entries:
            await trio.lowlevel.checkpoint()
        return Summarized(
            text="What was done there.",
            details=FileDetails(),
            model="m",
            summarised=len(entries),
            left_out=0,
            seconds=0.0,
        )


class Driving:
    """Asks one Pod for things, and keeps the texts that were taken in."""

    def __init__(self, path: Path, *, first: int) -> None:
        self.one = FillingPod(path, main=answering(), size=3_000, open_session=create)
        self._count = first

    def _text(self, step: Step) -> str:
        self._count += 1
        return f"{step.number} calls, said {self._count}."

    def _action(self, step: Step, live: LivePod) -> Callable[[], Awaitable[object]]:
        async def at_once(do: Callable[[], object]) -> None:
            do()

        match step.what:
            case "prompt":
                return partial(live.prompt, self._text(step))
            case "steer":
                return partial(at_once, partial(live.steer, self._text(step)))
            case "follow_up":
                return partial(at_once, partial(live.follow_up, self._text(step)))
            case "interrupt":
                return live.interrupt
            case "pause":
                return live.pause
            case "resume":
                return live.resume
            case "compact":
                return live.compact
            case "abort_compaction":
                return partial(at_once, live.abort_compaction)
            case "navigate":
                path = self.one.session.tree.path_ids(self.one.session.leaf)
                target = [None, *path][-(step.number * 7) % (len(path) + 1)]
                return partial(live.navigate, target, summarize=bool(step.number % 2))
            case "fork":
                return live.fork
            case "set_model":
                return partial(live.set_model, ["m", "small", "none"][step.number % 3])

    def _doors(self) -> Doors:
        def fork(log: Path, entry: str | None) -> str:
            return f"{len(read_log(log).entries)} entries"

        return Doors(switch=self._switch, fork=fork, summarizer=Slow)

    def _switch(self, name: str) -> Switched:
        if name not in MODELS:
            raise SetupError(f"there is no model {name}")
        one, old = self.one, self.one.pod.setup
        policy = Route({policies.TOOL: policies.lazy()}, answering())
        client = ScriptedClient(policy, MODELS[name])
        setup = replace(old, client=client, model=MODELS[name])
        watching = partial(
            open_watch,
            Manifest(compaction=TABLE),
            one.session,
            setup,
            scope=one.scope,
            files=one.files,
            tell=one.heard,
            maintenance=one.pod.watch.maintenance,
        )
        return Switched(
            setup=setup,
            watch=watching(worker_model=setup.model),
            before=watching(worker_model=old.model, asked=old),
        )

    async def drive(self, todo: Sequence[Step], *, is_cut_off: bool) -> None:
        """Ask for all of *todo*; wait for the end, or cut everything off."""
        one = self.one

        async with trio.open_nursery() as serving:
            live = LivePod(one.pod, listen=one.heard, doors=self._doors())
            await serving.start(live.serve)
            async with trio.open_nursery() as nursery:
                for step in todo:
                    for _ in range(step.wait):
                        await trio.lowlevel.checkpoint()
                    nursery.start_soon(self._ask, self._action(step, live))
                if is_cut_off:
                    serving.cancel_scope.cancel()
            await settle(live)
            assert one.session.pending_inputs == []
            await live.shutdown()

    async def _ask(self, action: Callable[[], Awaitable[object]]) -> None:
        with suppress_refusals():
            await action()


class suppress_refusals:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: object, trace: object) -> bool:
        return isinstance(error, Refused)


async def settle(live: LivePod) -> None:
    """Wait until nothing is under way; a turn that is paused is resumed."""

    def is_quiet() -> bool:
        waits = bool(live.session.pending_inputs) and live.state == "idle"
        return live.state in ("idle", "paused") and not waits

    for _ in range(50):
        for _ in range(30):
            await trio.lowlevel.checkpoint()
        await reaching(is_quiet)
        if live.state == "paused":
            with suppress_refusals():
                await live.resume()
    await reaching(lambda: live.state == "idle")


def check(path: Path) -> None:
    """Hold the log to what is promised, and open it again."""
    scan = read_log(path)
    assert scan.damage == ()
    entries = list(scan.entries)
    assert unpaired(entries) == []
    check_runs(entries)
    check_inputs(entries)
    check_continuations(entries)


def check_runs(entries: Sequence[AnyEntry]) -> None:
    starts = [entry.run for entry in entries if isinstance(entry, RunStart)]
    ends = [entry.run for entry in entries if isinstance(entry, RunEnd)]
    assert starts == ends  # one after the other, each with one end
    assert len({*starts}) == len(starts)
    reasons = {entry.reason for entry in entries if isinstance(entry, RunEnd)}
    assert reasons <= {
        *("done", "paused", "interrupted", "rolled_back", "cancelled", "shutdown"),
        *("context_full", "crashed"),
    }


def check_inputs(entries: Sequence[AnyEntry]) -> None:
    """Each input is delivered once, or handed back, or both: then rolled back."""
    inputs = {e.input: e.text for e in entries if isinstance(e, InputEntry)}
    delivered = Counter(
        input
        for entry in entries
        if isinstance(entry, DeliveredEntry)
        for input in entry.inputs
    )
    handed = Counter(
        input
        for entry in entries
        if isinstance(entry, HandedBack)
        for input in entry.inputs
    )
    assert set(delivered) | set(handed) == set(inputs)
    assert {*delivered.values(), *handed.values()} <= {1}
    said = Counter(
        entry.item.text
        for entry in entries
        if isinstance(entry, ItemEntry)
        and isinstance(entry.item, UserText)
        and not entry.item.synthetic
    )
    assert said == Counter(inputs[input] for input in delivered)


def check_continuations(entries: Sequence[AnyEntry]) -> None:
    """Nobody is asked to continue twice without a word of the user's between."""
    words = "".join(
        "c" if entry.item.text == load("continue_steps") else "u"
        for entry in entries
        if isinstance(entry, ItemEntry) and isinstance(entry.item, UserText)
    )
    assert "cc" not in words


def reloaded(path: Path, before: FillingPod) -> None:
    """Hold what was in memory to what the log gives."""
    session = before.session
    assert faults(session.items) == []
    assert session.problems == []
    assert list(session.items) == context(session.path_entries())
    kept = (list(session.items), session.leaf, session.pending_inputs)
    before.close()
    with Session.open(path) as again:
        assert again.recovered == ()
        assert (list(again.items), again.leaf, again.pending_inputs) == kept


@settings(max_examples=60, deadline=None)
@given(steps())
@example([Step(0, "prompt", 6), Step(200, "compact", 0), Step(3, "interrupt", 0)])
@example([Step(0, "prompt", 3), Step(1, "pause", 0), Step(0, "prompt", 1)])
@example([Step(0, "prompt", 6), Step(40, "navigate", 3), Step(0, "prompt", 2)])
def test_whatever_is_asked_for_in_any_order_the_promises_hold(
    todo: list[Step],
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        driving = Driving(path, first=0)

        trio.run(partial(driving.drive, todo, is_cut_off=False))

        reloaded(path, driving.one)
        check(path)


@settings(max_examples=40, deadline=None)
@given(steps(), steps())
def test_cut_off_anywhere_the_next_process_goes_on_and_the_promises_hold(
    todo: list[Step], later: list[Step]
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        first = Driving(path, first=0)
        trio.run(partial(first.drive, todo, is_cut_off=True))
        first.one.close()

        second = Driving(path, first=100)
        trio.run(partial(second.drive, later, is_cut_off=False))

        reloaded(path, second.one)
        check(path)


@pytest.mark.parametrize("first", get_args(What))
def test_any_two_requests_at_once_in_the_middle_of_a_run_keep_the_promises(
    first: What, tmp_path: Path
) -> None:
    """While a run asks, calls tools and is compacted; a few checkpoints apart."""
    for number, second in enumerate(get_args(What)):
        path = tmp_path / f"{second}.jsonl"
        driving = Driving(path, first=0)
        todo = [
            Step(0, "prompt", 6),
            Step(40 + 97 * number % 400, first, number),
            Step(number % 4, second, number + 1),
        ]

        trio.run(partial(driving.drive, todo, is_cut_off=False))

        reloaded(path, driving.one)
        check(path)


def test_a_log_of_it_that_ends_after_any_line_opens_with_the_same_promises(
    tmp_path: Path,
) -> None:
    """Rolled back, paused, resumed, moved, steered; the process dies at each write."""
    path = tmp_path / "s.jsonl"
    one = Driving(path, first=0)
    todo = [
        Step(0, "prompt", 1),
        Step(300, "prompt", 2),
        Step(6, "interrupt", 0),  # before an answer
        Step(30, "prompt", 3),
        Step(60, "pause", 0),
        Step(30, "compact", 0),
        Step(200, "resume", 0),
        Step(10, "follow_up", 1),
        Step(2, "interrupt", 0),  # in the middle
        Step(30, "navigate", 2),
        Step(30, "prompt", 0),
    ]
    trio.run(partial(one.drive, todo, is_cut_off=False))
    one.one.close()
    lines = path.read_bytes().splitlines(keepends=True)
    kinds = {type(entry) for entry in read_log(path).entries}
    assert {HandedBack, DeliveredEntry, RunEnd} <= kinds

    for kept in range(1, len(lines) + 1):
        cut = tmp_path / f"{kept}.jsonl"
        cut.write_bytes(b"".join(lines[:kept]))
        with Session.open(cut, durability="flush") as session:
            assert faults(session.items) == []
            assert session.problems == []
        entries = list(read_log(cut).entries)
        assert unpaired(entries) == []
        check_runs(entries)
        cut.unlink()
