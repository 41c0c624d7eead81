"""A summary endpoint of the user's own, over real HTTP."""

import pytest
import trio

from tests.summary_server import Answer, Order, summary, summary_server
from worker.api import Message, Request, Text
from worker.client import Failure, FailureKind, ProviderError
from worker.compact.remote import LARGEST_ANSWER, Endpoint
from worker.items import AssistantText
from worker.usage import Usage

REQUEST = Request(
    model="m",
    max_tokens=100,
    system=(Text("Be brief."),),
    messages=(Message("user", (Text("A record.\ud800"),)),),
)


async def failure_of(url: str, *, seconds: float = 5.0) -> Failure:
    with pytest.raises(ProviderError) as caught:
        await Endpoint(url, seconds=seconds).ask(REQUEST, lambda delta: None)
    return caught.value.failure


async def test_it_gets_both_texts_and_its_summary_is_the_answer() -> None:
    async with summary_server(lambda order: summary("Done.")) as server:
        endpoint = Endpoint(server.url, seconds=5.0)

        response = await endpoint.ask(REQUEST, lambda delta: None)

    assert server.orders == [Order("Be brief.", "A record.?")]
    assert response.items == (AssistantText("Done.", ""),)
    assert (response.stop_reason, response.usage) == ("end_turn", Usage())


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ((500, {}, b"oops"), "server", "oops"),
        ((429, {"retry-after": "7"}, b"slow down"), "rate_limit", "slow down"),
        ((401, {}, b"no"), "auth", "no"),
        ((413, {}, b"too big"), "payload_too_large", "too big"),
        ((200, {}, b"<html>hello"), "invalid", "<html>hello"),
        ((200, {}, b""), "invalid", "nothing at all"),
        ((200, {}, b"\xff\xfe"), "invalid", "has to be JSON"),
        ((200, {}, b'{"summary": 7}'), "invalid", '"summary"'),
        ((200, {}, b'{"text": "x"}'), "invalid", '"summary"'),
        ((200, {}, b'{"summary": null}'), "invalid", '"summary"'),
        ((200, {}, b"[" * 5_000), "invalid", "has to be JSON"),
        ((204, {}, b""), "invalid", "nothing at all"),
    ],
)
async def test_what_is_no_summary_is_a_failure_that_says_what_came(
    answer: Answer, kind: FailureKind, text: str
) -> None:
    async with summary_server(lambda order: answer) as server:
        failure = await failure_of(server.url)

    assert failure.kind == kind
    assert text in failure.message


async def test_a_redirect_is_not_followed() -> None:
    async with summary_server(lambda order: summary("Stolen.")) as other:
        away: Answer = (307, {"location": other.url}, b"")
        async with summary_server(lambda order: away) as server:
            failure = await failure_of(server.url)

        assert other.orders == []
    assert failure.kind == "invalid"
    assert failure.message == (
        f"redirected to {other.url}: set remote_endpoint to where it is"
    )


async def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    huge = summary("x" * (LARGEST_ANSWER + 10))

    async with summary_server(lambda order: huge) as server:
        failure = await failure_of(server.url)

    assert failure.message == "its answer is longer than 1,048,576 bytes"


async def test_nobody_there_is_a_failure_of_the_connection() -> None:
    async with summary_server(lambda order: summary("")) as server:
        url = server.url

    failure = await failure_of(url)

    assert failure.kind == "connection"
    assert failure.message.startswith(f"{url} cannot be reached: ")


async def test_one_that_never_answers_ends_with_its_caller_s_deadline() -> None:
    async with summary_server(None) as server:
        with trio.move_on_after(0.2) as scope:
            await Endpoint(server.url, seconds=60.0).ask(REQUEST, lambda delta: None)

    assert scope.cancelled_caught


async def test_a_password_in_the_address_is_shown_to_nobody() -> None:
    url = "http://me:secret@127.0.0.1:1/summary?key=hidden"

    failure = await failure_of(url)

    assert "127.0.0.1:1/summary" in failure.message
    assert "secret" not in failure.message + Endpoint(url, seconds=1).model.id
    assert "hidden" not in failure.message + Endpoint(url, seconds=1).model.id


async def test_an_address_that_is_none_is_a_failure() -> None:
    failure = await failure_of("http://[::1")

    assert failure.kind == "invalid"
