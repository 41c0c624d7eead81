"""A Pod in a program: what the page on it does not show."""

import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from pod import Pod, tool
from pod.compaction.job import Skipped
from pod.entries import InputEntry, ItemEntry, RunEnd, RunStart, ToolStart
from pod.errors import AlreadyRunning, NotRunning, SetupError
from pod.events import Event
from tests.recorded import inherited
from tests.tools.sandbox.tiers import some_bash
from tools.python_function import FunctionError
from worker.client import TextDelta
from worker.events import Warning
from worker.items import ToolResult
from worker.model import Model
from worker.policy import Policy, Script, call, say
from worker.scripted import ScriptedClient

MANIFEST = """
[model]
provider = "scripted"
id = "echo:2"
[tools]
builtin = ["bash"]
[session]
dir = "sessions"
durability = "flush"
[permissions]
write_roots = []
""" + some_bash()


MODEL = Model(provider="scripted", id="echo:2", window=100_000, max_tokens=32_000)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "pod.toml").write_text(MANIFEST, encoding="utf-8")
    return tmp_path


def sessions(place: Path) -> list[str]:
    return [path.stem for path in (place / "sessions").glob("*.jsonl")]


async def test_a_run_is_in_the_session_and_can_be_gone_on_with(place: Path) -> None:
    async with Pod.from_manifest(place / "pod.toml", cwd=place) as pod:
        first = await pod.run("one")
        second = await pod.run("two")
        session = pod.session
    async with Pod.from_manifest(cwd=place, resume=session) as again:
        third = await again.run("three")

    assert [end.text for end in (first, second, third)] == ["Done after 2 calls."] * 3
    assert len({first.run, second.run, third.run}) == 3
    assert sessions(place) == [session]


async def test_an_ephemeral_one_is_kept_nowhere(place: Path) -> None:
    async with Pod.from_manifest(cwd=place, ephemeral=True) as pod:
        assert (await pod.run("one")).outcome == "finished"

    assert sessions(place) == []


async def test_a_pod_in_which_nothing_happened_leaves_no_session(place: Path) -> None:
    async with Pod.from_manifest(cwd=place):
        pass

    assert sessions(place) == []


async def test_what_the_program_raises_comes_out_as_it_is(place: Path) -> None:
    async def fail() -> None:
        async with Pod.from_manifest(cwd=place) as pod:
            await pod.run("one")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def test_two_runs_at_once_are_refused(place: Path) -> None:
    settings = ['model.id="echo:1000"']
    async with Pod.from_manifest(cwd=place, settings=settings) as pod:
        async with pod.stream("one") as events:
            async for event in events:
                if isinstance(event, RunStart):
                    break
            with pytest.raises(AlreadyRunning):
                await pod.run("two")
            with pytest.raises(AlreadyRunning):
                async with pod.stream("three"):
                    pass
            states = [pod.state]
        states.append(pod.state)
        with pytest.raises(NotRunning):
            pod.steer("left")

    assert states == ["running", "idle"]


async def test_a_cancelled_run_is_closed_in_the_log_and_the_next_one_runs(
    place: Path,
) -> None:
    settings = ['model.id="echo:1000"']
    ends: list[Event] = []
    async with Pod.from_manifest(cwd=place, settings=settings) as pod:
        pod.add_listener(ends.append, types=[RunEnd])
        with trio.CancelScope() as scope:
            pod.add_listener(lambda event: scope.cancel(), types=[ToolStart])
            await pod.run("long")
        cancelled = scope.cancelled_caught

    (end,) = ends
    assert cancelled
    assert isinstance(end, RunEnd)
    assert (end.outcome, end.reason) == ("cancelled", "interrupted")


async def test_a_stream_gives_all_of_a_run_and_ends_with_it(place: Path) -> None:
    heard: list[Event] = []
    async with Pod.from_manifest(cwd=place) as pod:
        pod.add_listener(heard.append)
        async with pod.stream("one") as events:
            streamed = [event async for event in events]

    assert events.result == streamed[-1]
    first = heard.index(streamed[0])
    assert heard[first : first + len(streamed)] == streamed
    assert [e.text for e in streamed if isinstance(e, InputEntry)] == ["one"]
    assert any(isinstance(event, TextDelta) for event in streamed)


async def test_a_stream_that_nobody_reads_holds_nothing_up(place: Path) -> None:
    async with Pod.from_manifest(cwd=place) as pod:
        async with pod.stream("one") as events:
            await pod.settled()
            unread = [event async for event in events]

    assert isinstance(unread[-1], RunEnd)


async def test_a_listener_that_raises_is_taken_off_and_told_of(place: Path) -> None:
    heard: list[Event] = []
    calls: list[Event] = []

    def broken(event: Event) -> None:
        calls.append(event)
        raise ValueError("no")

    async with Pod.from_manifest(cwd=place) as pod:
        pod.add_listener(heard.append)
        pod.add_listener(broken, types=[RunStart, RunEnd])
        end = await pod.run("one")

    assert end.outcome == "finished"
    assert len(calls) == 1
    (warning,) = [event for event in heard if isinstance(event, Warning)]
    assert "broken was taken off: ValueError: no" in warning.message


