"""When the context is compacted, by what, and what happens where that fails."""

import pytest
import trio
from msgspec.structs import replace

from pod.compaction.breaker import Breaker
from pod.entries import (
    BreakerChange,
    Compaction,
    CompactionStart,
    ItemEntry,
    UsageEntry,
)
from pod.exits import Exit
from tests.pod.compaction.pods import MODEL, TABLE, Make, unpaired
from tests.worker.compact import policies
from worker.client import (
    FailureKind,
)
from worker.items import ToolCall, ToolResult, UserText
from worker.limits import Limits
from worker.policy import Script, say
from worker.usage import Usage


async def test_a_long_turn_is_compacted_before_the_request_that_would_pass_the_limit(
    make: Make,
) -> None:
    pod = make(calls=14)

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 14 are fetched.")
    assert len(pod.compactions) >= 2
    assert {c.reason for c in pod.compactions} == {"mid_turn"}
    assert all(c.tokens_before > 22_500 for c in pod.compactions)
    assert all(c.tokens_after < 14_000 for c in pod.compactions)
    assert all(
        u.context_tokens is not None and u.context_tokens < 24_000
        for u in pod.told
        if isinstance(u, UsageEntry) and u.response
    )
    assert pod.calls == 14
    assert unpaired(pod.told) == []


async def test_the_run_goes_on_without_anything_said_in_the_users_place(
    make: Make,
) -> None:
    pod = make(calls=14)

    await pod.pod.run("Fetch everything.")

    said = [
        e.item
        for e in pod.told
        if isinstance(e, ItemEntry) and isinstance(e.item, UserText)
    ]
    assert said == [UserText(text="Fetch everything.")]


async def test_a_switch_to_a_smaller_model_compacts_before_its_first_request(
    make: Make,
) -> None:
    large = replace(TABLE, compact_threshold=40_000, turn_threshold=45_000)
    first = make(calls=8, table=large)  # about 33 000 tokens
    await first.pod.run("Fetch everything.")
    assert first.compactions == []

    small = replace(MODEL, id="smaller", window=30_000)
    second = make(model=small, main=Script([], then=say("Yes.")))
    end = await second.pod.run("Once more?")

    assert (end.outcome, end.text) == ("finished", "Yes.")
    assert [c.reason for c in second.compactions] == ["model_switch"]
    assert second.compactions[0].tokens_before > 22_500


async def test_what_a_run_left_above_the_early_limit_is_compacted_before_the_next(
    make: Make,
) -> None:
    first = make(calls=5)  # about 20 500 tokens: between the two limits
    await first.pod.run("Fetch everything.")
    assert first.compactions == []

    second = make(calls=5)
    end = await second.pod.run("Once more?")

    assert end.outcome == "finished"
    assert [c.reason for c in second.compactions] == ["post_run"]


async def test_a_worker_that_fails_behind_a_run_is_a_warning_and_nothing_is_lost(
    make: Make,
) -> None:
    first = make(calls=5)
    await first.pod.run("Fetch everything.")
    items = list(first.session.items)

    second = make(calls=5, worker=policies.empty())
    end = await second.pod.run("Once more?")

    assert end.outcome == "finished"
    assert [f.code for f in second.failures] == ["no_summary"]
    assert "Auto-compaction failed" in second.failures[0].message
    assert list(second.session.items)[: len(items)] == items
    assert unpaired(second.told) == []


async def test_inside_a_turn_the_next_rung_takes_over_from_a_worker_that_fails(
    make: Make,
) -> None:
    pod = make(calls=14, worker=policies.empty())

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    assert {c.mode for c in pod.compactions} == {"mechanical"}
    receipt = pod.compactions[0].receipt
    assert "worker: no_summary" in receipt.attempts[0]
    assert receipt.worker_requests == 4  # of the one that failed
    assert receipt.worker_input_tokens > 0
    assert unpaired(pod.told) == []


