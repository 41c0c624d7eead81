"""Overflow texts: what a full context looks like, and what only seems so."""

import msgspec
import pytest
from msgspec import Struct

from tests.corpus import corpus
from worker.client import Failure, FailureKind, Response
from worker.failures import classify
from worker.items import AssistantText, FromModel, Opaque, Reasoning, ToolCall
from worker.known_models import resolve
from worker.overflow import find_overflow, fold, hidden_overflow, window_from
from worker.usage import Usage


class Row(Struct):
    id: str
    kind: str
    http_status: int | None
    text: str
    tokens: dict[str, int]
    headers: dict[str, str] = {}


class Rows(Struct):
    rows: list[Row]


EXPECTED: dict[str, FailureKind] = {
    "overflow": "overflow",
    "overflow_with_max_tokens": "output_too_large",
    "overflow_images": "payload_too_large",
    "request_too_large_bytes": "payload_too_large",
    "client_preflight": "overflow",
    "silent_or_finish_reason": "overflow",
    "lookalike_auth": "auth",
    "lookalike_entitlement": "billing",
    "lookalike_images": "invalid",
    "lookalike_max_tokens": "output_too_large",
    "lookalike_overloaded": "overloaded",
    "lookalike_quota": "rate_limit",
    "lookalike_rate_limit": "rate_limit",
    "lookalike_throttle": "rate_limit",
}

DECIDED_OTHERWISE: dict[str, FailureKind] = {
    # One request is larger than the account's tokens per minute: waiting never
    # lifts that, so it is the plan's limit and not a rate to wait for.
    "031": "billing",
    "032": "billing",
    # The prompt alone fits (38 892 of 40 960): asking for less output mends it.
    "040": "output_too_large",
    # The row describes the condition; no server's words are quoted in it.
    "062": "invalid",
    # A line of a server's own log: nothing of it reaches a client.
    "052": "server",
}

OTHER_FIGURES: dict[str, tuple[int | None, int | None]] = {
    # limit + over_by
    "004": (313_836, 288_000),
    # 22 394 in the messages and 879 in the functions are one prompt.
    "026": (23_273, 16_385),
    # The limit is the reporter's; the text has no figure.
    "029": (None, None),
}


def rows() -> list[Row]:
    text = corpus("overflow_errors.json").read_bytes()
    return msgspec.json.decode(text, type=Rows).rows


def test_every_recorded_text_is_taken_for_what_it_is() -> None:
    recorded = rows()

    found = {
        row.id: classify(row.http_status, None, row.text, row.headers).kind
        for row in recorded
    }

    expected = {row.id: EXPECTED.get(row.kind, "server") for row in recorded}
    assert found == expected | DECIDED_OTHERWISE
    assert len(found) == 60


def test_the_figures_are_read_out_of_every_recorded_overflow() -> None:
    recorded = [row for row in rows() if row.kind.startswith("overflow")]

    found = {}
    for row in recorded:
        failure = classify(row.http_status, None, row.text, row.headers)
        found[row.id] = (failure.prompt_tokens, failure.window_tokens)

    figures = {
        row.id: (row.tokens.get("prompt"), row.tokens.get("limit")) for row in recorded
    }
    assert found == figures | OTHER_FIGURES


def test_what_is_left_of_the_window_is_said_with_the_failure() -> None:
    text = (
        "input length and `max_tokens` exceed context limit: "
        "178959 + 64000 > 200000, decrease input length or `max_tokens` and try again"
    )

    failure = classify(400, "invalid_request_error", text, {})

    assert failure.kind == "output_too_large"
    assert failure.output_limit == 200_000 - 178_959


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (
            (
                "max_tokens: 64000 > 8192, which is the maximum allowed number of output "
                "tokens for claude-x"
            ),
            8_192,
        ),
        (
            (
                "This model's maximum context length is 32768 tokens. However, you "
                "requested 4096 output tokens and your prompt contains at least 28673 "
                "input tokens, for a total of at least 32769 tokens."
            ),
            4_095,
        ),
        (
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's "
                "maximum context length is 32768 tokens and your request has 5000 input "
                "tokens (32000 > 32768 - 5000)."
            ),
            27_768,
        ),
    ],
)
def test_an_output_limit_is_no_full_context(text: str, limit: int) -> None:
    failure = classify(400, None, text, {})

    assert (failure.kind, failure.output_limit) == ("output_too_large", limit)


def test_a_bare_excess_gives_no_figures_that_were_not_said() -> None:
    failure = classify(
        400, None, "prompt too long; exceeded max context length by 1119046 tokens", {}
    )

    assert failure.kind == "overflow"
    assert failure.prompt_tokens is None


def test_numbers_may_have_thousands_separators() -> None:
    failure = classify(
        400, None, "prompt is too long: 3,333,404 tokens > 200,000 maximum", {}
    )

    assert (failure.prompt_tokens, failure.window_tokens) == (3_333_404, 200_000)


@pytest.mark.parametrize(
    "text",
    [
        "tools.3.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        "messages.5: `tool_use` ids were found without `tool_result` blocks",
        "This model does not support effort level 'xhigh'.",
        "messages: text content blocks must be non-empty",
        "max_tokens: must be at least 1",
        "The prompt_length parameter is unknown",
    ],
)
def test_a_malformed_request_is_no_full_context(text: str) -> None:
    assert find_overflow(400, text) is None


def test_an_html_page_of_a_proxy_about_bytes_is_no_full_context() -> None:
    page = "<html><head><title>413 Request Entity Too Large</title></head></html>"

    assert classify(413, None, page, {}).kind == "payload_too_large"


