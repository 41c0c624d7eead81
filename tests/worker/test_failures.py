"""HTTP answers and error events, read for what the run should do."""

import time

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import Raw, Struct

from tests.corpus import corpus
from worker.client import Failure, FailureKind
from worker.error_text import LONGEST_MESSAGE, read_error
from worker.failures import classify, retry_after

NOW = 1_780_000_000.0  # 2026-05-28T20:26:40Z


def body(kind: str, text: str) -> str:
    error = {"type": kind, "message": text}
    return msgspec.json.encode({"type": "error", "error": error}).decode()


def test_the_message_says_status_type_text_and_request_id() -> None:
    failure = classify(
        529,
        None,
        body("overloaded_error", "Overloaded"),
        {"request-id": "req_011CX78UXorYWagzw8sZE6NQ", "x-should-retry": "true"},
    )

    assert failure == Failure(
        kind="overloaded",
        message="529 overloaded_error: Overloaded "
        "(request id req_011CX78UXorYWagzw8sZE6NQ)",
        status=529,
        request_id="req_011CX78UXorYWagzw8sZE6NQ",
        should_retry=True,
    )


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, "invalid"),
        (400, "invalid"),
        (401, "auth"),
        (402, "billing"),
        (403, "auth"),
        (404, "not_found"),
        (408, "server"),
        (409, "server"),
        (413, "payload_too_large"),
        (418, "invalid"),
        (422, "invalid"),
        (425, "server"),
        (429, "rate_limit"),
        (500, "server"),
        (502, "server"),
        (503, "server"),
        (504, "server"),
        (529, "overloaded"),
    ],
)
def test_a_status_alone_decides_where_the_text_says_nothing(
    status: int, kind: FailureKind
) -> None:
    assert classify(status, None, "<html><body>nginx</body></html>", {}).kind == kind


@pytest.mark.parametrize(
    ("error_type", "kind"),
    [
        ("overloaded_error", "overloaded"),
        ("api_error", "server"),
        ("rate_limit_error", "rate_limit"),
        ("invalid_request_error", "invalid"),
        ("authentication_error", "auth"),
        ("a_new_error", "server"),
        (None, "server"),
    ],
)
def test_an_error_event_is_read_by_its_type(
    error_type: str | None, kind: FailureKind
) -> None:
    assert classify(None, error_type, "something happened", {}).kind == kind


def test_an_overflow_inside_a_stream_is_one() -> None:
    failure = classify(200, "invalid_request_error", "Prompt is too long", {})

    assert failure.kind == "overflow"


def test_a_rate_limit_on_tokens_is_no_overflow() -> None:
    text = "This request would exceed your rate limit of 30,000 input tokens per minute"

    assert classify(429, None, body("rate_limit_error", text), {}).kind == "rate_limit"
    assert classify(None, None, "Too many tokens per minute", {}).kind == "rate_limit"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "auth"),
        (403, "auth"),
        (404, "not_found"),
        (408, "server"),
        (409, "server"),
        (529, "overloaded"),
    ],
)
def test_a_status_that_says_what_it_is_is_no_overflow_whatever_the_text(
    status: int, kind: FailureKind
) -> None:
    text = "no access to models with a maximum context length of 200000 tokens"

    assert classify(400, None, text, {}).kind == "overflow"
    assert classify(status, None, text, {}).kind == kind


def test_an_overflow_answered_as_a_server_fault_is_not_retried() -> None:
    failure = classify(500, None, "the request exceeds the available context size", {})

    assert (failure.kind, failure.is_transient) == ("overflow", False)


@pytest.mark.parametrize(
    "text",
    [
        "Your credit balance is too low to access the Anthropic API.",
        "You have reached your specified API usage limits.",
        "insufficient_quota: You exceeded your current quota",
    ],
)
def test_money_is_not_retried_whatever_the_status(text: str) -> None:
    kinds = {classify(status, None, text, {}).kind for status in (400, 403, 429)}

    assert kinds == {"billing"}


def test_three_digits_inside_an_id_are_no_status() -> None:
    failure = classify(
        400, None, "No tool output found for call_503_abc_529 (see 429)", {}
    )

    assert (failure.kind, failure.status) == ("invalid", 400)


def test_a_status_that_a_proxy_writes_first_is_one() -> None:
    failure = classify(None, None, 'API Error: 529 {"type":"error"}', {})

    assert (failure.kind, failure.status) == ("overloaded", 529)


def test_the_provider_may_call_off_a_retry() -> None:
    failure = classify(500, None, "no", {"x-should-retry": "false"})

    assert (failure.kind, failure.is_transient) == ("server", False)


@pytest.mark.parametrize("status", [400, 422])
def test_the_provider_may_not_ask_for_a_retry_of_a_bad_request(status: int) -> None:
    failure = classify(status, None, "no", {"x-should-retry": "true"})

    assert (failure.kind, failure.is_transient) == ("invalid", False)


