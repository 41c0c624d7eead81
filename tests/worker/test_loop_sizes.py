"""Requests that are made smaller, and results that share what room is left."""

from typing import TypeGuard

import pytest

from tests.fakes import (
    FakeTool,
    MemoryHistory,
    called,
    said,
)
from tests.worker.loopback.pictures import png
from tests.worker.loops import Case
from tools.base import Call, Image, ToolOutput
from worker.client import Failure
from worker.content import count_images
from worker.endings import (
    Failed,
    Finished,
)
from worker.events import Warning
from worker.items import (
    Item,
    ToolResult,
    UserText,
)
from worker.limits import Limits
from worker.model import Model


def images(number: int) -> tuple[Image, ...]:
    """Return *number* pictures that the API would take."""
    return (Image("image/png", png(10, 10)),) * number


def sent_images(case: Case) -> list[int]:
    return [count_images(request) for request in case.client.requests]


TOO_BIG = Failure(kind="payload_too_large", message="413 request too large", status=413)


async def test_a_payload_that_is_too_large_is_sent_with_fewer_images() -> None:
    history = MemoryHistory(UserText(text="look", images=images(5)))
    case = Case(TOO_BIG, TOO_BIG, [said("seen")], history=history)

    ending = await case.run()

    assert ending == Finished("seen")
    assert sent_images(case) == [5, 1, 0]
    assert [w.message for w in case.heard.of(Warning)] == [
        "sending 2 images at most",
        "sending 0 images at most",
    ]
    assert case.spent.requests == 1


async def test_a_payload_without_images_cannot_be_made_smaller() -> None:
    case = Case(TOO_BIG)

    ending = await case.run()

    assert ending == Failed(TOO_BIG)
    assert len(case.client.requests) == 1


def too_much_output(limit: int | None) -> Failure:
    return Failure(
        kind="output_too_large", message="input + max_tokens", output_limit=limit
    )


@pytest.mark.parametrize(
    ("failures", "asked"),
    [
        ([too_much_output(700)], [1_000, 700]),
        ([too_much_output(None), too_much_output(None)], [1_000, 500, 250]),
    ],
    ids=["the provider says how much", "it does not"],
)
async def test_less_output_is_asked_for_where_that_was_too_much(
    failures: list[Failure], asked: list[int]
) -> None:
    case = Case(*failures, [called("a")], [said("done")], limits=Limits(max_requests=2))

    ending = await case.run()

    assert ending == Finished("done")
    assert [r.max_tokens for r in case.client.requests] == [*asked, asked[-1]]


@pytest.mark.parametrize("limit", [0, 1_000, 5_000])
async def test_output_that_cannot_be_lowered_ends_the_turn(limit: int) -> None:
    failure = too_much_output(limit)
    case = Case(failure)

    ending = await case.run()

    assert ending == Failed(failure)


async def test_results_of_one_batch_share_what_is_left_of_the_window() -> None:
    async def talk(call: Call) -> ToolOutput:
        return ToolOutput(summary="talked", content="x" * 20_000)

    history = MemoryHistory(UserText(text="y" * 50_000))
    case = Case(
        [called(name) for name in "abcd"],
        [said("done")],
        tools=[FakeTool("do", talk)],
        history=history,
        model=Model(provider="scripted", id="m", window=100_000, max_tokens=20_000),
    )
    case.client.context_tokens = 60_000

    await case.run()

    sizes = [len((i.content or "").encode()) for i in case.added if is_result(i)]
    assert len(sizes) == 4
    assert all(4_000 < size <= (100_000 - 20_000 - 60_000) // 4 for size in sizes)


async def test_a_lone_result_keeps_its_own_cap() -> None:
    async def talk(call: Call) -> ToolOutput:
        return ToolOutput(summary="talked", content="x" * 19_000)

    case = Case([called("a")], [said("done")], tools=[FakeTool("do", talk)])

    await case.run()

    assert [len(i.content or "") for i in case.added if is_result(i)] == [19_000]


def is_result(item: Item) -> TypeGuard[ToolResult]:
    return isinstance(item, ToolResult)
