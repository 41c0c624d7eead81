"""The rules about a request as a whole: its parameters, its size, who asks."""

import pytest

from tests.worker.loopback.judging import BUDGET, HOUR, KEY, MARK, refused
from tests.worker.loopback.requests import (
    LOOP,
    MODEL,
    Fields,
    message,
    request,
    text,
    tool,
)
from worker.loopback.body import read_body
from worker.loopback.meter import prompt_tokens
from worker.loopback.refusal import Refusal
from worker.loopback.rules import Served, check_body, check_headers, check_prompt


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
        (
            {"max_tokens": 64_001},
            (
                "max_tokens: 64001 > 64000, which is the maximum allowed number of output "
                "tokens for claude-loopback"
            ),
        ),
        ({"model": None}, "model: Field required"),
        ({"messages": []}, "messages: at least one message is required"),
        ({"retries": 3}, "retries: Extra inputs are not permitted"),
        ({"temperature": 1.5}, "temperature: range: 0..1"),
        ({"system": [text("")]}, "system: text content blocks must be non-empty"),
        (
            {"system": " "},
            "system: text content blocks must contain non-whitespace text",
        ),
        (
            {"system": [text("", cache_control=MARK)]},
            "system: cache_control cannot be set for empty text blocks",
        ),
        (
            {"system": [text(w, cache_control=MARK) for w in "abcde"]},
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ),
        (
            {"system": [text("a", cache_control=MARK), text("b", cache_control=HOUR)]},
            (
                "system.1.cache_control.ttl: a ttl='1h' cache_control block must not come "
                "after a ttl='5m' cache_control block. Note that blocks are processed in "
                "the following order: `tools`, `system`, `messages`."
            ),
        ),
        ({"tools": [tool(), tool()]}, "tools: Tool names must be unique."),
        (
            {"tools": [tool("a b")]},
            "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        ),
        (
            {"tools": [tool(input_schema=None)]},
            "tools.0.custom.input_schema: Field required",
        ),
        (
            {"tools": [tool(input_schema={})]},
            "tools.0.custom.input_schema.type: Field required",
        ),
        (
            {"tools": [tool(input_schema={"type": "string"})]},
            "tools.0.custom.input_schema.type: Input should be 'object'",
        ),
        (
            {"messages": list(LOOP), "tools": None},
            (
                "Requests which include `tool_use` or `tool_result` blocks must define "
                "tools."
            ),
        ),
        (
            {"tool_choice": {"type": "tool", "name": "fly"}},
            "tool_choice: Tool 'fly' not found in provided tools",
        ),
        (
            {"tools": None, "tool_choice": {"type": "auto"}},
            "tool_choice: may only be specified while providing tools",
        ),
        (
            {
                "thinking": {"type": "enabled", "budget_tokens": 1000},
                "max_tokens": 2000,
            },
            (
                "thinking.enabled.budget_tokens: Input should be greater than or equal to "
                "1024"
            ),
        ),
        (
            {"thinking": BUDGET, "max_tokens": 1024},
            (
                "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult "
                "our documentation at https://docs.claude.com/en/docs/build-with-claude/"
                "extended-thinking#max-tokens-and-context-window-size"
            ),
        ),
        (
            {"thinking": {"type": "adaptive"}, "temperature": 0.5},
            (
                "`temperature` may only be set to 1 when thinking is enabled. Please "
                "consult our documentation at https://docs.claude.com/en/docs/"
                "build-with-claude/extended-thinking"
                "#important-considerations-when-using-extended-thinking"
            ),
        ),
        (
            {"thinking": {"type": "adaptive"}, "tool_choice": {"type": "any"}},
            "Thinking may not be enabled when tool_choice forces tool use.",
        ),
    ],
)
def test_parameters_fit(fields: Fields, expected: str) -> None:
    assert refused(request(**fields)) == expected


def check_window(words: int, max_tokens: int) -> Refusal | None:
    data = request(
        message("user", text("x" * 4 * words)), tools=None, max_tokens=max_tokens
    )
    body = read_body(data)
    served = Served(MODEL, window=1000)
    return check_body(body, served, KEY, prompt_tokens(body))


def test_a_prompt_fits_the_window_exactly() -> None:
    assert check_window(896, max_tokens=100) is None


def test_prompt_and_answer_fit_the_window_together() -> None:
    assert check_window(897, max_tokens=100) == Refusal(
        400,
        "input length and `max_tokens` exceed context limit: 901 + 100 > 1000, decrease "
        "input length or `max_tokens` and try again",
    )


def test_a_prompt_larger_than_the_window_is_too_long() -> None:
    assert check_window(997, max_tokens=100) == Refusal(
        400,
        "prompt is too long: 1001 tokens > 1000 maximum",
    )


def test_a_prompt_that_is_only_counted_may_be_too_long() -> None:
    body = read_body(request(message("user", text("x" * 8000))))

    assert check_prompt(body, Served(MODEL, window=1000), KEY) is None


VERSION = {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-api-key": "k", **VERSION}, None),
        ({"authorization": "Bearer k", **VERSION}, None),
        (VERSION, Refusal(401, "x-api-key header is required")),
        ({"x-api-key": "x", **VERSION}, Refusal(401, "invalid x-api-key")),
        (
            {"authorization": "Bearer x", **VERSION},
            Refusal(401, "Invalid bearer token"),
        ),
        ({"x-api-key": "k"}, Refusal(400, "anthropic-version: header is required")),
    ],
)
def test_headers_say_who_asks(
    headers: dict[str, str], expected: Refusal | None
) -> None:
    assert check_headers(headers, "k") == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"model": "\xff"}',
        b'{"model": "\\ud800"}',
        b"[" * 100_000,
    ],
)
def test_a_body_that_is_no_json_is_refused(data: bytes) -> None:
    found = refused(data)

    assert found is not None
    assert "JSON" in found or "Input should be" in found
