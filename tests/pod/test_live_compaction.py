"""Compactions of a Pod that stays: when, what goes on behind them, who can stop them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pod.compaction.job import Done, Failed, Skipped
from pod.entries import (
    CompactionFailed,
    CompactionStart,
    HandedBack,
    ItemEntry,
    RunEnd,
    RunStart,
)
from pod.errors import AlreadyRunning, Busy, Interrupted
from pod.events import CompactSkipped
from pod.exits import Exit
from pod.live import LivePod
from prompts import load
from tests.pod.compaction.pods import FillingPod, unpaired
from tests.pod.lives import living, reaching, until
from tests.worker.compact import policies
from worker.api import Request
from worker.client import Client, Delta, Response
from worker.history import faults
from worker.items import UserText
from worker.policy import Script, say

CONTINUE = load("continue_steps")


class Holding:
    """Holds the requests of compact workers back until it is opened."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.is_reached = False
        self.is_open = trio.Event()

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        if any(tool.name == policies.TOOL for tool in request.tools):
            self.is_reached = True
            await self.is_open.wait()
        return await self._client.ask(request, on_delta)

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


class Held:
    """A Pod that fills up, whose compact workers wait until they are let go."""

    def __init__(self, path: Path, **options: object) -> None:
        self.clients: list[Holding] = []

        def wrap(client: Client) -> Client:
            self.clients.append(Holding(client))
            return self.clients[0]

        self.filling = FillingPod(path, wrap=wrap, **options)  # type: ignore[arg-type]  # passed through

    def let_go(self) -> None:
        self.clients[0].is_open.set()

    async def compacting(self) -> None:
        """Wait until a compact worker is asked."""
        await reaching(lambda: self.clients[0].is_reached)

    @asynccontextmanager
    async def living(self, *, auto_continue: bool = False) -> AsyncIterator[LivePod]:
        one = self.filling
        try:
            async with living(one.pod, one.heard, auto_continue=auto_continue) as live:
                yield live
        finally:
            one.close()

    @property
    def ends(self) -> list[tuple[str, str]]:
        told = self.filling.told
        return [(e.outcome, e.reason) for e in told if isinstance(e, RunEnd)]

    @property
    def user(self) -> list[str]:
        """What entered the history in the user's name, in order."""
        return [
            entry.item.text
            for entry in self.filling.told
            if isinstance(entry, ItemEntry) and isinstance(entry.item, UserText)
        ]

    @property
    def compactions(self) -> list[tuple[str, str | None]]:
        starts = [e for e in self.filling.told if isinstance(e, CompactionStart)]
        return [(e.reason, e.run) for e in starts]

    def check(self) -> None:
        assert unpaired(self.filling.told) == []
        assert faults(self.filling.session.items) == []
        assert self.filling.session.pending_inputs == []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


AFTER_FIVE = Script([], then=say("Nothing is left to do."))
"""Whoever asks again gets this."""


async def test_what_a_run_leaves_is_compacted_behind_it_and_the_model_continues_once(
    path: Path,
) -> None:
    pod = Held(path, calls=5)  # between the two limits
    pod.let_go()

    async with pod.living(auto_continue=True) as live:
        await live.prompt("Fetch everything.")
        await reaching(lambda: len(pod.ends) == 2)
        await until(live, "idle")

    assert pod.compactions == [("post_run", None)]
    assert pod.user == ["Fetch everything.", CONTINUE]
    assert pod.ends == [("finished", "done")] * 2
    pod.check()


async def test_the_words_that_ask_to_continue_are_the_second_seeds() -> None:
    assert CONTINUE == "Continue if you have next steps."


async def test_what_says_continue_is_no_directive(path: Path) -> None:
    pod = Held(path, calls=5)
    pod.let_go()

    async with pod.living(auto_continue=True) as live:
        await live.prompt("Fetch everything.")
        await reaching(lambda: len(pod.ends) == 2)
        await until(live, "idle")
        await live.compact()

    directives = [[d.text for d in c.directives] for c in pod.filling.compactions]
    assert directives == [["Fetch everything."]] * 2


async def test_without_auto_continue_a_compaction_behind_a_run_is_the_end(
    path: Path,
) -> None:
    pod = Held(path, calls=5)
    pod.let_go()

    async with pod.living() as live:
        await live.prompt("Fetch everything.")
        await reaching(lambda: len(pod.filling.compactions) == 1)
        await until(live, "idle")

    assert pod.user == ["Fetch everything."]


async def test_input_that_came_meanwhile_takes_the_place_of_continue(
    path: Path,
) -> None:
    pod = Held(path, calls=5)

    async with pod.living(auto_continue=True) as live:
        await live.prompt("Fetch everything.")
        await pod.compacting()
        assert live.state == "compacting"
        live.follow_up("And now?")
        pod.let_go()
        await reaching(lambda: len(pod.ends) == 2)
        await until(live, "idle")

    assert pod.user == ["Fetch everything.", "And now?"]
    pod.check()


