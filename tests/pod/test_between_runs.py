"""What is done with a Pod that stays between two runs: leaf, model, forks."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from pod.between_runs import Doors
from pod.branch_summary.summary import Summarized
from pod.compaction.opening import open_watch
from pod.entries import (
    AnyEntry,
    BranchSummary,
    CompactionStart,
    FileDetails,
    ItemEntry,
    ModelChange,
    NavigationFailed,
    RunEnd,
)
from pod.errors import (
    Busy,
    Interrupted,
    InvalidRequest,
    NotDone,
    NotFound,
    NotPaused,
    Refused,
    SetupError,
    ShutDown,
)
from pod.live import LivePod
from pod.manifest import Manifest
from pod.pod import Switched
from pod.protocol.answers import Navigated
from pod.protocol.messages import Navigate
from pod.protocol.perform import perform
from tests.fakes import called, said
from tests.pod.compaction.pods import MODEL, TABLE, FillingPod, unpaired
from tests.pod.lives import Gate, living, reaching, texts, until
from tests.pod.runs import Case
from tests.worker.compact import policies
from worker.api import Request, Thinking, ToolUse
from worker.client import Client, Delta, Response
from worker.history import faults
from worker.items import AssistantText, Reasoning
from worker.limits import Spent
from worker.policy import Script, call, say, think
from worker.scripted import ScriptedClient

SMALL = replace(MODEL, id="small", window=30_000)
LARGE_TABLE = replace(TABLE, compact_threshold=40_000, turn_threshold=45_000)


class Noting:
    """Notes which model each request asks; compact workers wait for *is_open*."""

    def __init__(self, client: Client, asked: list[str], is_open: trio.Event) -> None:
        self._client = client
        self._asked = asked
        self._is_open = is_open

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        is_worker = any(tool.name == policies.TOOL for tool in request.tools)
        self._asked.append(f"{request.model}{' compacts' if is_worker else ''}")
        if is_worker:
            await self._is_open.wait()
        return await self._client.ask(request, on_delta)

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


class Switching:
    """A Pod that fills up, and a smaller model that it can be switched to."""

    def __init__(self, path: Path, **options: object) -> None:
        self.asked: list[str] = []
        self.is_open = trio.Event()
        self.filling = FillingPod(
            path,
            wrap=lambda client: Noting(client, self.asked, self.is_open),
            table=LARGE_TABLE,
            **options,  # type: ignore[arg-type]  # passed through
        )

    def switch(self, name: str) -> Switched:
        if name != SMALL.id:
            raise SetupError(f"there is no model {name}")
        one = self.filling
        policy = Script([], then=say("Yes."))
        setup = replace(
            one.pod.setup,
            client=Noting(ScriptedClient(policy, SMALL), self.asked, self.is_open),
            model=SMALL,
        )
        watch, before = (
            open_watch(
                Manifest(compaction=TABLE),
                one.session,
                setup,
                scope=one.scope,
                worker_model=model,
                files=one.files,
                tell=one.heard,
                maintenance=one.pod.watch.maintenance,
                asked=asked,
            )
            for model, asked in ((SMALL, None), (MODEL, one.pod.setup))
        )
        return Switched(setup=setup, watch=watch, before=before)

    @property
    def doors(self) -> Doors:
        return Doors(switch=self.switch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


async def test_the_old_model_makes_room_before_a_smaller_one_is_asked(
    path: Path,
) -> None:
    pod = Switching(path, calls=8)  # about 33 000 tokens
    pod.is_open.set()
    one = pod.filling

    async with living(one.pod, one.heard, doors=pod.doors) as live:
        await live.prompt("Fetch everything.")
        await until(live, "idle")
        assert one.compactions == []
        await live.set_model("small")
        await live.prompt("Once more?")
        await until(live, "idle")
    one.close()

    (compaction,) = one.compactions
    assert (compaction.reason, compaction.run) == ("model_switch", None)
    assert compaction.tokens_before > 22_500
    starts = [e for e in one.told if isinstance(e, CompactionStart)]
    assert [e.threshold for e in starts] == [22_500]
    asked = list(dict.fromkeys(pod.asked))
    assert asked == ["m", "m compacts", "small"]
    changes = [e for e in one.told if isinstance(e, ModelChange)]
    assert [(e.model, e.previous) for e in changes] == [("small", "m")]
    assert one.told.index(compaction) < one.told.index(changes[0])
    assert unpaired(one.told) == []


async def test_a_model_that_has_room_enough_is_asked_without_more_ado(
    path: Path,
) -> None:
    pod = Switching(path, calls=2)
    one = pod.filling

    async with living(one.pod, one.heard, doors=pod.doors) as live:
        await live.prompt("Fetch everything.")
        await until(live, "idle")
        await live.set_model("small")
        await live.set_model("small")  # it is that already
        await live.prompt("Once more?")
        await until(live, "idle")
    one.close()

    assert one.compactions == []
    assert pod.asked[-1] == "small"
    assert sum(isinstance(e, ModelChange) for e in one.told) == 1


async def test_a_model_that_the_history_is_too_large_for_is_not_switched_to(
    path: Path,
) -> None:
    table = replace(LARGE_TABLE, order=("worker",))
    pod = Switching(path, calls=8, worker=policies.empty())
    pod.is_open.set()
    one = pod.filling

    def switch(name: str) -> Switched:
        to = pod.switch(name)
        watch = open_watch(
            Manifest(compaction=replace(TABLE, order=table.order)),
            one.session,
            to.setup,
            scope=one.scope,
            worker_model=MODEL,
            files=one.files,
            tell=one.heard,
            maintenance=one.pod.watch.maintenance,
            asked=one.pod.setup,
        )
        return Switched(setup=to.setup, watch=to.watch, before=watch)

    async with living(one.pod, one.heard, doors=Doors(switch=switch)) as live:
        await live.prompt("Fetch everything.")
        await until(live, "idle")
        items = list(one.session.items)
        with pytest.raises(NotDone, match="too large for small: Auto-compaction"):
            await live.set_model("small")
        assert list(one.session.items) == items
        await live.prompt("Once more?")
        await until(live, "idle")
    one.close()

    assert "small" not in pod.asked
    assert not any(isinstance(e, ModelChange) for e in one.told)


async def test_a_name_that_is_no_models_is_refused(path: Path) -> None:
    pod = Switching(path)
    one = pod.filling

    async with living(one.pod, one.heard, doors=pod.doors) as live:
        with pytest.raises(InvalidRequest, match="there is no model large"):
            await live.set_model("large")
    async with living(one.pod, one.heard) as live:
        with pytest.raises(InvalidRequest):
            await live.set_model("small")
    one.close()


@pytest.mark.parametrize(
    ("how", "error"),
    [("abort", NotDone), ("interrupt", Interrupted), ("shutdown", Interrupted)],
)
async def test_stopped_in_its_compaction_a_switch_leaves_the_model_as_it_was(
    how: str, error: type[Refused], path: Path
) -> None:
    pod = Switching(path, calls=8)
    one = pod.filling
    errors: list[Refused] = []

    async with living(one.pod, one.heard, doors=pod.doors) as live:
        await live.prompt("Fetch everything.")
        await until(live, "idle")
        async with trio.open_nursery() as nursery:

            async def switch() -> None:
                try:
                    await live.set_model("small")
                except Refused as refused:
                    errors.append(refused)

            nursery.start_soon(switch)
            await reaching(lambda: "m compacts" in pod.asked)
            match how:
                case "abort":
                    assert live.abort_compaction()
                case "interrupt":
                    await live.interrupt()
                case _:
                    await live.shutdown()
    one.close()

    assert [type(refused) for refused in errors] == [error]
    assert one.pod.setup.model == MODEL
    assert unpaired(one.told) == []


async def test_who_waits_for_a_job_is_told_when_serving_is_cancelled(
    path: Path,
) -> None:
    pod = Switching(path, calls=8)
    one = pod.filling
    live = LivePod(one.pod, listen=one.heard, doors=pod.doors)

    async with trio.open_nursery() as serving, trio.open_nursery() as asking:
        await serving.start(live.serve)
        await live.prompt("Fetch everything.")
        await until(live, "idle")

        async def switch() -> None:
            with pytest.raises(ShutDown):
                await live.set_model("small")

        asking.start_soon(switch)
        await reaching(lambda: "m compacts" in pod.asked)
        asking.cancel_scope.shield = True  # only the driver goes away
        serving.cancel_scope.cancel()
    one.close()

    assert unpaired(one.told) == []


class Summarising:
    """Summarises a branch once it is let go."""

    def __init__(self) -> None:
        self.is_reached = False
        self.is_open = trio.Event()

    async def summarize(
        self,
        entries: Sequence[AnyEntry],
        *,
        spent: Spent,
        instructions: str = "",
        replace_instructions: bool = False,
    ) -> Summarized:
        self.is_reached = True
        await self.is_open.wait()
        return Summarized(
            text=f"Branch{' alone' * replace_instructions}: {instructions}",
            details=FileDetails(),
            model="m",
            summarised=len(entries),
            left_out=0,
            seconds=0.0,
        )


def answer(case: Case, number: int) -> str:
    """Return the entry of the model's *number*-th text."""
    said = [
        e.id
        for e in case.entries
        if isinstance(e, ItemEntry) and isinstance(e.item, AssistantText)
    ]
    return said[number]


