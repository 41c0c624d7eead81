"""In which order a compaction goes about it, and where it stops (docs/compaction.md)."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pod.compaction.job import Done, Failed, Skipped
from pod.entries import (
    Compaction,
    CompactionStart,
    ItemEntry,
    Known,
    Prune,
    UsageEntry,
)
from pod.events import CompactProgress, CompactSkipped
from pod.exits import Exit
from pod.manifest import PruneTable
from pod.pod import Stopped
from tests.pod.compaction.pods import MODEL, TABLE, FillingPod, Make, unpaired
from tests.worker.compact import policies
from worker.api import Request
from worker.client import Client, Delta, Response
from worker.events import Warning
from worker.items import UserText
from worker.usage import Usage
from worker.wire import Cache

COLD = Cache(enabled=False)


def starts(pod: FillingPod) -> list[CompactionStart]:
    return [entry for entry in pod.told if isinstance(entry, CompactionStart)]


def skips(pod: FillingPod) -> list[str]:
    return [event.reason for event in pod.heard.of(CompactSkipped)]


def answers(pod: FillingPod) -> list[UsageEntry]:
    return [entry for entry in pod.told if isinstance(entry, UsageEntry)]


async def test_old_output_is_left_out_first_and_that_may_be_enough(make: Make) -> None:
    prune = PruneTable(protect_tokens=8_000, min_savings=4_000)
    pod = make(calls=8, prune=prune, cache=COLD)

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 8 are fetched.")
    assert [type(e) for e in pod.told if isinstance(e, Prune | CompactionStart)] == [
        Prune
    ]
    assert max(a.context_tokens or 0 for a in answers(pod)) < 22_500


async def test_where_it_is_not_enough_the_compaction_begins_with_what_is_left(
    make: Make,
) -> None:
    prune = PruneTable(protect_tokens=23_000, min_savings=4_000)
    sizes: Callable[[int], int] = lambda number: 20_000 if number == 5 else 4_000  # noqa: E731
    pod = make(calls=6, size=sizes, prune=prune, cache=COLD)

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    kinds = [e for e in pod.told if isinstance(e, Prune | CompactionStart)]
    assert [type(e) for e in kinds] == [Prune, CompactionStart]
    [pruned, start] = kinds
    assert isinstance(pruned, Prune)
    assert isinstance(start, CompactionStart)
    full = 4 * 4_000 + 20_000
    assert 22_500 < start.tokens_before < full - pruned.saved + 1_000


async def test_a_floor_that_no_summary_gets_under_asks_nobody_and_names_the_parts(
    make: Make,
) -> None:
    """Case 16: the system prompt alone leaves no room for anything."""
    asked: list[Request] = []
    pod = make(
        calls=8,
        system="word " * 12_000,
        worker=policies.careful(),
        wrap=lambda client: Listening(client, asked),
    )

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.reason) == ("failed", "context_full")
    assert end.exit_code == Exit.CONTEXT
    assert end.message.startswith("Auto-compaction failed: ")
    assert "the context cannot be made smaller than" in end.message
    assert "Its parts: system prompt 15," in end.message
    assert "The largest is the system prompt" in end.message
    assert (skips(pod), starts(pod)) == (["floor"], [])
    assert [r for r in asked if is_workers(r)] == []


class Listening:
    """A client that keeps the requests it passes on, in a list of the test's."""

    def __init__(self, client: Client, asked: list[Request]) -> None:
        self._client = client
        self._asked = asked

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        self._asked.append(request)
        return await self._client.ask(request, on_delta)

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


def is_workers(request: Request) -> bool:
    return any(tool.name == policies.TOOL for tool in request.tools)


async def test_a_compaction_that_saves_too_little_is_a_failure_and_changes_nothing(
    make: Make,
) -> None:
    pod = make(calls=2, size=1_100)
    await pod.pod.run("Fetch everything.")
    items = list(pod.session.items)

    outcome = await make(calls=2, table=replace(TABLE, min_gain=0.9)).pod.compact()

    assert isinstance(outcome, Failed)
    assert outcome.entry.code == "no_gain"
    assert outcome.entry.message.startswith("Compaction failed: the context would go")
    assert list(make().session.items) == items


async def test_a_summary_that_leaves_too_much_is_a_failure_of_its_rung(
    make: Make,
) -> None:
    table = replace(TABLE, summary_cap=20_000, summary_target=20_000)
    pod = make(calls=8, table=table, worker=policies.oversize(words=11_000))

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    [compaction] = pod.compactions
    assert compaction.receipt.attempts[0].startswith("worker: does_not_fit: ")
    assert compaction.mode == "mechanical"
    assert compaction.tokens_after < 14_000
    assert pod.session.breaker.failures == 1