def test_an_unknown_status_is_retried_where_the_provider_says_so() -> None:
    assert classify(499, None, "no", {"x-should-retry": "true"}).is_transient


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "9"}, 9.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Thu, 28 May 2026 20:27:40 GMT"}, 60.0),
        ({"retry-after": "Thu, 28 May 2026 20:25:40 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "x", "retry-after": "2.5"}, 2.5),
        (
            {
                "anthropic-ratelimit-requests-remaining": "49",
                "anthropic-ratelimit-requests-reset": "2026-05-28T21:26:40Z",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-05-28T20:27:10Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-05-28T20:27:20Z",
            },
            40.0,
        ),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "tomorrow",
            },
            None,
        ),
    ],
)
def test_what_the_provider_asks_to_wait_is_read_from_the_headers(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, now=NOW) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please retry in 48.939935699s.", 48.939935699),
        ("Please try again in 1m30s.", 90.0),
        ("Try again in 250ms", 0.25),
        ('"retryDelay": "48s"', 48.0),
        ("retry in a while", None),
    ],
)
def test_what_the_provider_asks_to_wait_is_read_from_the_text(
    text: str, seconds: float | None
) -> None:
    assert retry_after({}, text) == seconds


def test_a_page_is_shown_without_its_tags_and_in_bounds() -> None:
    page = f"<html><style>p {{}}</style><h1>Bad  gateway</h1>{'x' * 5_000}</html>"

    text = read_error(page).text

    assert text.startswith("Bad gateway xxx")
    assert len(text) <= LONGEST_MESSAGE + 2


@pytest.mark.parametrize(
    "text",
    [
        "<script" * 9_000,
        "Limit 9" + "9" * 9_000 + ", Requested 1" + "0" * 9_000,
        "try again in " + "9" * 9_000 + "s",
        "prompt is too long: " + "1" * 9_000 + " tokens > 1 maximum",
        "[" * 9_000,
        '{"error":' * 9_000,
        "exceeds the " * 5_000,
    ],
)
def test_a_hostile_text_is_read_quickly_and_without_an_error(text: str) -> None:
    started = time.thread_time()

    assert classify(400, None, text, {}, now=NOW).message
    assert time.thread_time() - started < 1


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert "\x1b" not in classify(500, None, "\x1b[2Jgone", {}).message


def test_an_error_wrapped_in_an_error_is_shown() -> None:
    inner = '{"error":{"message":"the real reason"}}'
    outer = {"message": "Provider returned error", "metadata": {"raw": inner}}

    text = read_error(msgspec.json.encode({"error": outer}).decode()).text

    assert text == "Provider returned error: the real reason"


@given(
    status=st.none() | st.integers(100, 599),
    error_type=st.none() | st.text(max_size=30),
    message=st.text(max_size=300)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["error", "message", "type", "code", "metadata"]), inner
            )
        ),
        max_leaves=8,
    ).map(lambda value: msgspec.json.encode(value).decode()),
    headers=st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "request-id"]),
        st.text(max_size=20),
    ),
)
def test_no_answer_is_too_strange(
    status: int | None, error_type: str | None, message: str, headers: dict[str, str]
) -> None:
    failure = classify(status, error_type, message, headers, now=NOW)

    assert failure.message
    assert failure.retry_after is None or failure.retry_after >= 0


class Recorded(Struct):
    source: str
    status: int
    headers: dict[str, str]
    body: str


def test_recorded_http_errors_are_taken_for_what_they_are() -> None:
    text = corpus("errors/http_errors_from_cassettes.json").read_bytes()
    recorded = msgspec.json.decode(text, type=list[Recorded])

    for each in recorded:
        kind = classify(each.status, None, each.body, each.headers).kind

        if "auth_error" in each.source:
            assert kind == "auth", each
        elif "context_length" in each.source and each.status != 429:
            assert kind == "overflow", each
        elif each.status == 429:
            assert kind == "rate_limit", each
        else:
            assert kind in {"invalid", "not_found"}, each
    assert len(recorded) == 27


class ApiError(Struct):
    status: int
    headers: dict[str, str]
    error: Raw


class Line(Struct):
    type: str
    error: ApiError | str
    text: str = ""


def test_recorded_outages_are_retried() -> None:
    path = corpus("errors/anthropic_api_errors_from_claude_code_transcripts.jsonl")
    lines = [
        msgspec.json.decode(line, type=Line) for line in path.read_bytes().splitlines()
    ]

    kinds = set()
    for line in lines:
        match line.error:
            case ApiError(status, headers, error):
                failure = classify(status, None, bytes(error).decode(), headers)
                assert failure.request_id == headers["request-id"]
            case text:
                failure = classify(None, text, line.text, {})
        assert failure.is_transient, line
        kinds.add((failure.kind, failure.status))

    assert kinds == {("overloaded", 529), ("server", 500)}
