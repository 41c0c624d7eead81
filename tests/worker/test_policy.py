import pytest
from msgspec import Raw

from worker.api import Message, Request, Text, ToolResult, ToolSpec, ToolUse
from worker.client import Failure, ProviderError
from worker.items import AssistantText, Reasoning, ToolCall
from worker.policy import (
    Decide,
    Echo,
    Failing,
    FailingWhen,
    Reply,
    Route,
    Script,
    call,
    say,
    think,
)


def asking(*messages: Message, tools: tuple[str, ...] = ()) -> Request:
    specs = tuple(
        ToolSpec(name, "A tool.", Raw(b'{"type":"object"}')) for name in tools
    )
    first = Message("user", (Text("go"),))
    return Request("m", 100, (), (first, *messages), tools=specs)


def turn(id_: str) -> tuple[Message, Message]:
    return (
        Message("assistant", (ToolUse(id_, "look", Raw(b"{}")),)),
        Message("user", (ToolResult(id_, (Text("seen"),)),)),
    )


def test_a_script_goes_on_by_the_assistant_s_turns() -> None:
    script = Script([say("one"), say("two")], then=say("end"))

    replies = [
        script.reply(asking()),
        script.reply(asking(*turn("a"))),
        script.reply(asking(*turn("a"))),
        script.reply(asking(*turn("a"), *turn("b"))),
        script.reply(asking(*turn("a"), *turn("b"), *turn("c"))),
        script.reply(asking()),
    ]

    assert replies == [say(w) for w in ("one", "two", "two", "end", "end", "one")]


def test_calls_come_behind_their_text() -> None:
    assert call(("a", "look", "{}"), ("b", "run", '{"x":1}'), text="Now.") == Reply(
        (
            AssistantText("Now.", ""),
            ToolCall("a", "look", "{}", ""),
            ToolCall("b", "run", '{"x":1}', ""),
        ),
        "tool_use",
    )


def test_reasoning_comes_first() -> None:
    assert think("hm", say("so")) == Reply(
        (Reasoning("hm", "", ""), AssistantText("so", ""))
    )


def test_echo_calls_its_tool_and_ends() -> None:
    echo = Echo("look", times=2, arguments='{"x":1}')
    tools = ("look",)

    assert echo.reply(asking(tools=tools)) == call(("toolu_000000", "look", '{"x":1}'))
    assert echo.reply(asking(*turn("a"), tools=tools)) == call(
        ("toolu_000001", "look", '{"x":1}')
    )
    assert echo.reply(asking(*turn("a"), *turn("b"), tools=tools)) == say(
        "Done after 2 calls."
    )


def test_echo_goes_on_counting_where_results_were_taken_away() -> None:
    left = asking(*turn("toolu_000007"), tools=("look",))

    assert Echo("look", times=9).reply(left) == call(("toolu_000008", "look", "{}"))
    assert Echo("look", times=8).reply(left) == say("Done after 8 calls.")


def test_echo_calls_nothing_where_nothing_is_offered() -> None:
    assert Echo("look").reply(asking()) == say("Done after 0 calls.")


def test_a_route_asks_by_the_tools_that_are_offered() -> None:
    route = Route(
        {"write_summary": Script([], then=say("worker"))},
        otherwise=Script([], then=say("pod")),
    )

    assert route.reply(asking(tools=("look", "write_summary"))) == say("worker")
    assert route.reply(asking(tools=("look",))) == say("pod")


def test_failures_come_at_their_numbers() -> None:
    failure = Failure("overloaded", "Overloaded", status=529)
    policy = Failing(Script([say("one")]), {2: failure})

    assert policy.reply(asking()) == say("one")
    with pytest.raises(ProviderError, match="Overloaded") as raised:
        policy.reply(asking())
    assert raised.value.failure == failure
    assert policy.reply(asking()) == say("one")


def test_failures_come_with_their_requests() -> None:
    failure = Failure("overflow", "too long")
    policy = FailingWhen(
        Decide(lambda request: say("fine")),
        lambda request: failure if len(request.messages) > 2 else None,
    )

    assert policy.reply(asking()) == say("fine")
    with pytest.raises(ProviderError):
        policy.reply(asking(*turn("a")))