def test_a_very_long_text_is_read_in_bounded_time() -> None:
    text = "exceeds " * 200_000 + "input token count " * 100_000

    assert len(fold(text)) < 20_000
    assert find_overflow(400, text) is None


def response(
    stop_reason: str,
    usage: tuple[int, int] | None,
    *items: FromModel,
    context: int | None = None,
) -> Response:
    """Make a response of *usage* (prompt, output); *context* where it is not the sum."""
    return Response(
        message_id="m",
        model="m",
        items=items,
        stop_reason=stop_reason,
        usage=None if usage is None else Usage(input=usage[0], output=usage[1]),
        context_tokens=context or (None if usage is None else sum(usage)),
    )


TEXT = AssistantText("an answer", response="r")
BLANK = AssistantText(" \n", response="r")
CALL = ToolCall("a", "do", "{}", response="r")
THOUGHT = Reasoning("hm", response="r", model="m", signature="s")
SEARCH = Opaque('{"type":"web_search"}', response="r")


@pytest.mark.parametrize(
    ("response", "window"),
    [
        (response("model_context_window_exceeded", (10, 5), TEXT), None),
        (response("end_turn", (5_065, 20), TEXT), 2_048),  # z.ai: swallowed
        (response("tool_use", (5_065, 20), CALL), 2_048),
        (response("max_tokens", (199_000, 0)), 200_000),  # MiMo
        (response("end_turn", (199_000, 0)), 200_000),
        (response("end_turn", (199_000, 3), BLANK), 200_000),
        (response("length", (5_000, 0)), None),  # goose#11318
        (response("length", None), None),
        (response("end_turn", None), 200_000),  # yoi: an empty turn
        (response("end_turn", None, BLANK), 200_000),
    ],
)
def test_an_overflow_that_looks_like_an_answer_is_one(
    response: Response, window: int | None
) -> None:
    failure = hidden_overflow(response, window)

    assert failure is not None
    assert failure.kind == "overflow"
    assert failure.message.startswith("the prompt does not fit the model's window: ")
    assert window_from(failure, window) == window


@pytest.mark.parametrize(
    ("response", "window"),
    [
        (response("end_turn", (100, 20), TEXT), 2_048),
        (response("end_turn", (2_040, 20), TEXT), 2_048),  # the answer went beyond
        (response("max_tokens", (6_000, 0)), 200_000),  # omp#8277: at 3 %
        (response("max_tokens", (6_000, 32_000), THOUGHT), 200_000),
        (response("max_tokens", (199_000, 64), TEXT), 200_000),
        (response("max_tokens", (199_000, 64), THOUGHT), 200_000),
        (response("end_turn", (6_000, 2)), 200_000),  # an empty turn with room
        (response("end_turn", (6_000, 2)), None),
        (response("end_turn", None, TEXT), 200_000),  # a server that tells no usage
        (response("tool_use", None, CALL), 200_000),
        (response("end_turn", None, SEARCH), 200_000),
        (response("refusal", None), 200_000),
        (response("pause_turn", (199_999, 0)), 200_000),
        # Billed over several iterations, each with the context in it.
        (response("end_turn", (900_000, 500), TEXT, context=90_000), 200_000),
    ],
)
def test_an_answer_is_no_overflow_by_its_stop_reason_or_emptiness_alone(
    response: Response, window: int | None
) -> None:
    assert hidden_overflow(response, window) is None


def failure(
    kind: FailureKind, prompt: int | None = None, window: int | None = None
) -> Failure:
    return Failure(kind=kind, message="no", prompt_tokens=prompt, window_tokens=window)


@pytest.mark.parametrize(
    ("failure", "window", "learned"),
    [
        (failure("overflow", 210_000, 200_000), None, 200_000),
        (failure("overflow", 210_000, 200_000), 1_000_000, 200_000),
        (failure("overflow", 210_000, 200_000), 32_768, 32_768),
        (failure("output_too_large", 178_959, 200_000), 1_000_000, 200_000),
        (failure("overflow", 210_000), 1_000_000, 209_999),
        (failure("overflow", 210_000), None, 209_999),
        (failure("overflow"), None, None),
        (failure("overflow"), 200_000, 200_000),
        (failure("overflow", 12, 5), 200_000, 200_000),
        (failure("rate_limit", None, 30_000), 200_000, 200_000),
        (failure("payload_too_large", 90_000), 200_000, 200_000),
    ],
)
def test_the_window_is_learned_from_what_the_provider_says(
    failure: Failure, window: int | None, learned: int | None
) -> None:
    assert window_from(failure, window) == learned


def test_what_the_manifest_says_of_the_window_stands_over_the_catalogue() -> None:
    catalogue = resolve("anthropic", "claude-sonnet-5")
    model = resolve("anthropic", "claude-sonnet-5", context_window=32_768)

    assert catalogue.window == 1_000_000
    assert window_from(failure("overflow", 41_000, 1_000_000), model.window) == 32_768


def test_the_window_is_learned_from_every_recorded_overflow_that_names_it() -> None:
    recorded = [row for row in rows() if row.kind.startswith("overflow")]

    learned = {
        row.id: window_from(
            classify(row.http_status, None, row.text, row.headers), None
        )
        for row in recorded
        if row.tokens.get("limit") is not None and row.id not in OTHER_FIGURES
    }

    assert learned == {
        row.id: row.tokens["limit"] for row in recorded if row.id in learned
    }
    assert len(learned) > 20
