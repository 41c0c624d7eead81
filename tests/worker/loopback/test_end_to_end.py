"""The real client against the server, beside the client without a network.

One policy behind both: what comes out must be the same.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio
from msgspec import Raw
from msgspec.structs import replace

from worker import api
from worker.anthropic_client import AnthropicClient, ModelLimits
from worker.client import (
    BrokenOff,
    Client,
    Delta,
    Failure,
    FailureKind,
    ProviderError,
    ReasoningDelta,
    Response,
    TextDelta,
    ToolInputDelta,
)
from worker.items import AssistantText, FromModel, Reasoning, ToolCall
from worker.loopback.faults import (
    BAD_UTF8,
    EMPTY,
    GARBAGE,
    HTML_INSTEAD,
    JSON_INSTEAD,
    After,
    Cut,
    Drop,
    ErrorEvent,
    Fault,
    Faults,
    Hang,
    Redirect,
    Slow,
    Status,
    Truncate,
    overflow,
    overloaded,
    rate_limit,
)
from worker.loopback.rules import Served
from worker.loopback.server import Server, serve
from worker.model import Model
from worker.policy import Failing, Policy, Script, call, say, think
from worker.scripted import ScriptedClient

ID = "claude-loopback"
MODEL = Model(
    provider="scripted",
    id=ID,
    window=20_000,
    max_tokens=4000,
    system_messages=True,
)
SERVED = Served(ID, window=20_000, max_output=4000)
HELLO = Script([], then=say("Hello there."))
LOOK = api.ToolSpec("look", "Look.", Raw(b'{"type":"object"}'))
REQUEST = api.Request(
    model=ID,
    max_tokens=2000,
    system=(api.Text("Be brief."),),
    messages=(api.Message("user", (api.Text("go"),)),),
    tools=(LOOK,),
)


@asynccontextmanager
async def over_http(
    policy: Policy, faults: Faults | None = None, *, idle: float = 5.0
) -> AsyncIterator[tuple[Server, AnthropicClient]]:
    async with serve(policy, models=(SERVED,), faults=faults or Faults()) as server:
        async with AnthropicClient(
            api_key="loopback", base_url=server.base_url, idle_timeout=idle
        ) as client:
            yield server, client


@asynccontextmanager
async def by_http(policy: Policy) -> AsyncIterator[Client]:
    async with over_http(policy) as (_, client):
        yield client


@asynccontextmanager
async def by_script(policy: Policy) -> AsyncIterator[Client]:
    async with ScriptedClient(policy, MODEL) as client:
        yield client


def unheard(delta: Delta) -> None:
    pass


async def ask(client: Client, request: api.Request = REQUEST) -> Response:
    return await client.ask(request, unheard)


def bare(item: FromModel) -> FromModel:
    """An item without the id of its response, which each server makes up."""
    return replace(item, response="")


def block_of(item: FromModel) -> api.Block:
    match item:
        case AssistantText():
            return api.Text(item.text)
        case Reasoning(redacted=""):
            return api.Thinking(item.text, item.signature)
        case Reasoning():
            return api.RedactedThinking(item.redacted)
        case ToolCall():
            return api.ToolUse(item.call_id, item.name, Raw(item.arguments.encode()))
        case _:
            raise AssertionError(item)


def answered(request: api.Request, response: Response) -> api.Request:
    """The request behind *response*, each of its calls answered."""
    said = api.Message("assistant", tuple(block_of(item) for item in response.items))
    results = tuple(
        api.ToolResult(item.call_id, (api.Text("seen " * 400),))
        for item in response.items
        if isinstance(item, ToolCall)
    )
    last = replace(results[-1], cache_control=api.CacheControl())
    told = api.Message("user", (*results[:-1], last))
    return replace(request, messages=(*request.messages, said, told))


LOOP = (
    think("Look at both.", call(("a", "look", '{"at":"x"}'), ("b", "look", "{}"))),
    call(("c", "look", '{"deep": [1, {"er": "ö"}]}'), text="Once more."),
    say("All seen."),
)


async def run_loop(client: Client) -> list[Response]:
    responses: list[Response] = []
    request = replace(REQUEST, thinking=1024)
    while not responses or responses[-1].stop_reason == "tool_use":
        if responses:
            request = answered(request, responses[-1])
        responses.append(await ask(client, request))
    return responses


async def test_a_tool_loop_is_the_same_over_http_and_without() -> None:
    async with by_http(Script(LOOP)) as client:
        http = await run_loop(client)
    async with by_script(Script(LOOP)) as client:
        scripted = await run_loop(client)

    def seen(responses: list[Response]) -> list[tuple[object, ...]]:
        return [
            (tuple(map(bare, r.items)), r.stop_reason, r.usage, r.context_tokens)
            for r in responses
        ]

    assert seen(http) == seen(scripted)
    assert [len(r.items) for r in http] == [3, 2, 1]
    assert [bool(r.usage and r.usage.cache_read) for r in http] == [False, False, True]


@pytest.mark.parametrize("client_of", [by_http, by_script])
async def test_what_is_heard_is_what_is_said(
    client_of: Callable[[Policy], AbstractAsyncContextManager[Client]],
) -> None:
    told: list[Delta] = []
    async with client_of(Script(LOOP)) as client:
        await client.ask(replace(REQUEST, thinking=1024), told.append)

    assert "".join(d.text for d in told if isinstance(d, ReasoningDelta)) == (
        "Look at both."
    )
    assert "".join(
        d.json for d in told if isinstance(d, ToolInputDelta) and d.call_id == "a"
    ) == ('{"at":"x"}')


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (replace(REQUEST, model="claude-none"), "not_found"),
        (replace(REQUEST, messages=()), "invalid"),
        (replace(REQUEST, max_tokens=4001), "output_too_large"),
        (
            replace(
                REQUEST, messages=(api.Message("user", (api.Text("x" * 80_000),)),)
            ),
            "overflow",
        ),
        (
            replace(
                REQUEST, messages=(api.Message("user", (api.Text("x" * 76_000),)),)
            ),
            "output_too_large",
        ),
    ],
)
async def test_a_refusal_is_the_same_over_http_and_without(
    request_: api.Request, kind: FailureKind
) -> None:
    failures: list[Failure] = []
    for client_of in (by_http, by_script):
        async with client_of(HELLO) as client:
            with pytest.raises(ProviderError) as raised:
                await ask(client, request_)
            failures.append(raised.value.failure)

    http, scripted = failures
    assert http.request_id is not None
    assert http.message.removesuffix(f" (request id {http.request_id})") == (
        scripted.message
    )
    assert replace(http, request_id=None, message=scripted.message) == scripted
    assert scripted.kind == kind


async def test_tokens_are_counted_the_same_over_http_and_without() -> None:
    counts: list[int] = []
    for client_of in (by_http, by_script):
        async with client_of(HELLO) as client:
            counts.append(await client.count_tokens(REQUEST))

    assert counts[0] == counts[1] > 0


async def test_the_models_api_tells_the_window() -> None:
    async with over_http(HELLO) as (_, client):
        assert await client.fetch_model(ID) == ModelLimits(20_000, 4000)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Status(400), "invalid"),
        (Status(401), "auth"),
        (Status(402), "billing"),
        (Status(403), "auth"),
        (Status(404), "not_found"),
        (Status(413), "payload_too_large"),
        (rate_limit(seconds=3), "rate_limit"),
        (overloaded(), "overloaded"),
        (Status(500), "server"),
        (Status(503), "server"),
        (overflow(), "overflow"),
        (ErrorEvent(), "overloaded"),
        (ErrorEvent(error="api_error", message="Internal server error"), "server"),
        (Truncate(), "truncated"),
        (Truncate(After(size=300)), "truncated"),
        (Cut(), "connection"),
        (Cut(reset=True), "connection"),
        (Drop(), "connection"),
        (Drop(reset=True), "connection"),
        (EMPTY, "not_a_stream"),
        (JSON_INSTEAD, "not_a_stream"),
        (HTML_INSTEAD, "not_a_stream"),
        (GARBAGE, "garbled"),
        (BAD_UTF8, "garbled"),
    ],
)
async def test_each_fault_is_the_failure_it_plays(
    fault: Fault, kind: FailureKind
) -> None:
    async with over_http(HELLO, Faults(at={1: fault})) as (_, client):
        with pytest.raises(ProviderError) as raised:
            await ask(client)
        after = await ask(client)

    assert raised.value.failure.kind == kind
    assert after.stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (rate_limit(seconds=3), 3),
        (rate_limit(seconds=0.5), 0.5),
        (rate_limit(milliseconds=20), 0.02),
        (rate_limit(), None),
    ],
)
async def test_a_rate_limit_s_wait_arrives(fault: Fault, seconds: float | None) -> None:
    async with over_http(HELLO, Faults(at={1: fault})) as (_, client):
        with pytest.raises(ProviderError) as raised:
            await ask(client)

    assert raised.value.failure.retry_after == seconds


@pytest.mark.parametrize("fault", [Hang(), Hang(after=None)])
async def test_silence_is_a_timeout(fault: Fault) -> None:
    async with over_http(HELLO, Faults(at={1: fault}), idle=0.1) as (_, client):
        with pytest.raises(ProviderError) as raised:
            await ask(client)

    assert raised.value.failure.kind == "timeout"


async def test_a_redirect_is_not_followed() -> None:
    faults = Faults(at={1: Redirect("http://127.0.0.1:1/v1/messages")})
    async with over_http(HELLO, faults) as (server, client):
        with pytest.raises(ProviderError) as raised:
            await ask(client)

    assert raised.value.failure.status == 307
    assert len(server.requests) == 1


async def test_a_slow_answer_can_be_cancelled_half_way_and_tells_what_is_billed() -> (
    None
):
    policy = Script([say("word " * 100)])
    told: list[Delta] = []
    async with over_http(policy, Faults(at={1: Slow(0.001)})) as (_, client):
        with trio.CancelScope() as scope:

            def cancel_after_two(delta: Delta) -> None:
                told.append(delta)
                if len(told) == 2:
                    scope.cancel()

            await client.ask(REQUEST, cancel_after_two)
        after = await ask(client)

    assert scope.cancelled_caught
    *texts, last = told
    assert all(isinstance(delta, TextDelta) for delta in texts)
    assert isinstance(last, BrokenOff)
    assert last.usage.prompt > 0
    assert last.request_id is not None
    assert after.stop_reason == "end_turn"


# Every kind a policy may raise; "timeout" is above, it takes its time.
KINDS: tuple[FailureKind, ...] = (
    "invalid",
    "auth",
    "billing",
    "not_found",
    "overflow",
    "output_too_large",
    "payload_too_large",
    "rate_limit",
    "overloaded",
    "server",
    "connection",
    "truncated",
    "garbled",
    "not_a_stream",
)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_policy_s_failure_arrives_as_its_kind(kind: FailureKind) -> None:
    policy = Failing(HELLO, {1: Failure(kind, "played")})
    async with over_http(policy) as (_, client):
        with pytest.raises(ProviderError) as raised:
            await ask(client)

    assert raised.value.failure.kind == kind