async def talk(case: Case, *prompts: str) -> None:
    async with living(case.pod, case.heard) as live:
        for prompt in prompts:
            await live.prompt(prompt)
            await until(live, "idle")


async def test_input_during_a_navigation_is_run_where_the_session_went() -> None:
    case = Case([said("one")], [said("two")], [said("three")])
    await talk(case, "a", "b")
    summarising = Summarising()
    doors = Doors(summarizer=lambda: summarising)

    async with living(case.pod, case.heard, doors=doors) as live:
        async with trio.open_nursery() as nursery:
            target = answer(case, 0)

            async def move() -> None:
                await live.navigate(target, summarize=True, instructions="short")

            nursery.start_soon(move)
            await reaching(lambda: summarising.is_reached)
            assert live.state == "navigating"
            for refused in (live.compact, live.set_model, live.navigate):
                with pytest.raises(Busy):
                    await refused("m")
            nursery.start_soon(live.prompt, "c")
            await trio.testing.wait_all_tasks_blocked()
            summarising.is_open.set()
        await until(live, "idle")

    assert texts(case.session.items)[:2] == ["a", "one"]
    assert "Branch: short" in texts(case.session.items)[2]
    assert texts(case.session.items)[3:] == ["c", "three"]
    assert faults(case.session.items) == []


