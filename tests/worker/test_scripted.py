import pytest
import trio
from msgspec import Raw
from msgspec.structs import replace

from worker.api import (
    CacheControl,
    Message,
    Request,
    Text,
    Thinking,
    ToolResult,
    ToolSpec,
    ToolUse,
)
from worker.client import (
    BrokenOff,
    Client,
    Delta,
    Failure,
    ProviderError,
    ReasoningDelta,
    Response,
    TextDelta,
    ToolInputDelta,
)
from worker.items import AssistantText, Reasoning, ToolCall
from worker.model import Model
from worker.scripted import Failing, Reply, Script, ScriptedClient, call, say, think
from worker.usage import Usage

MODEL = Model(provider="scripted", id="scripted", window=10_000, max_tokens=1000)
LOOK = ToolSpec("look", "Look.", Raw(b'{"type":"object"}'))
ASKED = Request(
    model="scripted",
    max_tokens=1000,
    system=(Text("Be brief."),),
    messages=(Message("user", (Text("go"),)),),
    tools=(LOOK,),
)


def unheard(delta: Delta) -> None:
    pass


async def ask(client: Client, request: Request) -> Response:
    return await client.ask(request, unheard)


async def test_an_answer_carries_ids_usage_and_items() -> None:
    async with ScriptedClient(Script([say("Hello.")]), MODEL) as client:
        response = await ask(client, ASKED)

    assert response == Response(
        message_id=response.message_id,
        model="scripted",
        items=(AssistantText("Hello.", response.message_id),),
        stop_reason="end_turn",
        usage=Usage(input=25, output=2),
        context_tokens=27,
    )
    assert response.message_id.startswith("msg_")


async def test_deltas_add_up_to_the_answer() -> None:
    words = "A sentence that is longer than one delta, and then some more of it."
    arguments = '{"path": "a path that is longer than one delta"}'
    reply = think(words, call(("a", "look", arguments), text=words))
    told: list[Delta] = []
    async with ScriptedClient(Script([reply]), MODEL) as client:
        response = await client.ask(ASKED, told.append)

    reasoning = [d.text for d in told if isinstance(d, ReasoningDelta)]
    said = [d.text for d in told if isinstance(d, TextDelta)]
    called = [d.json for d in told if isinstance(d, ToolInputDelta)]
    assert min(len(reasoning), len(said), len(called)) > 1
    assert "".join(reasoning) == words
    assert "".join(said) == words
    assert "".join(called) == arguments
    assert [type(i) for i in response.items] == [Reasoning, AssistantText, ToolCall]


async def test_an_answer_can_be_cancelled_half_way_and_tells_what_is_billed() -> None:
    told: list[Delta] = []
    with trio.CancelScope() as scope:

        def cancel_after_two(delta: Delta) -> None:
            told.append(delta)
            if len(told) == 2:
                scope.cancel()

        async with ScriptedClient(Script([say("word " * 100)]), MODEL) as client:
            await client.ask(ASKED, cancel_after_two)

    assert scope.cancelled_caught
    assert [type(delta) for delta in told] == [TextDelta, TextDelta, BrokenOff]
    assert told[-1] == BrokenOff(Usage(input=25, output=1))


async def test_a_reply_s_own_usage_is_taken() -> None:
    reply = Reply((AssistantText("x", ""),), usage=Usage(input=5000, output=7))
    async with ScriptedClient(Script([reply]), MODEL) as client:
        response = await ask(client, ASKED)

    assert response.usage == Usage(input=5000, output=7)
    assert response.context_tokens == 5007


async def test_the_cache_is_read_from_the_second_request_on() -> None:
    page = Text("x" * 8000, CacheControl())
    request = replace(ASKED, messages=(Message("user", (page,)),))
    client = ScriptedClient(Script([]), MODEL)

    async with client:
        first = await ask(client, request)
    async with client:
        second = await ask(client, request)

    assert first.usage == Usage(cache_write=2024, output=6)
    assert second.usage == Usage(cache_read=2024, output=6)


async def test_counting_agrees_with_usage() -> None:
    async with ScriptedClient(Script([]), MODEL) as client:
        counted = await client.count_tokens(ASKED)
        response = await ask(client, ASKED)

    assert response.usage is not None
    assert counted == response.usage.prompt


async def refused(request: Request) -> Failure:
    async with ScriptedClient(Script([]), MODEL) as client:
        with pytest.raises(ProviderError) as raised:
            await ask(client, request)
        return raised.value.failure


async def test_a_wrong_request_is_invalid_here_too() -> None:
    used = Message("assistant", (ToolUse("a", "look", Raw(b"{}")),))

    failure = await refused(replace(ASKED, messages=(*ASKED.messages, used)))

    assert failure == Failure(
        kind="invalid",
        message="400 invalid_request_error: messages.1: `tool_use` ids were found "
        "without `tool_result` blocks immediately after: a. Each `tool_use` block must "
        "have a corresponding `tool_result` block in the next message.",
        status=400,
        should_retry=False,
    )


async def test_a_prompt_beyond_the_window_overflows() -> None:
    long = Message("user", (Text("x" * 40_000),))

    failure = await refused(replace(ASKED, messages=(long,)))

    assert failure == Failure(
        kind="overflow",
        message="400 invalid_request_error: prompt is too long: 10024 tokens > 10000 "
        "maximum",
        status=400,
        prompt_tokens=10_024,
        window_tokens=10_000,
        should_retry=False,
    )


async def test_an_answer_beyond_the_window_is_too_large() -> None:
    long = Message("user", (Text("x" * 38_000),))

    failure = await refused(replace(ASKED, messages=(long,)))

    assert (failure.kind, failure.prompt_tokens) == ("output_too_large", 9524)


async def test_another_model_is_not_found() -> None:
    failure = await refused(replace(ASKED, model="scripted-2"))

    assert (failure.kind, failure.status) == ("not_found", 404)


async def test_a_lone_surrogate_is_invalid() -> None:
    torn = Message("user", (Text("\ud800"),))

    failure = await refused(replace(ASKED, messages=(torn,)))

    assert failure.kind == "invalid"


async def test_a_wrong_prompt_is_not_counted() -> None:
    async with ScriptedClient(Script([]), MODEL) as client:
        with pytest.raises(ProviderError):
            await client.count_tokens(replace(ASKED, messages=()))


async def test_a_played_failure_comes_as_it_is() -> None:
    failure = Failure("overloaded", "Overloaded", status=529)
    policy = Failing(Script([say("x")]), {1: failure})
    async with ScriptedClient(policy, MODEL) as client:
        with pytest.raises(ProviderError) as raised:
            await ask(client, ASKED)
        response = await ask(client, ASKED)

    assert raised.value.failure == failure
    assert response.stop_reason == "end_turn"


async def test_reasoning_is_taken_back_by_another_process_s_client() -> None:
    policy = Script([think("hm", call(("a", "look", "{}"))), say("Done.")])
    async with ScriptedClient(policy, MODEL) as client:
        first = await ask(client, ASKED)
    reasoning = first.items[0]
    assert isinstance(reasoning, Reasoning)
    thought = Thinking(reasoning.text, reasoning.signature)
    said = Message("assistant", (thought, ToolUse("a", "look", Raw(b"{}"))))
    seen = Message("user", (ToolResult("a", (Text("seen"),)),))
    later = replace(ASKED, messages=(*ASKED.messages, said, seen))

    async with ScriptedClient(policy, MODEL) as another:
        second = await ask(another, later)

    assert second.items == (AssistantText("Done.", second.message_id),)