async def test_names_of_files_never_keep_the_last_rung_from_making_room(
    make: Make,
) -> None:
    table = replace(
        TABLE, default_references=100, auto_read_budget=1, directive_budget=100
    )
    pod = make(calls=2, size=11_700, worker=policies.empty(), table=table)
    pod.files.touch([f"/{'long' * 50}/{n}.py" for n in range(40)])

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    assert {c.mode for c in pod.compactions} == {"mechanical"}
    assert [r.path[-6:] for r in pod.compactions[0].references][:2] == [
        "/39.py",
        "/38.py",
    ]


async def test_three_failures_open_the_breaker_over_restarts(make: Make) -> None:
    pod = make(calls=30, worker=policies.empty())

    await pod.pod.run("Fetch everything.")

    changes = [e for e in pod.told if isinstance(e, BreakerChange)]
    assert [c.failures for c in changes] == [1, 2, 3]
    assert changes[-1].opened_at is not None
    after = pod.told.index(changes[-1])
    later = [e for e in pod.told[after:] if isinstance(e, Compaction)]
    assert len(later) >= 2
    assert all("breaker" in c.receipt.attempts[0] for c in later[1:])
    assert [c.receipt.worker_requests for c in later[1:]] == [0] * (len(later) - 1)

    again = make(calls=30)
    assert again.session.breaker.failures == 3
    assert again.session.breaker.opened_at is not None


async def test_new_input_lets_a_worker_through_where_no_window_is_known(
    make: Make,
) -> None:
    opened = Breaker(3, "2999-01-01T00:00:00Z", "f")
    model = replace(MODEL, window=None)
    table = replace(TABLE, compact_threshold=None)
    pod = make(calls=1, model=model, table=table)
    pod.session.append(opened.as_entry())
    assert pod.watch.thresholds is None

    await pod.pod.run("Fetch everything.")

    assert pod.session.breaker == opened.half_opened()


async def test_a_worker_that_succeeds_closes_the_breaker(make: Make) -> None:
    pod = make(calls=14, worker=policies.empty())
    await pod.pod.run("Fetch everything.")
    assert pod.session.breaker.failures > 0

    again = make(calls=40)
    await again.pod.run("And more.")

    assert again.session.breaker.failures == 0


@pytest.mark.parametrize("kind", ["rate_limit", "server", "connection"])
async def test_what_is_the_providers_fault_does_not_count_for_the_breaker(
    kind: FailureKind, make: Make, autojump_clock: trio.testing.MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    pod = make(calls=14, worker=policies.failing(kind, then=policies.lazy()))

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    assert [e for e in pod.told if isinstance(e, BreakerChange)] == []
    assert {c.mode for c in pod.compactions} == {"mechanical"}


async def test_with_compaction_off_nothing_is_automatic(make: Make) -> None:
    pod = make(
        calls=14,
        table=replace(TABLE, enabled=False),
        model=replace(MODEL, window=30_000),
    )

    end = await pod.pod.run("Fetch everything.")

    assert (end.reason, end.exit_code) == ("overflow", Exit.CONTEXT)
    assert [e for e in pod.told if isinstance(e, CompactionStart)] == []


async def test_a_result_larger_than_everything_is_clipped_and_the_run_goes_on(
    make: Make,
) -> None:
    pod = make(calls=6, size=lambda number: 30_000 if number == 3 else 1_000)

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 6 are fetched.")
    assert pod.compactions
    assert pod.compactions[0].tokens_after < 14_000


async def test_a_prompt_that_alone_is_too_large_is_clipped_and_not_forgotten(
    make: Make,
) -> None:
    pod = make(calls=2, table=replace(TABLE, directive_budget=200))
    prompt = "First of all. " + "word " * 30_000 + "Last of all."

    end = await pod.pod.run(prompt)

    assert end.outcome == "finished"
    assert [c.tokens_after < 14_000 for c in pod.compactions] == [True]
    shown = " ".join(str(item) for item in pod.session.items)
    assert "First of all." in shown
    assert "Last of all." in shown


async def test_a_context_that_is_full_again_at_once_twice_in_a_row_ends_the_run(
    make: Make,
) -> None:
    pod = make(calls=40, size=21_000)  # each result fills what is left

    end = await pod.pod.run("Fetch everything.")

    assert (end.reason, end.exit_code) == ("context_full", Exit.CONTEXT)
    assert "thrash" in end.message
    assert "kept history" in end.message
    assert len(pod.compactions) == 2
    assert end.interrupted


async def test_a_compact_worker_is_paid_for_by_the_run_and_told_apart(
    make: Make,
) -> None:
    pod = make(calls=14)

    end = await pod.pod.run("Fetch everything.")

    own = Usage()
    for entry in pod.told:
        if isinstance(entry, UsageEntry):
            own += entry.usage or Usage()
    workers = Usage()
    for compaction in pod.compactions:
        workers += compaction.usage
    assert workers.total > 0
    assert end.usage == own + workers


async def test_a_limit_on_tokens_holds_for_compact_workers_too(make: Make) -> None:
    pod = make(calls=40, limits=Limits(max_total_tokens=150_000))

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.reason) == ("limit", "max_total_tokens")
    assert unpaired(pod.told) == []