@pytest.mark.parametrize(
    ("replaces", "summary"), [(False, "Branch: short"), (True, "Branch alone: short")]
)
async def test_a_client_says_whether_instructions_take_the_place_of_the_summarisers(
    replaces: bool, summary: str
) -> None:
    case = Case([said("one")], [said("two")])
    await talk(case, "a", "b")
    summarising = Summarising()
    summarising.is_open.set()
    doors = Doors(summarizer=lambda: summarising)
    way = Navigate(
        answer(case, 0),
        summarize=True,
        instructions="short",
        replace_instructions=replaces,
    )

    async with living(case.pod, case.heard, doors=doors) as live:
        moved = await perform(way, live)

    assert isinstance(moved, Navigated)
    assert summary in texts(case.session.items)[2]


async def test_an_interrupt_cancels_a_navigation_and_hands_the_input_back() -> None:
    case = Case([said("one")], [said("two")], [said("three")])
    await talk(case, "a", "b")
    items = list(case.session.items)
    summarising = Summarising()
    doors = Doors(summarizer=lambda: summarising, summarizes=True)
    moved = []

    async with living(case.pod, case.heard, doors=doors) as live:
        async with trio.open_nursery() as nursery:

            async def move() -> None:
                moved.append(await live.navigate(answer(case, 0)))

            nursery.start_soon(move)
            await reaching(lambda: summarising.is_reached)
            live.steer("c")
            await live.interrupt()
            assert live.state == "idle"

    assert [m.cancelled for m in moved] == [True]
    assert list(case.session.items) == items
    assert case.session.pending_inputs == []
    failed = [e for e in case.entries if isinstance(e, NavigationFailed)]
    assert [e.code for e in failed] == ["cancelled"]
    assert not any(isinstance(e, BranchSummary) for e in case.entries)