async def test_listeners_that_raise_at_whatever_they_hear_end_no_run(
    place: Path,
) -> None:
    heard: list[Event] = []
    calls: list[str] = []

    def first(event: Event) -> None:
        calls.append("first")
        raise ValueError("no")

    def second(event: Event) -> None:
        calls.append("second")
        raise ValueError("not even a warning")

    def last(event: Event) -> None:
        calls.append("last")
        take_off()
        raise ValueError("and gone")

    async with Pod.from_manifest(cwd=place) as pod:
        for each in (first, second):
            pod.add_listener(each)
        take_off = pod.add_listener(last)
        pod.add_listener(heard.append, types=[Warning])
        end = await pod.run("one")

    assert end.outcome == "finished"
    assert sorted(calls) == ["first", "last", "second"]
    assert len(heard) == 3


async def test_a_listener_can_be_taken_off(place: Path) -> None:
    heard: list[Event] = []
    async with Pod.from_manifest(cwd=place) as pod:
        remove = pod.add_listener(heard.append)
        remove()
        remove()
        await pod.run("one")

    assert heard == []


def calling(name: str) -> Policy:
    """Call *name* once, then say what came of it."""
    return Script([call(("c", name, '{"a": 2, "b": 3}')), say("done")])


async def test_a_function_is_a_tool(place: Path) -> None:
    @tool(name="plus", read_only=True)
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        await trio.lowlevel.checkpoint()
        return a + b

    heard: list[Event] = []
    async with Pod.from_manifest(
        cwd=place,
        tools=[add],
        client=lambda: ScriptedClient(calling("plus"), MODEL),
    ) as pod:
        pod.add_listener(heard.append, types=[ItemEntry])
        await pod.run("add")

    results = [
        e.item.content or e.item.summary
        for e in heard
        if isinstance(e, ItemEntry) and isinstance(e.item, ToolResult)
    ]
    assert results == ["5"]
    assert await add(1, 2) == 3


def test_what_cannot_be_a_tool_is_said_where_it_is_marked() -> None:
    with pytest.raises(FunctionError, match="untyped"):

        @tool
        def untyped(a) -> str:  # type: ignore[no-untyped-def]
            """Take what has no type."""
            return str(a)


async def test_a_name_that_two_tools_have_is_refused(place: Path) -> None:
    @tool
    def bash() -> str:
        """Do nothing."""
        return ""

    with pytest.raises(SetupError, match="two tools are called 'bash'"):
        async with Pod.from_manifest(cwd=place, tools=[bash]):
            pass


async def test_a_folder_that_is_not_there_is_said(place: Path) -> None:
    with pytest.raises(SetupError, match="there is no such folder"):
        async with Pod.from_manifest(cwd=place / "none"):
            pass


async def test_a_session_of_another_folder_is_refused(place: Path) -> None:
    (place / "other").mkdir()
    manifest = place / "pod.toml"
    async with Pod.from_manifest(manifest, cwd=place) as pod:
        await pod.run("one")

    with pytest.raises(SetupError, match="go on there with"):
        async with Pod.from_manifest(manifest, cwd=place / "other", resume=pod.session):
            pass


async def test_compacting_says_what_came_of_it(place: Path) -> None:
    async with Pod.from_manifest(cwd=place) as pod:
        outcome = await pod.compact()

    assert isinstance(outcome, Skipped)
    assert outcome.reason == "empty"


async def test_the_manifests_listeners_hear_it_too(place: Path) -> None:
    with (place / "pod.toml").open("a", encoding="utf-8") as manifest:
        manifest.write('[[listeners]]\nfile = "events.jsonl"\ntypes = ["result"]\n')
    async with Pod.from_manifest(cwd=place) as pod:
        await pod.run("one")

    assert (place / "events.jsonl").read_bytes().count(b'"type":"result"') == 1


async def test_pausing_and_going_on(place: Path) -> None:
    ends: list[RunEnd] = []
    gate = trio.Event()

    async def wait() -> None:
        """Wait."""
        await gate.wait()

    policy = Script([call(("c", "wait", "{}")), say("done")])
    async with Pod.from_manifest(
        cwd=place, tools=[wait], client=lambda: ScriptedClient(policy, MODEL)
    ) as pod:
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                ends.append(await pod.run("go"))

            async def pause() -> None:
                nursery.start_soon(pod.pause)
                await trio.testing.wait_all_tasks_blocked()
                gate.set()

            pod.add_listener(lambda e: nursery.start_soon(pause), types=[ToolStart])
            nursery.start_soon(run)
        assert pod.state == "paused"
        ends.append(await pod.resume())

    assert [(end.reason, end.text) for end in ends] == [
        ("paused", ""),
        ("done", "done"),
    ]


def test_importing_pod_imports_nothing_of_it() -> None:
    code = "import sys, pod; print([m for m in sys.modules if m.startswith('pod.')])"

    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=inherited(),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "[]\n"