@pytest.mark.parametrize("outcome", ["success", "failure", "abort"])
async def test_a_prompt_during_a_compaction_is_run_once_whatever_comes_of_it(
    outcome: str, path: Path
) -> None:
    worker = policies.empty() if outcome == "failure" else policies.lazy()
    pod = Held(path, calls=4, worker=worker)

    async with pod.living() as live:
        await live.prompt("Fetch everything.")
        await until(live, "idle")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.compact, "", "worker")
            await pod.compacting()
            assert live.state == "compacting"
            nursery.start_soon(live.prompt, "And now?")
            await trio.testing.wait_all_tasks_blocked()
            assert len(pod.ends) == 1
            if outcome == "abort":
                assert live.abort_compaction()
            else:
                pod.let_go()
        await reaching(lambda: len(pod.ends) == 2)
        await until(live, "idle")

    assert pod.user == ["Fetch everything.", "And now?"]
    assert len(pod.filling.compactions) == (outcome == "success")
    pod.check()


async def test_by_hand_a_run_is_compacted_before_its_next_request_and_goes_on(
    path: Path,
) -> None:
    pod = Held(path, calls=5)
    pod.let_go()

    async with pod.living() as live:
        await live.prompt("Fetch everything.")
        await reaching(lambda: pod.filling.calls == 2)
        outcome = await live.compact("Keep the numbers.")
        assert live.state == "running"
        await until(live, "idle")

    assert isinstance(outcome, Done)
    (run,) = {e.run for e in pod.filling.told if isinstance(e, RunStart)}
    assert pod.compactions[0] == ("manual", run)
    assert pod.filling.calls == 5
    assert pod.ends == [("finished", "done")]
    assert pod.user == ["Fetch everything."]
    pod.check()


async def test_a_compaction_that_comes_to_nothing_does_not_end_the_run_it_was_asked_in(
    path: Path,
) -> None:
    pod = Held(path, calls=3, worker=policies.empty())
    pod.let_go()

    async with pod.living() as live:
        await live.prompt("Fetch everything.")
        await reaching(lambda: pod.filling.calls == 2)
        outcome = await live.compact(mode="worker")
        await until(live, "idle")

    assert isinstance(outcome, Failed)
    assert outcome.entry.message.startswith("Compaction failed: ")
    assert pod.ends == [("finished", "done")]
    pod.check()


async def test_asked_for_after_the_last_request_it_comes_behind_the_run(
    path: Path,
) -> None:
    pod = Held(path, calls=3)
    pod.let_go()
    outcomes = []

    async with pod.living() as live, trio.open_nursery() as nursery:

        async def compact() -> None:
            outcomes.append(await live.compact())

        def at_last_usage(entry: object) -> None:
            pod.filling.told.append(entry)  # type: ignore[arg-type]  # as on_entry gives it
            if isinstance(entry, ItemEntry) and "All 3" in str(entry.item):
                nursery.start_soon(compact)

        pod.filling.session.on_entry = at_last_usage
        await live.prompt("Fetch everything.")
        await reaching(lambda: len(outcomes) == 1)

    assert [type(outcome) for outcome in outcomes] == [Done]
    assert pod.ends == [("finished", "done")]
    pod.check()


async def test_a_second_compaction_is_refused_while_one_is_under_way_or_asked_for(
    path: Path,
) -> None:
    pod = Held(path, calls=4)

    async with pod.living() as live:
        await live.prompt("Fetch everything.")
        await reaching(lambda: pod.filling.calls == 2)
        asked = trio.Event()

        async def compact() -> None:
            asked.set()  # it is asked for in the same step
            await live.compact()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(compact)
            await asked.wait()
            with pytest.raises(Busy):
                await live.compact()
            await pod.compacting()
            for refused in (live.compact, live.set_model, live.navigate):
                with pytest.raises(Busy):
                    await refused("m")
            pod.let_go()
        await until(live, "idle")
    pod.check()


async def test_the_leaf_and_the_model_stay_where_they_are_during_a_run(
    path: Path,
) -> None:
    pod = Held(path, calls=4)

    async with pod.living() as live:
        await live.prompt("Fetch everything.")
        with pytest.raises(AlreadyRunning):
            await live.navigate(None)
        with pytest.raises(AlreadyRunning):
            await live.set_model("other")
        await live.interrupt()
    pod.check()


async def test_aborted_by_itself_a_compaction_by_hand_lets_its_run_go_on(
    path: Path,
) -> None:
    pod = Held(path, calls=4)
    outcomes = []

    async with pod.living() as live:
        await live.prompt("Fetch everything.")
        await reaching(lambda: pod.filling.calls == 2)
        async with trio.open_nursery() as nursery:

            async def compact() -> None:
                outcomes.append(await live.compact(mode="worker"))

            nursery.start_soon(compact)
            await pod.compacting()
            assert live.abort_compaction()
        await until(live, "idle")
        assert not live.abort_compaction()

    (outcome,) = outcomes
    assert isinstance(outcome, Failed)
    assert outcome.entry.code == "cancelled"
    assert pod.ends == [("finished", "done")]
    pod.check()


