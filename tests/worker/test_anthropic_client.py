"""The real SDK client, over a transport that is played."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import msgspec
import pytest
import trio
import trio.testing
from msgspec import Raw

from tests.worker.answers import (
    ANSWER,
    HELLO,
    REQUEST,
    START,
    event,
    text_delta,
)
from worker.anthropic_client import LARGEST_ERROR, AnthropicClient, ModelLimits
from worker.api import Message, Request, Text, ToolSpec
from worker.client import Delta, Failure, ProviderError, Response, TextDelta
from worker.items import AssistantText
from worker.keys import NO_KEY
from worker.usage import Usage


def ignore(delta: Delta) -> None:
    pass


def answer(body: bytes, status: int = 200, **headers: str) -> httpx2.MockTransport:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.MockTransport(
        lambda _: httpx2.Response(
            status,
            headers={"request-id": "req_1", **named},
            stream=httpx2.ByteStream(body),
        )
    )


async def ask(transport: httpx2.AsyncBaseTransport, api_key: str = "k") -> Response:
    async with AnthropicClient(api_key=api_key, transport=transport) as client:
        return await client.ask(REQUEST, ignore)


async def failure(transport: httpx2.AsyncBaseTransport, api_key: str = "k") -> Failure:
    with pytest.raises(ProviderError) as caught:
        await ask(transport, api_key)
    return caught.value.failure


async def test_an_answer_is_folded_and_its_deltas_are_told() -> None:
    told: list[Delta] = []

    async with AnthropicClient(api_key="k", transport=answer(ANSWER)) as client:
        response = await client.ask(REQUEST, told.append)

    assert response == HELLO
    assert told == [TextDelta("Hel"), TextDelta("lo")]


async def test_the_body_is_ours_and_the_headers_are_the_sdks() -> None:
    seen: list[httpx2.Request] = []

    def keep(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, stream=httpx2.ByteStream(ANSWER))

    transport = httpx2.MockTransport(keep)
    async with AnthropicClient(
        api_key="k", base_url="http://gateway/llm", transport=transport
    ) as client:
        await client.ask(REQUEST, ignore)

    (request,) = seen
    assert str(request.url) == "http://gateway/llm/v1/messages"
    assert request.headers["anthropic-beta"] == "one-beta,another-beta"
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["content-type"] == "application/json"
    assert "anthropic-version" in request.headers
    assert msgspec.json.decode(request.content) == {
        "model": "claude-x",
        "max_tokens": 100,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid"),
        (401, "auth"),
        (402, "billing"),
        (403, "auth"),
        (404, "not_found"),
        (408, "server"),
        (409, "server"),
        (413, "payload_too_large"),
        (429, "rate_limit"),
        (500, "server"),
        (502, "server"),
        (529, "overloaded"),
    ],
)
async def test_an_error_status_says_what_is_wrong(status: int, kind: str) -> None:
    body = b'{"type":"error","error":{"type":"some_error","message":"It is so."}}'

    found = await failure(answer(body, status, retry_after="3"))

    assert found == Failure(
        kind=found.kind,
        message=f"{status} some_error: It is so. (request id req_1)",
        status=status,
        retry_after=3.0,
        request_id="req_1",
    )
    assert found.kind == kind


async def test_a_server_that_wants_a_key_where_none_is_set_is_told_apart() -> None:
    body = b'{"type":"error","error":{"type":"some_error","message":"It is so."}}'

    found = await failure(answer(body, 401), api_key=NO_KEY)

    assert found.message == (
        "401 some_error: It is so. (request id req_1); no key is set: [model]"
        " api_key_env names its variable"
    )


async def test_a_prompt_that_is_too_long_comes_with_its_figures() -> None:
    body = (
        b'{"type":"error","error":{"type":"invalid_request_error",'
        b'"message":"prompt is too long: 210000 tokens > 200000 maximum"}}'
    )

    found = await failure(answer(body, 400, x_should_retry="false"))

    assert (found.kind, found.prompt_tokens, found.window_tokens) == (
        "overflow",
        210_000,
        200_000,
    )


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_an_error_that_says_so(status: int) -> None:
    found = await failure(answer(b"", status, location="https://elsewhere/"))

    assert (found.kind, found.status) == ("invalid", status)
    assert "redirected to https://elsewhere/: set [model] base_url" in found.message


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b"", "not_a_stream", "no event"),
        (b"<html><h1>Welcome to nginx</h1></html>", "not_a_stream", "nginx"),
        (b'{"ok":true}', "not_a_stream", "ok"),
        (b"{'base_resp': {'status_msg': 'token limit'}}", "overflow", "token limit"),
        (b'{"error":{"message":"rate limit reached"}}', "rate_limit", "rate limit"),
        (START + text_delta("Hel"), "truncated", "message_stop"),
        (START + b"event: content_block_delta\ndata: {nope\n\n", "garbled", "nope"),
        (START + b"event: content_block_delta\ndata: \xff\xfe\n\n", "garbled", ""),
        (
            START
            + event("error", {"type": "error", "error": {"type": "overloaded_error"}}),
            "overloaded",
            "overloaded_error",
        ),
        (
            event(
                "error",
                {
                    "type": "error",
                    "error": {
                        "type": "invalid_request_error",
                        "message": "Prompt is too long",
                    },
                },
            ),
            "overflow",
            "Prompt is too long",
        ),
    ],
)
async def test_a_200_may_be_no_answer(body: bytes, kind: str, says: str) -> None:
    found = await failure(answer(body))

    assert found.kind == kind
    assert says in found.message


async def test_what_had_come_before_the_break_is_kept() -> None:
    closed = event("content_block_stop", {"type": "content_block_stop", "index": 0})

    found = await failure(answer(START + text_delta("Hello") + closed))

    assert found.partial == (AssistantText("Hello", response="msg_1"),)
    assert found.usage == Usage(input=7, output=1)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx2.ConnectError("no route to host"), "connection"),
        (httpx2.ConnectTimeout(""), "connection"),
        (httpx2.ReadTimeout(""), "timeout"),
        (httpx2.WriteTimeout(""), "timeout"),
        (httpx2.RemoteProtocolError("Server disconnected"), "connection"),
        (httpx2.ReadError(""), "connection"),
        (httpx2.UnsupportedProtocol("no scheme"), "invalid"),
        (httpx2.LocalProtocolError("Illegal header value"), "invalid"),
    ],
)
@pytest.mark.parametrize("midway", [False, True])
async def test_every_fault_of_the_transport_has_its_kind(
    error: httpx2.TransportError, kind: str, midway: bool
) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield START
        raise error

    def handle(request: httpx2.Request) -> httpx2.Response:
        if not midway:
            raise error
        return httpx2.Response(200, content=body())

    assert (await failure(httpx2.MockTransport(handle))).kind == kind


async def test_a_bug_is_not_dressed_up_as_a_failure_of_the_provider() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        await ask(httpx2.MockTransport(handle))


async def test_an_error_of_any_length_is_read_in_bounds() -> None:
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1024
            await trio.lowlevel.checkpoint()
            yield b"x" * 1024

    transport = httpx2.MockTransport(lambda _: httpx2.Response(500, content=body()))
    found = await failure(transport)

    assert found.kind == "server"
    assert len(found.message) < 1_000
    assert read <= LARGEST_ERROR + 2 * 1024


async def test_silence_ends_the_waiting_whatever_the_transport(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield START
        await trio.sleep(119)
        yield text_delta("Hel")
        await trio.sleep_forever()

    async def whole() -> AsyncIterator[bytes]:
        yield ANSWER

    bodies = [body(), whole()]
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(200, content=bodies.pop())
    )
    async with AnthropicClient(api_key="k", transport=transport) as client:
        # The SDK's first request looks at the platform in a thread, during
        # which this clock would jump.
        await client.ask(REQUEST, ignore)
        started = trio.current_time()
        with pytest.raises(ProviderError) as caught:
            await client.ask(REQUEST, ignore)
        waited = trio.current_time() - started

    assert (caught.value.failure.kind, caught.value.failure.message) == (
        "timeout",
        "the provider has been silent for 120 s",
    )
    assert waited == pytest.approx(239, abs=0.1)


async def test_silence_before_the_headers_ends_the_waiting_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def handle(request: httpx2.Request) -> httpx2.Response:
        await trio.sleep_forever()
        raise AssertionError

    found = await failure(httpx2.MockTransport(handle))

    assert found.kind == "timeout"


async def test_lone_surrogates_are_refused_before_anything_is_sent() -> None:
    bad = Request("m", 1, (), (Message("user", (Text("\ud800"),)),))

    async with AnthropicClient(api_key="k", transport=answer(ANSWER)) as client:
        with pytest.raises(ProviderError) as caught:
            await client.ask(bad, ignore)

    assert caught.value.failure.kind == "invalid"


@pytest.mark.parametrize(
    ("name", "value"),
    [("ALL_PROXY", "gopher://x"), ("SSL_CERT_FILE", "/nonexistent")],
)
async def test_a_connection_that_cannot_be_set_up_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(ProviderError) as caught:
        async with AnthropicClient(api_key="k", base_url="https://gateway"):
            pass

    assert caught.value.failure.kind == "invalid"


def test_importing_the_client_does_not_import_the_sdk() -> None:
    code = (
        "import sys, worker.anthropic_client, worker.keys, worker.prices;"
        "print({'anthropic', 'httpx2', 'pydantic', 'genai_prices'} & set(sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )

    assert done.stdout == "set()\n"


async def test_without_credentials_the_failure_is_one_of_auth(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))

    with pytest.raises(ProviderError) as caught:
        async with AnthropicClient(transport=answer(ANSWER)) as client:
            await client.ask(REQUEST, ignore)

    assert caught.value.failure.kind == "auth"


async def test_tokens_are_counted_by_the_provider() -> None:
    seen: list[bytes] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.raw_path + b" " + request.content)
        return httpx2.Response(200, stream=httpx2.ByteStream(b'{"input_tokens":2095}'))

    tool = ToolSpec("t", "d", Raw(b'{"type":"object"}'))
    request = msgspec.structs.replace(REQUEST, tools=(tool,))
    transport = httpx2.MockTransport(handle)
    async with AnthropicClient(api_key="k", transport=transport) as client:
        tokens = await client.count_tokens(request)

    assert tokens == 2095
    assert seen[0].startswith(b"/v1/messages/count_tokens {")
    assert b"max_tokens" not in seen[0]


async def test_the_limits_of_a_model_are_fetched() -> None:
    body = b'{"id":"a/b","max_input_tokens":200000,"max_tokens":64000,"new":1}'

    def handle(request: httpx2.Request) -> httpx2.Response:
        assert request.url.raw_path == b"/v1/models/a%2Fb"
        return httpx2.Response(200, stream=httpx2.ByteStream(body))

    transport = httpx2.MockTransport(handle)
    async with AnthropicClient(api_key="k", transport=transport) as client:
        assert await client.fetch_model("a/b") == ModelLimits(200_000, 64_000)


@pytest.mark.parametrize(
    ("body", "kind"), [(b"<html>", "garbled"), (b'{"input_tokens":"x"}', "garbled")]
)
async def test_an_answer_of_another_shape_is_a_failure(body: bytes, kind: str) -> None:
    async with AnthropicClient(api_key="k", transport=answer(body)) as client:
        with pytest.raises(ProviderError) as caught:
            await client.count_tokens(REQUEST)

    assert caught.value.failure.kind == kind
