"""The corpus's cases of compaction, in a Pod that runs (corpus/cases/NN-*.md)."""

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from pod.entries import Compaction, CompactionStart, ItemEntry, UsageEntry
from pod.exits import Exit
from tests.corpus import corpus
from tests.makers import call, result, user
from tests.pod.compaction.pods import TABLE, WINDOW, FillingPod, Make
from tests.worker.compact import policies
from tests.worker.loopback.pictures import png
from tools.base import Image
from worker import api
from worker.api import Request
from worker.client import Client, Delta, Failure, ProviderError, Response
from worker.history import faults
from worker.items import ToolCall, ToolResult
from worker.policy import Decide, FailingWhen, Policy, Reply, call as make_calls, say

SCREEN = Image("image/png", png(920, 2001))


class Keeping:
    """A client that keeps the requests it passes on, in a list of the test's."""

    def __init__(self, client: Client, kept: list[Request]) -> None:
        self._client = client
        self._kept = kept

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        self._kept.append(request)
        return await self._client.ask(request, on_delta)

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


def results(request: Request) -> Iterator[api.ToolResult]:
    for message in request.messages:
        for block in message.content:
            if isinstance(block, api.ToolResult):
                yield block


def images(request: Request) -> int:
    return sum(
        isinstance(part, api.Image)
        for found in results(request)
        for part in found.content
    )


def is_workers(request: Request) -> bool:
    return any(tool.name == policies.TOOL for tool in request.tools)


def once() -> Policy:
    """Say that it is done, whatever is asked."""
    return Decide(lambda request: say("Done."))


async def test_07_a_broken_log_of_chained_compactions_goes_on(make: Make) -> None:
    pod = make()
    first = pod.session.append(
        *(ItemEntry(item=item) for item in (user("hi"), call("c1"))),
        *(ItemEntry(item=item) for item in (call("c2"), result("c2", "ok " * 4_000))),
    )
    pod.session.append(_compaction(first[2].id, pod), ItemEntry(item=result("c1")))
    (a3,) = pod.session.append(ItemEntry(item=call("c3")))
    pod.session.append(ItemEntry(item=result("c3")))
    pod.session.append(_compaction(a3.id, pod))

    end = await make(main=once()).pod.run("Go on.")
    again = make(main=once())

    assert end.outcome == "finished"
    shown = [type(item) for item in again.session.items]
    assert shown.count(ToolCall) == shown.count(ToolResult) == 1
    assert faults(again.session.items) == []


def _compaction(first_kept: str, pod: FillingPod) -> Compaction:
    return Compaction(
        compaction_id=first_kept,
        reason="manual",
        mode="worker",
        summary="summary",
        first_kept=first_kept,
        compacted_from=pod.session.leaf or "",
        tokens_before=10_000,
        tokens_after=1_000,
    )


async def test_08_a_call_that_a_crash_left_open_is_answered_before_it_is_compacted(
    make: Make,
) -> None:
    pod = make()
    items = (
        *(user("hi"), call("c0"), result("c0", "data " * 3_000)),
        *(call("c1", "r"), call("c2", "r"), result("c1")),
    )
    pod.session.append(*(ItemEntry(item=item) for item in items))
    kept: list[Request] = []

    again = make(main=once(), wrap=lambda client: Keeping(client, kept))
    await again.pod.compact()
    end = await again.pod.run("Go on.")

    assert [c.reason for c in again.compactions] == ["manual"]
    assert end.outcome == "finished"
    assert [r.is_error for r in results(kept[-1])] == [False, True]


async def test_10_ids_that_are_used_again_are_made_unique_over_compactions(
    make: Make,
) -> None:
    """Twice in each answer, and the same in every one."""
    kept: list[Request] = []

    def reply(request: Request) -> Reply:
        seen = sum(1 for _ in results(request))
        if "result 16" in str(request.messages[-1]) or seen > 30:
            return say("Done.")
        return make_calls(("call", "fetch", "{}"), ("call", "fetch", "{}"))

    pod = make(
        main=Decide(reply), size=2_000, wrap=lambda client: Keeping(client, kept)
    )

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text, pod.calls) == ("finished", "Done.", 16)
    assert len(pod.compactions) >= 1
    ids = [
        entry.item.call_id
        for entry in pod.told
        if isinstance(entry, ItemEntry) and isinstance(entry.item, ToolCall)
    ]
    answered = [
        entry.item.call_id
        for entry in pod.told
        if isinstance(entry, ItemEntry) and isinstance(entry.item, ToolResult)
    ]
    assert ids == answered
    assert list(make().session.items) == list(pod.session.items)