async def test_a_paused_turn_is_left_by_a_navigation() -> None:
    gate = Gate([said("never")])
    case = Case([said("one")], [called("a")], gate, [said("two")])

    async with living(case.pod, case.heard) as live:
        await live.prompt("a")
        await until(live, "idle")
        await live.prompt("b")
        await reaching(lambda: gate.is_reached)
        await live.pause()
        moved = await live.navigate(answer(case, 0))
        assert live.state == "idle"
        assert moved.new_leaf == case.session.leaf
        with pytest.raises(NotPaused):
            await live.resume()
        await live.prompt("c")
        await until(live, "idle")

    assert texts(case.session.items) == ["a", "one", "c", "two"]


async def test_a_message_that_is_gone_back_to_is_handed_out() -> None:
    case = Case([said("one")], [said("two")])
    await talk(case, "a", "b")

    async with living(case.pod, case.heard) as live:
        second = [
            e.id
            for e in case.entries
            if isinstance(e, ItemEntry) and e.item.text == "b"  # type: ignore[union-attr]
        ]
        moved = await live.navigate(second[0])
    assert moved.text == "b"
    assert texts(case.session.items) == ["a", "one"]


async def test_a_bug_in_what_was_asked_for_is_the_answer_and_the_pod_goes_on() -> None:
    class Broken:
        async def summarize(
            self,
            entries: Sequence[AnyEntry],
            *,
            spent: Spent,
            instructions: str = "",
            replace_instructions: bool = False,
        ) -> Summarized:
            raise ZeroDivisionError("no such thing")

    case = Case([said("one")], [said("two")], [said("three")])
    await talk(case, "a", "b")

    async with living(case.pod, case.heard, doors=Doors(summarizer=Broken)) as live:
        with pytest.raises(Refused, match="no such thing") as refused:
            await live.navigate(answer(case, 0), summarize=True)
        assert refused.value.code == "internal"
        await live.prompt("c")
        await until(live, "idle")

    assert texts(case.session.items)[-2:] == ["c", "three"]


async def test_where_nothing_is_there_is_no_way() -> None:
    case = Case([said("one")])
    await talk(case, "a")

    async with living(case.pod, case.heard) as live:
        with pytest.raises(NotFound):
            await live.navigate("nowhere")
        with pytest.raises(NotFound):
            await live.fork("nowhere")
        with pytest.raises(InvalidRequest):
            await live.navigate(answer(case, 0), summarize=True)
        with pytest.raises(InvalidRequest, match="not kept"):
            await live.fork()
    assert [e.outcome for e in case.entries if isinstance(e, RunEnd)] == ["finished"]


async def test_in_the_middle_of_a_loop_the_old_models_reasoning_is_left_out(
    path: Path,
) -> None:
    """Paused behind signed reasoning and its calls; the next model takes it up."""
    thinking = replace(MODEL, thinking=1_024, max_tokens=2_000)
    other = replace(thinking, id="other")
    one = FillingPod(
        path,
        model=thinking,
        size=100,
        main=Script([think("hm", call(("t1", "fetch", "{}")))] * 9),
        table=LARGE_TABLE,
    )
    sent: list[Request] = []

    def switch(name: str) -> Switched:
        client = Kept(ScriptedClient(Script([], then=say("Yes.")), other), sent)
        setup = replace(one.pod.setup, client=client, model=other)
        watch = open_watch(
            Manifest(compaction=LARGE_TABLE),
            one.session,
            setup,
            scope=one.scope,
            worker_model=other,
            files=one.files,
            tell=one.heard,
            maintenance=one.pod.watch.maintenance,
        )
        return Switched(setup=setup, watch=watch, before=watch)

    async with living(one.pod, one.heard, doors=Doors(switch=switch)) as live:
        await live.prompt("Fetch everything.")
        await reaching(lambda: one.calls == 2)
        await live.pause()
        await live.set_model("other")
        assert live.state == "paused"
        await live.resume()
        await until(live, "idle")
    one.close()

    ends = [e for e in one.told if isinstance(e, RunEnd)]
    assert [e.reason for e in ends] == ["paused", "done"]
    assert any(isinstance(item, Reasoning) for item in one.session.items)
    blocks = [block for message in sent[0].messages for block in message.content]
    assert not any(isinstance(block, Thinking) for block in blocks)
    assert any(isinstance(block, ToolUse) for block in blocks)


class Kept:
    """Keeps the requests that it passes on."""

    def __init__(self, client: Client, sent: list[Request]) -> None:
        self._client = client
        self._sent = sent

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        self._sent.append(request)
        return await self._client.ask(request, on_delta)

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)