async def test_a_compaction_that_was_asked_for_can_be_aborted_before_it_begins(
    path: Path,
) -> None:
    pod = Held(path, calls=4)
    outcomes = []

    async with pod.living() as live:
        await live.prompt("Fetch everything.")
        await reaching(lambda: pod.filling.calls == 2)
        async with trio.open_nursery() as nursery:

            async def compact() -> None:
                outcomes.append(await live.compact())

            nursery.start_soon(compact)
            await reaching(live.abort_compaction)
            assert not live.abort_compaction()
        await until(live, "idle")

    assert [getattr(outcome, "reason", "") for outcome in outcomes] == ["aborted"]
    assert pod.compactions == []
    pod.check()


async def test_an_aborted_compaction_that_a_run_needs_ends_the_run(
    path: Path,
) -> None:
    pod = Held(path, calls=14)

    async with pod.living() as live:
        await live.prompt("Fetch everything.")
        await pod.compacting()
        assert live.abort_compaction()
        await until(live, "idle")

    (end,) = [e for e in pod.filling.told if isinstance(e, RunEnd)]
    assert (end.reason, end.exit_code) == ("context_full", Exit.CONTEXT)
    assert end.message == "Auto-compaction failed: cancelled"
    assert end.interrupted
    pod.check()


async def test_an_aborted_compaction_behind_a_run_is_no_reason_to_continue(
    path: Path,
) -> None:
    pod = Held(path, calls=5)

    async with pod.living(auto_continue=True) as live:
        await live.prompt("Fetch everything.")
        await pod.compacting()
        assert live.abort_compaction()
        await until(live, "idle")
        await trio.testing.wait_all_tasks_blocked()

    assert pod.user == ["Fetch everything."]
    assert [f.code for f in pod.filling.failures] == ["cancelled"]
    pod.check()


async def test_an_interrupt_reaches_a_compaction_and_nothing_begins_behind_it(
    path: Path,
) -> None:
    pod = Held(path, calls=5)

    async with pod.living(auto_continue=True) as live:
        await live.prompt("Fetch everything.")
        await pod.compacting()
        live.follow_up("And now?")
        await live.interrupt()
        assert live.state == "idle"
        await trio.testing.wait_all_tasks_blocked()

    assert pod.user == ["Fetch everything."]
    told = pod.filling.told
    assert [e.texts for e in told if isinstance(e, HandedBack)] == [("And now?",)]
    assert [e.code for e in told if isinstance(e, CompactionFailed)] == ["cancelled"]
    pod.check()


async def test_an_interrupt_hands_a_prompt_back_that_waits_for_a_compaction(
    path: Path,
) -> None:
    pod = Held(path, calls=4)
    refusals: list[Exception] = []
    outcomes = []

    async with pod.living() as live:
        await live.prompt("Fetch everything.")
        await until(live, "idle")
        async with trio.open_nursery() as nursery:

            async def compact() -> None:
                outcomes.append(await live.compact())

            async def ask() -> None:
                try:
                    await live.prompt("And now?")
                except Interrupted as error:
                    refusals.append(error)

            nursery.start_soon(compact)
            await pod.compacting()
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            await live.interrupt()

    assert len(refusals) == 1
    assert [type(outcome) for outcome in outcomes] == [Failed]
    assert pod.user == ["Fetch everything."]
    pod.check()


async def test_an_interrupt_ends_a_run_in_the_middle_of_its_compaction(
    path: Path,
) -> None:
    pod = Held(path, calls=14)

    async with pod.living(auto_continue=True) as live:
        await live.prompt("Fetch everything.")
        await pod.compacting()
        await live.interrupt()
        await trio.testing.wait_all_tasks_blocked()
        assert live.state == "idle"

    assert pod.ends == [("cancelled", "interrupted")]
    assert [f.code for f in pod.filling.failures] == ["cancelled"]
    pod.check()


async def test_a_paused_turn_is_compacted_and_stays_paused(path: Path) -> None:
    pod = Held(path, calls=5)
    pod.let_go()

    async with pod.living(auto_continue=True) as live:
        await live.prompt("Fetch everything.")
        await reaching(lambda: pod.filling.calls == 3)
        await live.pause()
        assert isinstance(await live.compact(), Done)
        assert live.state == "paused"
        await live.resume()
        await until(live, "idle")

    assert pod.filling.calls == 5
    assert pod.ends[0] == ("yielded", "paused")
    assert pod.ends[1] == ("finished", "done")
    pod.check()


async def test_where_there_is_nothing_to_compact_that_is_said(path: Path) -> None:
    pod = Held(path, calls=4)

    async with pod.living() as live:
        outcome = await live.compact()

    assert isinstance(outcome, Skipped)
    assert outcome.reason == "empty"
    assert [e.reason for e in pod.filling.heard.of(CompactSkipped)] == ["empty"]