async def test_after_the_cooldown_the_worker_is_asked_again(make: Make) -> None:
    pod = make(
        calls=24, worker=policies.empty(), table=replace(TABLE, cooldown=0.000_001)
    )

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    assert len(pod.compactions) == 4
    assert all("no_summary" in c.receipt.attempts[0] for c in pod.compactions)
    assert pod.session.breaker.failures == len(pod.compactions)


async def test_new_input_half_opens_the_breaker(make: Make) -> None:
    pod = make(calls=20, worker=policies.empty())
    await pod.pod.run("Fetch everything.")
    assert pod.session.breaker.opened_at is not None

    again = make(calls=40)
    await again.pod.run("Twenty more.")

    assert again.compactions[0].mode == "worker"
    assert again.session.breaker.failures == 0


async def test_input_in_the_middle_of_a_run_half_opens_the_breaker_once(
    make: Make,
) -> None:
    """design.md §6.2: new user input does, whenever it comes."""
    pod = make(calls=34, worker=policies.empty())

    def steer(entry: Known) -> None:
        pod.told.append(entry)
        if isinstance(entry, Compaction) and len(pod.compactions) == 4:
            assert pod.session.breaker.opened_at is not None
            pod.pod.steer("Mind the ports.")

    pod.session.on_entry = steer

    await pod.pod.run("Fetch everything.")

    asked = [
        not attempt.startswith("worker: breaker_open")
        for attempt in (c.receipt.attempts[0] for c in pod.compactions)
    ]
    assert asked[:6] == [True, True, True, False, True, False]


async def test_a_half_open_breaker_opens_with_the_next_failure(make: Make) -> None:
    pod = make(calls=20, worker=policies.empty())
    await pod.pod.run("Fetch everything.")

    again = make(calls=40, worker=policies.empty())
    await again.pod.run("Twenty more.")

    assert [f.code for f in again.failures] == ["no_summary"]
    assert again.failures[0].breaker_open
    attempts = [c.receipt.attempts[0] for c in again.compactions]
    assert len(attempts) == 4
    assert all(attempt.startswith("worker: breaker_open") for attempt in attempts)


async def test_by_hand_the_worker_is_asked_even_so(make: Make) -> None:
    pod = make(calls=20, worker=policies.empty())
    await pod.pod.run("Fetch everything.")

    outcome = await make(calls=20).pod.compact(mode="worker")

    assert isinstance(outcome, Done)
    assert outcome.entry.mode == "worker"


@pytest.mark.parametrize(
    ("instructions", "then"), [("", "same_input"), ("Keep the dates.", "no_summary")]
)
async def test_what_failed_under_instructions_is_asked_again_without_them(
    make: Make, instructions: str, then: str
) -> None:
    """Who summarises gets them, too: with others it is another input."""
    table = replace(TABLE, order=("worker",))
    pod = make(calls=5, worker=policies.empty(), table=table)
    await pod.pod.run("Fetch everything.")  # ends between the two limits
    await pod.pod.compact(instructions=instructions)

    await pod.pod.after_run()

    codes: list[str] = [entry.code for entry in pod.failures]
    assert [*codes, *skips(pod)] == ["no_summary", then]


async def test_behind_a_run_nothing_is_begun_while_the_breaker_is_open(
    make: Make,
) -> None:
    pod = make(calls=20, worker=policies.empty())
    await pod.pod.run("Fetch everything.")
    assert pod.session.breaker.opened_at is not None
    table = replace(TABLE, compact_threshold=8_000, turn_threshold=40_000)

    again = make(calls=20, table=table)
    again.session.append(ItemEntry(item=UserText(text="Once more?")))
    end = await again.pod.run(None)

    assert end.outcome == "finished"
    assert (skips(again), starts(again)) == (["breaker_open"], [])


async def test_a_smaller_window_is_learned_from_the_refusal_and_kept_to(
    make: Make,
) -> None:
    asked: list[Request] = []
    pod = make(
        calls=14,
        model=replace(MODEL, window=None),
        served=replace(MODEL, window=16_000),
        size=2_000,
        wrap=lambda client: Listening(client, asked),
    )

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 14 are fetched.")
    reasons = [c.reason for c in pod.compactions]
    assert reasons[0] == "overflow"
    assert set(reasons[1:]) == {"mid_turn"}
    assert all(c.tokens_after < 11_000 for c in pod.compactions)
    assert any("window has" in w.message for w in pod.heard.of(Warning))


async def test_a_tiny_window_gets_smaller_budgets(make: Make) -> None:
    pod = make(
        calls=12,
        model=replace(MODEL, window=None),
        served=replace(MODEL, window=6_000),
        size=700,
        worker=policies.careful(),
    )

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 12 are fetched.")
    assert all(c.tokens_after < 4_000 for c in pod.compactions)
    budgets = {event.auto_read_budget for event in pod.heard.of(CompactProgress)}
    assert max(budgets) < TABLE.auto_read_budget