async def test_11_a_failed_compaction_leaves_no_empty_answer_and_voids_no_measurement(
    make: Make,
) -> None:
    pod = make(calls=4, worker=policies.silent())
    await pod.pod.run("Fetch everything.")
    items, measured = list(pod.session.items), pod.watch.occupancy.last
    assert measured is not None

    await pod.pod.compact(mode="worker")

    assert [f.code for f in pod.failures] == ["no_summary"]
    assert list(pod.session.items) == items
    assert pod.watch.occupancy.last == measured


async def test_14_binary_output_survives_compactions_and_reloads(make: Make) -> None:
    data = corpus("cases/inputs/14-nul-and-binary.bin").read_bytes()
    pod = make(calls=8, more=data.decode("utf-8", "replace"))

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 8 are fetched.")
    assert pod.compactions
    assert list(make().session.items) == list(pod.session.items)


async def test_15_screenshots_are_counted_and_no_compact_worker_gets_one(
    make: Make,
) -> None:
    kept: list[Request] = []
    pod = make(
        calls=42,
        size=20,
        images=(SCREEN,),
        wrap=lambda client: Keeping(client, kept),
    )

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 42 are fetched.")
    assert pod.compactions
    assert max(images(r) for r in kept if not is_workers(r)) <= 20
    assert {images(r) for r in kept if is_workers(r)} == {0}


class TooLarge(Keeping):
    """Refuses bodies with more than three images, as a proxy does."""

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        if images(request) > 3:
            raise ProviderError(
                Failure("payload_too_large", "request_too_large", status=413)
            )
        return await super().ask(request, on_delta)


async def test_15_a_body_that_is_too_large_loses_images_and_is_not_compacted(
    make: Make,
) -> None:
    kept: list[Request] = []
    pod = make(
        calls=6,
        size=20,
        images=(SCREEN,),
        wrap=lambda client: TooLarge(client, kept),
    )

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 6 are fetched.")
    assert [e for e in pod.told if isinstance(e, CompactionStart)] == []


async def test_16_a_loop_of_compactions_that_do_not_help_is_ended(make: Make) -> None:
    pod = make(calls=60, size=21_000)

    end = await pod.pod.run("Fetch everything.")

    assert (end.reason, end.exit_code) == ("context_full", Exit.CONTEXT)
    assert "The largest is the kept history" in end.message
    assert len([e for e in pod.told if isinstance(e, CompactionStart)]) <= 3


async def test_17_a_summary_request_that_overflows_is_made_smaller(make: Make) -> None:
    sizes: list[int] = []

    def fits(request: Request) -> Failure | None:
        size = len(policies.task_of(request))
        sizes.append(size)
        too_long = Failure("overflow", "prompt is too long", status=400)
        return too_long if len(sizes) < 3 else None

    pod = make(
        calls=40,
        size=700,
        worker=FailingWhen(policies.lazy(), fits),
        table=replace(TABLE, overview_tokens=2_000),
    )

    end = await pod.pod.run("Fetch everything. " + "Mind the details. " * 150)

    assert end.outcome == "finished"
    assert sizes[0] > sizes[1] > sizes[2]
    assert pod.compactions[0].mode == "worker"


async def test_17_one_that_cannot_fit_leaves_the_log_and_another_rung_takes_over(
    make: Make,
) -> None:
    pod = make(calls=8, worker=policies.failing("overflow", 400, then=policies.lazy()))

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    assert [c.mode for c in pod.compactions] == ["mechanical"]
    assert "worker: overflow" in pod.compactions[0].receipt.attempts[0]


@pytest.mark.parametrize("size", [WINDOW + 20_000, 5 * WINDOW])
async def test_18_a_result_larger_than_the_window_is_bounded_and_the_run_goes_on(
    size: int, make: Make
) -> None:
    pod = make(calls=6, size=lambda number: size if number == 3 else 500)

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 6 are fetched.")
    largest = max(e.context_tokens or 0 for e in pod.told if isinstance(e, UsageEntry))
    assert largest <= WINDOW
