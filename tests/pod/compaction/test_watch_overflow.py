"""What a Pod does where the provider says, or hides, that a prompt does not fit."""

from collections.abc import Callable
from decimal import Decimal

import pytest
import trio
from msgspec.structs import replace

from pod.entries import (
    CompactionStart,
    Custom,
    ItemEntry,
    Known,
    Mode,
)
from pod.exits import Exit
from tests.pod.compaction.overflows import Overflowing
from tests.pod.compaction.pods import TABLE, Make, answering, unpaired
from tests.worker.compact import policies
from worker.api import Request
from worker.client import (
    Client,
    Delta,
    Response,
)
from worker.items import ToolCall
from worker.limits import Limits
from worker.usage import Usage


async def test_a_refused_prompt_is_compacted_and_sent_again(make: Make) -> None:
    clients: list[Overflowing] = []

    def wrap(client: Client) -> Client:
        clients.append(Overflowing(client, {4}))
        return clients[0]

    pod = make(calls=5, wrap=wrap)

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 5 are fetched.")
    assert [c.reason for c in pod.compactions] == ["overflow"]
    start = next(e for e in pod.told if isinstance(e, CompactionStart))
    assert start.will_retry
    refused, again = clients[0].requests[3:5]
    assert again.messages[-1] == refused.messages[-1]  # but for cache marks
    assert again.system[0] == refused.system[0]


async def test_a_second_refusal_takes_the_last_rung_and_a_third_ends_the_run(
    make: Make,
) -> None:
    pod = make(calls=5, wrap=lambda client: Overflowing(client, set(range(4, 40))))

    end = await pod.pod.run("Fetch everything.")

    assert (end.reason, end.exit_code) == ("overflow", Exit.CONTEXT)
    assert end.message.startswith("Context overflow recovery failed: ")
    assert [c.mode for c in pod.compactions] == ["worker", "mechanical"]
    assert end.interrupted
    assert unpaired(pod.told) == []


class Swallowing:
    """Answers nothing, and tells no usage, to the requests of these numbers."""

    def __init__(self, client: Client, number: int) -> None:
        self._client = client
        self._number = number
        self._asked = 0

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        response = await self._client.ask(request, on_delta)
        if not any(tool.name == policies.TOOL for tool in request.tools):
            self._asked += 1
            if self._asked == self._number:
                return replace(
                    response,
                    items=(),
                    usage=None,
                    context_tokens=None,
                    stop_reason="end_turn",
                )
        return response

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


async def test_an_empty_answer_without_usage_is_an_overflow(make: Make) -> None:
    pod = make(calls=5, wrap=lambda client: Swallowing(client, 4))

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    assert [c.reason for c in pod.compactions] == ["overflow"]


class CutShort(Swallowing):
    """Tells of more prompt than the window holds, for the request of that number."""

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        response = await self._client.ask(request, on_delta)
        if not any(tool.name == policies.TOOL for tool in request.tools):
            self._asked += 1
            if self._asked == self._number:
                return replace(
                    response,
                    usage=Usage(input=61_000, output=10),
                    context_tokens=61_010,
                )
        return response


class Cutting(Swallowing):
    """Ends the answer to that request because the window is full."""

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        response = await self._client.ask(request, on_delta)
        if not any(tool.name == policies.TOOL for tool in request.tools):
            self._asked += 1
            if self._asked == self._number:
                return replace(response, stop_reason="model_context_window_exceeded")
        return response


async def test_a_prompt_that_was_cut_without_a_word_is_an_overflow(
    make: Make,
) -> None:
    pod = make(calls=5, wrap=lambda client: CutShort(client, 4))

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 5 are fetched.")
    assert [c.reason for c in pod.compactions] == ["overflow"]


async def test_a_new_prompt_begins_to_count_overflows_anew(make: Make) -> None:
    """Both refused at the first request: a compact worker is asked both times."""
    pod = make(main=answering(), wrap=lambda client: Overflowing(client, {6, 12}))

    for prompt in ("4 calls", "4 calls", "1 calls"):
        end = await pod.pod.run(prompt)
        assert end.outcome == "finished"

    modes = [c.mode for c in pod.compactions if c.reason == "overflow"]
    assert modes == ["worker", "worker"]


async def test_input_that_came_meanwhile_goes_with_the_request_that_is_sent_again(
    make: Make,
) -> None:
    clients: list[Overflowing] = []

    def wrap(client: Client) -> Client:
        clients.append(Overflowing(client, {4}))
        return clients[0]

    pod = make(calls=5, wrap=wrap)

    def steer(entry: Known) -> None:
        pod.told.append(entry)
        if isinstance(entry, CompactionStart):
            starts.set()

    starts = trio.Event()
    pod.session.on_entry = steer
    async with trio.open_nursery() as nursery:

        async def say_more() -> None:
            await starts.wait()
            pod.pod.steer("And this.")

        nursery.start_soon(say_more)
        end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    again = clients[0].requests[4]
    assert "And this." in str(again.messages[-1])


async def test_an_answer_that_filled_the_window_leaves_the_context_and_stays_in_the_log(
    make: Make,
) -> None:
    pod = make(calls=5, wrap=lambda client: Cutting(client, 4))

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    kept = [e for e in pod.told if isinstance(e, Custom)]
    assert [e.kind for e in kept] == ["discarded_response"]
    assert "toolu_4" in kept[0].json
    calls = [
        e.item.call_id
        for e in pod.told
        if isinstance(e, ItemEntry) and isinstance(e.item, ToolCall)
    ]
    assert calls.count("toolu_4") == 1


@pytest.mark.parametrize(
    "limits", [Limits(max_total_tokens=90_000), Limits(max_budget_usd=1.0)]
)
async def test_what_is_used_up_before_a_compaction_leaves_no_request_to_its_worker(
    limits: Limits, make: Make
) -> None:
    used = Usage(input=80_000)  # and its price is not known

    pod = make(
        calls=5,
        limits=limits,
        price=lambda model, usage: None if usage == used else Decimal(0),
        wrap=lambda client: Overflowing(client, {4}, usage=used),
    )

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "limit"
    assert [(c.mode, c.receipt.worker_requests) for c in pod.compactions] == [
        ("mechanical", 0)
    ]


@pytest.mark.parametrize("mode", ["worker", "mechanical"])
@pytest.mark.parametrize("size", [600, 4_000])
async def test_a_provider_that_takes_less_than_the_limits_say_gets_half_and_half_again(
    size: int, mode: Mode, make: Make
) -> None:
    """It gives no figure, and all of it is within what would be kept."""
    table = replace(TABLE, mode=mode, retained_tokens=4_000, compact_threshold=40_000)
    pod = make(
        calls=5,
        size=size,
        table=table,
        wrap=lambda client: Overflowing(client, {4, 5}),
    )

    end = await pod.pod.run("Fetch everything.")

    first, second = pod.compactions
    assert (end.outcome, end.text) == ("finished", "All 5 are fetched.")
    assert [(c.reason, c.mode) for c in (first, second)] == [
        ("overflow", mode),
        ("overflow", "mechanical"),
    ]
    assert first.receipt.kept_tokens <= first.tokens_before // 2
    assert second.receipt.kept_tokens <= first.receipt.kept_tokens // 2
    assert unpaired(pod.told) == []
