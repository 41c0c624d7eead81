"""The real client against the loopback server: the same words on both sides."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import get_args

import msgspec
import pytest

from tests.worker.answers import REQUEST
from worker.anthropic_client import AnthropicClient, ModelLimits
from worker.api import Message, Text
from worker.client import Delta, Failure, FailureKind, ProviderError
from worker.items import AssistantText
from worker.loopback.faults import NONE, Faults, fault_of
from worker.loopback.rules import Served
from worker.loopback.server import serve
from worker.policy import Script, say

HELLO = Script([], then=say("Hello there."))
KINDS: tuple[FailureKind, ...] = get_args(FailureKind)


def ignore(delta: Delta) -> None:
    pass


@asynccontextmanager
async def opened(
    faults: Faults = NONE, *, key: str = "loopback", window: int = 200_000
) -> AsyncIterator[AnthropicClient]:
    models = [Served("claude-x", window=window, max_output=8_000)]
    async with (
        serve(HELLO, models=models, faults=faults) as server,
        AnthropicClient(
            api_key=key, base_url=server.base_url, idle_timeout=0.3
        ) as client,
    ):
        yield client


def said(kind: FailureKind) -> str:
    if kind == "output_too_large":
        return "max_tokens: 9000 > 8000, which is the maximum for claude-x"
    return "It went wrong."


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_failure_is_taken_for_itself_and_then_over(
    kind: FailureKind,
) -> None:
    faults = Faults({1: fault_of(Failure(kind, said(kind), retry_after=7))})

    async with opened(faults) as client:
        with pytest.raises(ProviderError) as caught:
            await client.ask(REQUEST, ignore)
        response = await client.ask(REQUEST, ignore)

    assert caught.value.failure.kind == kind
    assert [
        item.text for item in response.items if isinstance(item, AssistantText)
    ] == ["Hello there."]


async def test_a_prompt_that_does_not_fit_comes_with_its_figures() -> None:
    long = msgspec.structs.replace(
        REQUEST, messages=(Message("user", (Text("word " * 5_000),)),)
    )

    async with opened(window=2_000) as client:
        with pytest.raises(ProviderError) as caught:
            await client.ask(long, ignore)

    failure = caught.value.failure
    assert (failure.kind, failure.window_tokens) == ("overflow", 2_000)
    assert failure.prompt_tokens is not None
    assert failure.prompt_tokens > 2_000


async def test_what_is_counted_is_what_is_billed() -> None:
    async with opened() as client:
        counted = await client.count_tokens(REQUEST)
        response = await client.ask(REQUEST, ignore)

    assert response.usage is not None
    assert counted == response.usage.prompt


async def test_a_wrong_key_is_a_failure_of_auth() -> None:
    async with opened(key="another") as client:
        with pytest.raises(ProviderError) as caught:
            await client.count_tokens(REQUEST)

    assert caught.value.failure.kind == "auth"


async def test_the_models_api_tells_the_limits() -> None:
    async with opened(window=50_000) as client:
        limits = await client.fetch_model("claude-x")
        with pytest.raises(ProviderError) as caught:
            await client.fetch_model("claude-y")

    assert limits == ModelLimits(50_000, 8_000)
    assert caught.value.failure.kind == "not_found"
