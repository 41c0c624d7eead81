"""Rules of a compaction that no other test would miss: each was broken to see."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from pod.compaction.breaker import Breaker
from pod.compaction.framing import leading_items
from pod.compaction.job import Done, Failed
from pod.compaction.native_block import kept_text
from pod.entries import BreakerChange, Clip, CompactionStart, Prune
from pod.exits import Exit
from pod.hooks.answers import BeforeCompactAnswer, HookCompaction
from pod.hooks.hooks import Hook
from pod.hooks.payloads import AnyPayload
from pod.manifest import PruneTable
from tests.pod.compaction.overflows import Overflowing
from tests.pod.compaction.pods import MODEL, TABLE, Make, fetching
from tests.pod.compaction.test_hooks_around import Told, kinds
from tests.pod.compaction.test_native import NATIVE, compacting
from tests.pod.hooks.answering import hook
from tests.worker.compact import policies
from worker.api import Request
from worker.client import Failure
from worker.items import Native, SystemText, UserText
from worker.policy import FailingWhen, Script, call, say
from worker.wire import Cache

OFF = replace(TABLE, enabled=False)


async def test_hooks_are_asked_once_how_to_write_it_however_many_rungs_follow(
    make: Make,
) -> None:
    told = Told()
    pod = make(calls=8, hooks=told.hooks, worker=policies.empty())

    await pod.pod.run("Fetch everything.")

    assert pod.compactions[0].mode == "mechanical"
    assert kinds(told) == ["BeforeCompact", "Compacting", "Compacted"]


async def test_what_a_hook_made_closes_no_breaker(make: Make) -> None:
    await make(calls=4, table=OFF).pod.run("Fetch.")
    made = HookCompaction(summary="Made by a hook.")
    pod = make(hooks=Told(BeforeCompactAnswer(compaction=made)).hooks)
    pod.session.append(Breaker(failures=2, fingerprint="x").as_entry())

    outcome = await pod.pod.compact()

    assert isinstance(outcome, Done)
    assert outcome.entry.from_hook
    assert pod.session.breaker.failures == 2


async def test_a_history_that_was_changed_meanwhile_is_not_replaced(make: Make) -> None:
    await make(calls=4, table=OFF).pod.run("Fetch.")

    async def clip_the_prompt(payload: AnyPayload) -> None:
        await trio.lowlevel.checkpoint()
        prompt = pod.session.window.shown[0]
        pod.session.append(Clip(entry=prompt.entry, text="Fet…"))

    pod = make(hooks=[hook("session_compacting", clip_the_prompt)])
    outcome = await pod.pod.compact(mode="mechanical")

    assert isinstance(outcome, Failed)
    assert outcome.entry.code == "invalid_cut"
    assert pod.compactions == []
    assert pod.session.items[0] == UserText("Fet…")


@pytest.mark.parametrize(("kind", "counts"), [("rate_limit", 0), ("invalid", 1)])
async def test_only_what_is_not_the_provider_s_fault_counts_against_native(
    kind: str, counts: int, make: Make
) -> None:
    failure = Failure("rate_limit" if kind == "rate_limit" else "invalid", "no", 400)
    main = FailingWhen(
        compacting(fetching(8)), lambda r: failure if r.compaction is not None else None
    )
    retry = make(calls=1).setup.retry
    pod = make(calls=8, table=NATIVE, main=main, retry=replace(retry, base=0.001))

    await pod.pod.run("Fetch everything.")

    changed = [e for e in pod.told if isinstance(e, BreakerChange)]
    assert [(e.mode, e.failures) for e in changed][:1] == [("native", 1)][:counts]


async def test_a_hook_cannot_put_a_block_in_the_provider_s_place(make: Make) -> None:
    await make(calls=4, table=replace(NATIVE, enabled=False)).pod.run("Fetch.")
    forged = kept_text(Native("scripted", "m", '{"type": "compaction"}'), "")
    made = HookCompaction(summary="Made by a hook.", preserve_data=forged)
    hooks = Told(BeforeCompactAnswer(compaction=made)).hooks
    pod = make(table=NATIVE, hooks=hooks)

    await pod.pod.compact()

    [entry] = pod.compactions
    [summary, *_] = leading_items(entry)
    assert (entry.mode, entry.preserve_data) == ("native", forged)
    assert isinstance(summary, SystemText)
    assert summary.native is None


async def test_overflows_on_each_other_s_heels_are_thrash_too(make: Make) -> None:
    """One answer between them, twice in a row: a third compaction would go on so."""
    clients = set(range(4, 40, 2))
    pod = make(calls=12, wrap=lambda client: Overflowing(client, clients))

    end = await pod.pod.run("Fetch everything.")

    assert (end.reason, end.exit_code) == ("overflow", Exit.CONTEXT)
    assert [c.reason for c in pod.compactions] == ["overflow"] * 2


async def test_a_request_that_is_refused_again_gets_the_last_rung_before_it_is_thrash(
    make: Make,
) -> None:
    pod = make(calls=8, wrap=lambda client: Overflowing(client, {4, 6, 7}))

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 8 are fetched.")
    made = [(c.reason, c.mode) for c in pod.compactions][:3]
    assert made == [("overflow", "worker")] * 2 + [("overflow", "mechanical")]


async def test_after_an_answer_an_overflow_is_a_first_one_again(make: Make) -> None:
    pod = make(calls=10, wrap=lambda client: Overflowing(client, {4, 8, 12}))

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 10 are fetched.")
    made = [c.mode for c in pod.compactions if c.reason == "overflow"]
    assert made == ["worker"] * 3


async def test_what_a_refusal_says_of_the_prompt_is_what_was_before(make: Make) -> None:
    failed: list[Request] = []

    def refuse(request: Request) -> Failure | None:
        if request.tools and len(request.messages) > 5 and not failed:
            failed.append(request)
            return Failure("overflow", "prompt is too long", prompt_tokens=55_555)
        return None

    pod = make(calls=4, main=FailingWhen(fetching(4), refuse))

    await pod.pod.run("Fetch everything.")

    [start] = [e for e in pod.told if isinstance(e, CompactionStart)]
    assert (start.reason, start.tokens_before) == ("overflow", 55_555)


async def test_a_switch_within_the_new_model_s_limit_is_what_any_run_begins_with(
    make: Make,
) -> None:
    """Above the early limit alone: one rung is tried, and the reason is post_run."""
    large = replace(TABLE, compact_threshold=40_000, turn_threshold=45_000)
    await make(calls=5, size=3_500, table=large).pod.run("Fetch everything.")

    other = replace(MODEL, id="other")
    pod = make(model=other, main=Script([], then=say("Yes.")))
    await pod.pod.run("Once more?")

    assert [c.reason for c in pod.compactions] == ["post_run"]


async def test_by_hand_nothing_is_pruned(make: Make) -> None:
    prune = PruneTable(protect_tokens=1_000, min_savings=1_000)
    await make(calls=4, table=OFF).pod.run("Fetch.")
    pod = make(table=OFF, prune=prune, cache=Cache(enabled=False))

    outcome = await pod.pod.compact()

    assert isinstance(outcome, Done)
    assert [e for e in pod.told if isinstance(e, Prune)] == []


Change = Callable[[Path], str | None]


def grown(file: Path) -> str:
    return "line\n" * 1_500


def just_too_long(file: Path) -> str:
    return "line\n" * 795  # with its frame beyond the budget of 1 000 tokens


def gone(file: Path) -> str | None:
    return None


@pytest.mark.parametrize("change", [grown, just_too_long, gone])
async def test_a_file_that_grew_or_went_behind_its_mark_is_only_named(
    change: Change, make: Make, tmp_path: Path
) -> None:
    """The budget is charged once more when it is read again: origins.md §4, 41."""
    file = tmp_path / "notes.txt"
    file.write_text("port 7788\n")

    async def meddle(payload: AnyPayload) -> object:
        await trio.lowlevel.checkpoint()
        text = change(file)
        file.unlink() if text is None else file.write_text(text)
        return None

    mark = call(("w1", "mark_read_required", json.dumps({"path": str(file)})))
    write = call(("w2", "write_summary", json.dumps({"text": policies.summary()})))
    hook = Hook(event="pre_tool_call", name="x", ask=meddle, tools=("write_summary",))
    pod = make(calls=8, worker=Script([mark, write], then=say("Done.")), hooks=[hook])

    await pod.pod.run("Fetch everything.")

    [entry] = pod.compactions
    assert (entry.mode, entry.auto_read) == ("worker", ())
    assert entry.receipt.vanished_marks == (str(file),)
    assert [reference.path for reference in entry.references] == [str(file)]
