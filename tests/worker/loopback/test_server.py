"""The server over real sockets, asked by a real client and by hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import msgspec
import pytest
import trio
from msgspec import Raw, Struct

from tests.worker.loopback.requests import (
    LOOP,
    MODEL,
    Json,
    message,
    request,
    text,
    tool_result,
)
from worker import api
from worker.client import Failure, ProviderError, Response
from worker.items import AssistantText, Reasoning, ToolCall
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
    overloaded,
    rate_limit,
)
from worker.loopback.rules import MAX_BODY_BYTES, Served
from worker.loopback.server import Server, serve
from worker.policy import Decide, Failing, Policy, Script, call, say, think
from worker.stream import Fold
from worker.usage import Usage

HEADERS = {"x-api-key": "loopback", "anthropic-version": "2023-06-01"}
HELLO = Script([], then=say("Hello there."))


class _Detail(Struct):
    type: str
    message: str


class _Error(Struct):
    type: str
    error: _Detail
    request_id: str | None = None


def error_of(answer: httpx2.Response) -> tuple[int, str, str]:
    told = msgspec.json.decode(answer.content, type=_Error)
    assert told.request_id == answer.headers["request-id"]
    return answer.status_code, told.error.type, told.error.message


@asynccontextmanager
async def asked(
    policy: Policy, faults: Faults | None = None, *, interleave: bool = False
) -> AsyncIterator[tuple[Server, httpx2.AsyncClient]]:
    chosen = faults or Faults()
    async with serve(policy, faults=chosen, interleave=interleave) as server:
        async with httpx2.AsyncClient(
            base_url=server.base_url, headers=HEADERS, trust_env=False
        ) as client:
            yield server, client


async def stream(client: httpx2.AsyncClient, *messages: Json) -> Response:
    data = request(*messages, stream=True)
    answer = await client.post("/v1/messages", content=data)
    assert answer.status_code == 200
    fold = Fold(request_id=answer.headers["request-id"])
    fold.feed(answer.content)
    return fold.end()


async def test_a_streamed_answer_is_the_policy_s_reply() -> None:
    async with asked(HELLO) as (server, client):
        response = await stream(client)

    (received,) = server.requests
    assert response == Response(
        message_id=response.message_id,
        model=MODEL,
        items=(AssistantText("Hello there.", response.message_id),),
        stop_reason="end_turn",
        usage=Usage(input=23, output=3),
        context_tokens=26,
        request_id="req_000001",
    )
    assert received.headers["x-api-key"] == "loopback"
    assert received.body == request(stream=True)
    assert received.request is not None
    assert received.request.messages == (api.Message("user", (api.Text("hello"),)),)


async def test_an_answer_in_one_piece_says_the_same() -> None:
    async with asked(Script([call(("a", "look", '{"x": 1}'))])) as (_, client):
        answer = await client.post("/v1/messages", content=request())

    told = msgspec.json.decode(answer.content, type=dict[str, Raw])
    assert answer.headers["content-type"] == "application/json"
    assert msgspec.json.decode(told["content"]) == [
        {"type": "tool_use", "id": "a", "name": "look", "input": {"x": 1}}
    ]
    assert msgspec.json.decode(told["stop_reason"]) == "tool_use"


async def test_a_tool_loop_runs_through_signed_thinking() -> None:
    policy = Script([think("Look first.", call(("a", "look", "{}"))), say("Seen.")])
    async with asked(policy) as (server, client):
        first = await stream(client, message("user", text("go")))
        (reasoning, _) = first.items
        assert isinstance(reasoning, Reasoning)
        thought: Json = {
            "type": "thinking",
            "thinking": reasoning.text,
            "signature": reasoning.signature,
        }
        used: Json = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
        second = await stream(
            client,
            message("user", text("go")),
            message("assistant", thought, used),
            message("user", tool_result("a")),
        )

    assert reasoning.text == "Look first."
    assert [i.text for i in second.items if isinstance(i, AssistantText)] == ["Seen."]
    assert len(server.requests) == 2


async def test_with_a_budget_a_loop_opens_with_thinking_of_the_server_s() -> None:
    budget: Json = {"type": "enabled", "budget_tokens": 1024}
    data = request(stream=True, max_tokens=2000, thinking=budget)
    async with asked(Script([call(("a", "look", "{}"))])) as (_, client):
        answer = await client.post("/v1/messages", content=data)

    fold = Fold()
    fold.feed(answer.content)
    kinds = [type(item) for item in fold.end().items]
    assert kinds == [Reasoning, ToolCall]


async def test_parallel_calls_may_come_interleaved() -> None:
    arguments = '{"path": "a rather long path, so that it takes several deltas"}'
    policy = Script([call(("a", "look", arguments), ("b", "look", arguments))])

    async with asked(policy, interleave=True) as (_, client):
        answer = await client.post("/v1/messages", content=request(stream=True))

    class Event(Struct):
        type: str
        index: int | None = None

    events = [
        msgspec.json.decode(line.removeprefix("data: "), type=Event)
        for line in answer.text.splitlines()
        if line.startswith("data: ")
    ]
    indexes = [e.index for e in events if e.type == "content_block_delta"]
    fold = Fold()
    fold.feed(answer.content)
    calls = [item for item in fold.end().items if isinstance(item, ToolCall)]
    assert indexes == [0, 1] * 3
    assert [(c.call_id, c.arguments) for c in calls] == [
        ("a", arguments),
        ("b", arguments),
    ]


async def test_usage_tells_of_the_cache() -> None:
    page = text("x" * 8000, cache_control={"type": "ephemeral"})
    async with asked(HELLO) as (_, client):
        first = await stream(client, message("user", page))
        second = await stream(client, message("user", page, text("and?")))

    assert first.usage == Usage(cache_write=2021, output=3)
    assert second.usage == Usage(cache_read=2021, input=5, output=3)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            request(model="gpt-4"),
            (404, "not_found_error", "model: gpt-4"),
        ),
        (
            request(seed=1),
            (
                400,
                "invalid_request_error",
                "seed: Extra inputs are not permitted",
            ),
        ),
        (
            request(message("user", text("x" * 4 * 200_000))),
            (
                400,
                "invalid_request_error",
                "prompt is too long: 200021 tokens > 200000 maximum",
            ),
        ),
    ],
)
async def test_what_breaks_a_rule_is_refused(
    data: bytes, expected: tuple[int, str, str]
) -> None:
    async with asked(HELLO) as (server, client):
        answer = await client.post("/v1/messages", content=data)

        assert error_of(answer) == expected
        assert answer.headers["x-should-retry"] == "false"
        assert await stream(client) is not None
        assert len(server.requests) == 2


async def test_a_key_and_a_version_are_asked_for() -> None:
    async with serve(HELLO, api_key="right") as server, httpx2.AsyncClient() as client:
        url = f"{server.base_url}/v1/messages"
        wrong = await client.post(url, content=request(), headers=HEADERS)
        bare = await client.post(url, content=request(), headers={"x-api-key": "right"})

    assert error_of(wrong) == (401, "authentication_error", "invalid x-api-key")
    assert error_of(bare) == (
        400,
        "invalid_request_error",
        "anthropic-version: header is required",
    )


async def test_a_body_above_the_limit_is_too_large() -> None:
    async with asked(HELLO) as (_, client):
        answer = await client.post("/v1/messages", content=b"x" * (MAX_BODY_BYTES + 1))

        assert error_of(answer) == (
            413,
            "request_too_large",
            "Request exceeds the maximum size",
        )
        assert await stream(client) is not None


async def test_tokens_are_counted_as_usage_counts_them() -> None:
    data = request(*LOOP, max_tokens=None)
    async with asked(HELLO) as (_, client):
        counted = await client.post("/v1/messages/count_tokens", content=data)
        refused = await client.post(
            "/v1/messages/count_tokens", content=request(*LOOP[:2], max_tokens=None)
        )
        response = await stream(client, *LOOP)

    assert response.usage is not None
    assert counted.json() == {"input_tokens": response.usage.prompt}
    assert refused.status_code == 400


async def test_models_are_listed_with_their_figures() -> None:
    models = (Served("claude-a", window=1000, max_output=50), Served("claude-b"))
    async with serve(HELLO, models=models) as server, httpx2.AsyncClient() as client:
        url = f"{server.base_url}/v1/models"
        page = await client.get(url, headers=HEADERS)
        one = await client.get(f"{url}/claude-a", headers=HEADERS)
        none = await client.get(f"{url}/claude-c", headers=HEADERS)

    assert [m["id"] for m in page.json()["data"]] == ["claude-a", "claude-b"]
    assert one.json() == {
        "type": "model",
        "id": "claude-a",
        "display_name": "claude-a",
        "max_input_tokens": 1000,
        "max_tokens": 50,
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
    }
    assert error_of(none) == (404, "not_found_error", "model: claude-c")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/messages", 405),
        ("POST", "/v1/complete", 404),
        ("GET", "/", 404),
        ("GET", "/v1/models?limit=5", 200),
        ("POST", "/v1/messages?beta=true", 200),
    ],
)
async def test_other_places_are_said_to_be_none(
    method: str, path: str, status: int
) -> None:
    async with asked(HELLO) as (_, client):
        answer = await client.request(method, path, content=request())

    assert answer.status_code == status


@pytest.mark.parametrize(
    ("fault", "status", "headers"),
    [
        (rate_limit(seconds=7), 429, {"retry-after": "7"}),
        (rate_limit(milliseconds=70), 429, {"retry-after-ms": "70"}),
        (
            rate_limit(date="Fri, 31 Dec 2100 23:59:59 GMT"),
            429,
            {"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"},
        ),
        (overloaded(), 529, {"x-should-retry": "true"}),
        (Status(500), 500, {}),
        (Status(503), 503, {}),
        (Status(402), 402, {}),
        (Redirect("http://127.0.0.1:1/"), 307, {"location": "http://127.0.0.1:1/"}),
    ],
)
async def test_a_status_comes_instead_of_one_answer(
    fault: Fault, status: int, headers: dict[str, str]
) -> None:
    async with asked(HELLO, Faults(at={1: fault})) as (_, client):
        answer = await client.post("/v1/messages", content=request(stream=True))
        after = await stream(client)

    assert answer.status_code == status
    assert {name: answer.headers[name] for name in headers} == headers
    assert after.stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (ErrorEvent(), "overloaded"),
        (
            ErrorEvent(After(size=200), "api_error", "Internal server error"),
            "garbled",
        ),
        (ErrorEvent(After(events=4), "api_error", "Internal server error"), "server"),
        (Truncate(), "truncated"),
        (Truncate(After(events=2)), "truncated"),
        (GARBAGE, "garbled"),
        (BAD_UTF8, "garbled"),
        (EMPTY, "not_a_stream"),
        (JSON_INSTEAD, "not_a_stream"),
        (HTML_INSTEAD, "not_a_stream"),
    ],
)
async def test_a_spoiled_stream_is_no_answer(fault: Fault, kind: str) -> None:
    async with asked(HELLO, Faults(at={1: fault})) as (_, client):
        with pytest.raises(ProviderError) as raised:
            await stream(client)
        after = await stream(client)

    assert raised.value.failure.kind == kind
    assert after.stop_reason == "end_turn"


@pytest.mark.parametrize(
    "fault", [Drop(), Drop(reset=True), Cut(), Cut(reset=True), Cut(After(size=10))]
)
async def test_a_broken_connection_is_felt_by_the_client(fault: Fault) -> None:
    async with asked(HELLO, Faults(at={1: fault})) as (_, client):
        with pytest.raises(httpx2.TransportError):
            await stream(client)
        after = await stream(client)

    assert after.stop_reason == "end_turn"


async def test_a_silent_server_is_left_by_a_client_that_gives_up() -> None:
    faults = Faults(at={1: Hang(), 2: Hang(after=None)})
    async with asked(HELLO, faults) as (_, client):
        for _ in range(2):
            with trio.move_on_after(0.05) as scope:
                await stream(client)
            assert scope.cancelled_caught
        after = await stream(client)

    assert after.stop_reason == "end_turn"


async def test_a_slow_stream_comes_whole() -> None:
    async with asked(HELLO, Faults(at={1: Slow(0.001, first=0.002)})) as (_, client):
        response = await stream(client)

    assert response.stop_reason == "end_turn"


async def test_a_fault_may_depend_on_the_request() -> None:
    def choose(number: int, request: api.Request | None) -> Fault | None:
        words = None if request is None else request.messages[-1].content[0]
        return overloaded() if words == api.Text("crowd") else None

    async with asked(HELLO, Faults(choose=choose)) as (_, client):
        crowded = request(message("user", text("crowd")))
        first = await client.post("/v1/messages", content=crowded)
        second = await client.post("/v1/messages", content=request())

    assert (first.status_code, second.status_code) == (529, 200)


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Failure("rate_limit", "Slow down", retry_after=2), 429),
        (Failure("server", "Oh", status=503), 503),
    ],
)
async def test_a_policy_s_failure_becomes_a_status(
    failure: Failure, status: int
) -> None:
    async with asked(Failing(HELLO, {1: failure})) as (_, client):
        answer = await client.post("/v1/messages", content=request(stream=True))
        after = await stream(client)

    assert error_of(answer)[0] == status
    assert error_of(answer)[2] == failure.message
    assert after.stop_reason == "end_turn"


async def test_a_policy_s_failure_breaks_the_stream() -> None:
    policy = Failing(HELLO, {1: Failure("truncated", "cut short")})
    async with asked(policy) as (_, client):
        with pytest.raises(ProviderError) as raised:
            await stream(client)

    assert raised.value.failure.kind == "truncated"


async def open_by_hand(server: Server) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", int(server.base_url[17:]))


def by_hand(data: bytes) -> bytes:
    lines = [
        "POST /v1/messages HTTP/1.1",
        "host: loopback",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
        f"content-length: {len(data)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


async def test_one_connection_serves_a_hundred_requests() -> None:
    async with asked(HELLO) as (server, _), await open_by_hand(server) as socket:
        data = by_hand(request())
        seen = b""
        for number in range(1, 101):
            await socket.send_all(data)
            while seen.count(b'"type":"message"') < number:
                seen += await socket.receive_some()

    assert seen.count(b"HTTP/1.1 200") == 100
    assert len(server.requests) == 100


async def test_twenty_clients_are_served_at_once() -> None:
    asked_at_once = 0
    all_there = trio.Event()

    async def one(client: httpx2.AsyncClient) -> None:
        nonlocal asked_at_once
        async with client.stream(
            "POST", "/v1/messages", content=request(stream=True)
        ) as answer:
            asked_at_once += 1
            if asked_at_once == 20:
                all_there.set()
            await all_there.wait()
            fold = Fold()
            fold.feed(b"".join([part async for part in answer.aiter_bytes()]))
            assert fold.end().stop_reason == "end_turn"

    slow = Faults(choose=lambda number, request: Slow(0.001))
    with trio.fail_after(10):
        async with asked(HELLO, slow) as (server, client):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(one, client)

    assert len(server.requests) == 20


async def test_a_client_that_goes_mid_stream_ends_only_its_own() -> None:
    hang = Faults(at={1: Hang(After(events=3)), 2: Slow(0.001)})
    async with asked(HELLO, hang) as (server, client):
        for _ in range(2):
            socket = await open_by_hand(server)
            await socket.send_all(by_hand(request(stream=True)))
            assert (await socket.receive_some()).startswith(b"HTTP/1.1 200")
            await socket.aclose()
        response = await stream(client)

    assert response.stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"how do you do\r\n\r\n", b"HTTP/1.1 400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"HTTP/1.1 400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 400"),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 20_000 + b"\r\n", b"HTTP/1.1 431"),
        (b"", b""),
        (by_hand(b"12345678")[:-3], b""),
    ],
)
async def test_what_is_no_http_ends_only_its_own_connection(
    data: bytes, status: bytes
) -> None:
    async with asked(HELLO) as (server, client):
        async with await open_by_hand(server) as socket:
            if data:
                await socket.send_all(data)
            await socket.send_eof()
            answer = b"".join([part async for part in socket])
        response = await stream(client)

    assert answer.startswith(status)
    assert response.stop_reason == "end_turn"


async def test_a_client_that_waits_to_be_told_is_told_to_go_on() -> None:
    data = by_hand(request())
    head, _, body = data.partition(b"\r\n\r\n")
    async with asked(HELLO) as (server, _), await open_by_hand(server) as socket:
        await socket.send_all(head + b"\r\nexpect: 100-continue\r\n\r\n")
        told = await socket.receive_some()
        await socket.send_all(body)
        answer = await socket.receive_some()

    assert told.startswith(b"HTTP/1.1 100")
    assert answer.startswith(b"HTTP/1.1 200")


async def test_closing_the_server_ends_what_still_hangs() -> None:
    hang = Faults(choose=lambda number, request: Hang())
    ended = trio.Event()

    async def wait_for_the_end(client: httpx2.AsyncClient) -> None:
        with pytest.raises(httpx2.TransportError):
            await client.post("/v1/messages", content=request(stream=True))
        ended.set()

    with trio.fail_after(30):
        async with httpx2.AsyncClient(headers=HEADERS) as client:
            async with trio.open_nursery() as nursery:
                async with serve(HELLO, faults=hang) as server:
                    client.base_url = httpx2.URL(server.base_url)
                    nursery.start_soon(wait_for_the_end, client)
                    while not server.requests:
                        await trio.lowlevel.checkpoint()
                await ended.wait()

        with pytest.raises(OSError, match="all attempts"):
            await open_by_hand(server)


async def test_an_error_inside_the_block_comes_out_bare() -> None:
    with pytest.raises(KeyError):
        async with serve(HELLO):
            raise KeyError("mine")


async def test_a_bug_of_a_policy_is_loud() -> None:
    def fail(request: api.Request) -> api.Request:
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
        async with asked(Decide(fail)) as (_, client):  # type: ignore[arg-type]  # it never returns
            await client.post("/v1/messages", content=request())