async def test_by_hand_a_session_is_compacted_between_runs(make: Make) -> None:
    pod = make(calls=4)
    await pod.pod.run("Fetch everything.")
    before = len(pod.session.items)

    await pod.pod.compact(instructions="Keep the numbers.")

    assert [c.reason for c in pod.compactions] == ["manual"]
    assert len(pod.session.items) < before + 3


async def test_input_that_comes_during_a_compaction_is_delivered_once(
    make: Make,
) -> None:
    pod = make(calls=14)
    steered = 0

    def steer(entry: object) -> None:
        nonlocal steered
        pod.told.append(entry)  # type: ignore[arg-type]  # as on_entry gives it
        if isinstance(entry, CompactionStart) and not steered:
            steered += 1

    pod.session.on_entry = steer

    async with trio.open_nursery() as nursery:

        async def type_when_it_compacts() -> None:
            while not steered:
                await trio.lowlevel.checkpoint()
            pod.pod.steer("And this.")

        nursery.start_soon(type_when_it_compacts)
        end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    said = [
        e.item.text
        for e in pod.told
        if isinstance(e, ItemEntry) and isinstance(e.item, UserText)
    ]
    assert said == ["Fetch everything.", "And this."]


async def test_a_session_loaded_again_shows_the_same_after_compactions(
    make: Make,
) -> None:
    pod = make(calls=14)
    await pod.pod.run("Fetch everything.")
    items = list(pod.session.items)
    assert pod.compactions

    again = make(calls=14)

    assert list(again.session.items) == items
    assert again.session.problems == []


async def test_every_call_shown_has_its_result(make: Make) -> None:
    pod = make(calls=14)

    await pod.pod.run("Fetch everything.")

    calls = [i.call_id for i in pod.session.items if isinstance(i, ToolCall)]
    results = [i.call_id for i in pod.session.items if isinstance(i, ToolResult)]
    assert calls == results


async def test_behind_a_compaction_how_full_it_is_is_not_known_until_the_next_answer(
    make: Make,
) -> None:
    """pi#1382: the figure of before was shown."""
    pod = make(calls=8)

    await pod.pod.run("Fetch everything.")

    told = [found for e in pod.told if (found := pod.watch.told(e)) is not None]
    [at] = [n for n, found in enumerate(told) if found.tokens is None]
    before, behind, after = told[at - 1 : at + 2]
    assert behind.estimate == pod.compactions[0].tokens_after
    assert before.tokens is not None
    assert after.tokens is not None
    assert after.tokens < before.tokens