class Overfull:
    """Tells of a prompt larger than the window with the answer of this number."""

    def __init__(self, client: Client, number: int) -> None:
        self._client = client
        self._number = number
        self._asked = 0

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        response = await self._client.ask(request, on_delta)
        self._asked += not is_workers(request)
        if self._asked != self._number:
            return response
        self._asked += 1
        usage = Usage(input=61_000, output=3)
        return replace(response, usage=usage, context_tokens=usage.total)

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


async def test_a_prompt_that_was_cut_without_a_word_is_an_overflow(make: Make) -> None:
    pod = make(calls=5, wrap=lambda client: Overfull(client, 4))

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 5 are fetched.")
    assert [c.reason for c in pod.compactions] == ["overflow"]
    discarded = [entry for entry in answers(pod) if not entry.response]
    assert [entry.usage for entry in discarded] == [Usage(input=61_000, output=3)]


async def test_nothing_a_compact_worker_used_counts_as_what_the_context_holds(
    make: Make,
) -> None:
    pod = make(calls=4, worker=policies.careful())
    await pod.pod.run("Fetch everything.")

    outcome = await pod.pod.compact()

    assert isinstance(outcome, Done)
    assert outcome.entry.usage.total > 0
    assert pod.watch.occupancy.last is None  # not known until the next answer
    estimate = await pod.watch.occupancy.estimate(pod.session.items)
    assert abs(estimate - outcome.entry.tokens_after) <= 5
    assert [a for a in answers(pod) if a.response == ""] == []


async def test_a_compaction_stopped_by_hand_leaves_all_as_it_was_and_input_waits(
    make: Make,
) -> None:
    pod = make(calls=4)
    await pod.pod.run("Fetch everything.")
    items = list(pod.session.items)

    def stop(entry: Known) -> None:
        pod.told.append(entry)
        if isinstance(entry, CompactionStart):
            pod.pod.steer("And this.")
            pod.pod.stop("sigint")

    pod.session.on_entry = stop

    with pytest.raises(Stopped):
        await pod.pod.compact()

    assert [f.code for f in pod.failures] == ["cancelled"]
    assert unpaired(pod.told) == []
    assert list(pod.session.items) == items

    again = make(calls=4)
    assert list(again.session.items) == items
    end = await again.pod.run("Go on.")

    assert end.outcome == "finished"
    said = [i.text for i in again.session.items if isinstance(i, UserText)]
    assert said == ["Fetch everything.", "And this.", "Go on."]


async def test_a_run_stopped_while_it_is_compacted_goes_on_later(make: Make) -> None:
    pod = make(calls=8)

    def stop(entry: Known) -> None:
        pod.told.append(entry)
        if isinstance(entry, CompactionStart):
            pod.pod.stop("sigterm")

    pod.session.on_entry = stop
    end = await pod.pod.run("Fetch everything.")

    assert (end.exit_code, end.interrupted) == (Exit.SIGTERM, True)
    assert [f.code for f in pod.failures] == ["cancelled"]

    again = make(calls=8)
    end = await again.pod.run(None)

    assert (end.outcome, end.text) == ("finished", "All 8 are fetched.")
    assert again.compactions
    assert unpaired(again.told) == []


async def test_there_is_nothing_to_compact_in_a_short_session(make: Make) -> None:
    pod = make(calls=1, size=100)
    await pod.pod.run("Fetch everything.")

    outcome = await pod.pod.compact()

    assert isinstance(outcome, Skipped)
    assert outcome.reason == "all_kept"
    assert starts(pod) == []


async def test_only_clips_need_no_compact_worker(make: Make) -> None:
    asked: list[Request] = []
    pod = make(calls=0, wrap=lambda client: Listening(client, asked))

    end = await pod.pod.run("Read this. " + "word " * 25_000)

    assert end.outcome == "finished"
    assert [c.mode for c in pod.compactions] == ["mechanical"]
    assert [r for r in asked if is_workers(r)] == []


async def test_a_session_that_goes_on_with_a_smaller_model_is_compacted_first(
    make: Make,
) -> None:
    pod = make(calls=5)
    await pod.pod.run("Fetch everything.")
    smaller = replace(MODEL, id="small", window=18_000)
    table = replace(TABLE, compact_threshold=None)

    again = make(calls=8, model=smaller, table=table)
    end = await again.pod.run("Three more.")

    assert (end.outcome, end.text) == ("finished", "All 8 are fetched.")
    assert again.compactions[0].reason == "model_switch"
    assert all(c.tokens_after < 10_000 for c in again.compactions)
    assert max(a.context_tokens or 0 for a in answers(again)) <= 18_000
