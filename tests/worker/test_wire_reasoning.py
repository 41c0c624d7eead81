"""When reasoning is sent, and which budget for it."""

from typing import Literal

import pytest
from msgspec.structs import replace

from tests.makers import (
    MODEL,
    call,
    history,
    result,
    said,
    thought,
    user,
)
from tests.worker.wires import NEUTRAL, answer, messages_of, request_of, use
from worker import api
from worker.client import Response
from worker.items import Item, Reasoning
from worker.validate import problems
from worker.wire import items_of


def test_there_is_no_prefill_while_thinking_is_on() -> None:
    model = replace(MODEL, prefill=True, thinking="adaptive")

    assert messages_of([user("go"), said("done")], model)[-1] == ("user", (NEUTRAL,))


def test_reasoning_that_led_to_nothing_is_not_sent() -> None:
    items = history(
        user("go"),
        thought("a", "r"),
        call("a", "r"),
        thought("b", "r"),
        result("a"),
        thought("c", "s"),
        said("", "s"),
    )

    assert messages_of(items) == [
        ("user", (api.Text("go"),)),
        ("assistant", (api.Thinking("a", "signed a"), use("a"))),
        ("user", (answer("a"),)),
    ]


def test_reasoning_of_another_model_and_unsigned_reasoning_stay_at_home() -> None:
    items = history(
        user("go"),
        thought("theirs", "r", model="other-2"),
        Reasoning("unsigned", "r", MODEL.id),
        said("hello", "r"),
        user("go on"),
    )

    assert messages_of(items)[1] == ("assistant", (api.Text("hello"),))


def test_reasoning_of_a_dated_snapshot_is_ones_own() -> None:
    own = thought("mine", "r", model=f"{MODEL.id}-20260101")

    assert messages_of([user("go"), own, said("hello", "r"), user("on")])[1] == (
        "assistant",
        (api.Thinking("mine", "signed mine"), api.Text("hello")),
    )


@pytest.mark.parametrize(
    ("thinking", "expected"), [(2048, "off"), ("adaptive", "adaptive"), (None, None)]
)
def test_a_budget_is_off_while_the_open_tool_loop_has_lost_its_reasoning(
    thinking: Literal["adaptive"] | int | None, expected: str | None
) -> None:
    model = replace(MODEL, thinking=thinking, temperature=0.5)
    loop = history(user("go"), thought(of="a"), call("a"), result("a"))

    inside = request_of([call("x"), result("x"), *loop[1:]], model)
    whole = request_of(loop, model)
    closed = request_of([call("x"), result("x"), said("done"), user("on")], model)

    assert [inside.thinking, whole.thinking, closed.thinking] == [
        expected,
        thinking,
        thinking,
    ]
    for request in (inside, whole, closed):
        assert problems(request, model=model) == []


def test_reasoning_is_not_sent_while_thinking_is_off() -> None:
    model = replace(MODEL, thinking="off")
    items = history(user("go"), thought(of="a"), call("a"), result("a"))

    assert messages_of(items, model)[1] == ("assistant", (use("a"),))


@pytest.mark.parametrize(
    ("max_tokens", "expected"),
    [(8000, 4096), (4096, 2048), (1500, 1024), (1024, "off")],
)
def test_a_thinking_budget_stays_below_max_tokens(
    max_tokens: int, expected: int | str
) -> None:
    model = replace(MODEL, thinking=4096, temperature=0.5)

    request = request_of([user("go")], model, max_tokens=max_tokens)

    assert request.thinking == expected
    assert request.temperature == (0.5 if expected == "off" else None)
    assert problems(request, model=model) == []


def test_reasoning_can_be_kept_under_the_id_that_was_asked() -> None:
    items = (thought("hm", "msg_1", model="claude-snapshot"),)
    response = Response("msg_1", "claude-snapshot", items, "end_turn")

    assert items_of(response, "r7", model="alias") == (
        thought("hm", "r7", model="alias"),
    )


def test_the_first_signed_thinking_of_a_loop_is_in_every_request_of_the_loop() -> None:
    # rivals #64: a loop of four calls led by one thinking, cut at each request.
    model = replace(MODEL, thinking=2048)
    items: list[Item] = [user("go"), thought(of="c0")]
    for number in range(4):
        items += [call(f"c{number}"), result(f"c{number}")]

        request = request_of(items, model)

        assert request.messages[1].content[0] == api.Thinking("hm", "signed hm")
        assert request.thinking == 2048
