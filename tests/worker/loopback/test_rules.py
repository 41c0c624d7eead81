"""Each rule, by a request that breaks only it."""

import pytest

from tests.worker.loopback.pictures import gif, jpeg, png, webp
from tests.worker.loopback.requests import (
    LOOP,
    MODEL,
    Fields,
    Json,
    message,
    request,
    text,
    tool,
    tool_result,
    tool_use,
)
from worker.loopback import signing
from worker.loopback.body import read_body
from worker.loopback.meter import prompt_tokens
from worker.loopback.refusal import Refusal, Refused
from worker.loopback.rules import Served, check_body, check_headers, check_prompt

KEY = b"the key of the test"
SERVED = Served(MODEL)
PREFILLED = Served(MODEL, prefill=True)
MARK: Fields = {"type": "ephemeral"}
HOUR: Fields = {"type": "ephemeral", "ttl": "1h"}
BUDGET: Fields = {"type": "enabled", "budget_tokens": 1024}

Messages = tuple[Json, ...]


def refused(data: bytes, served: Served = SERVED) -> str | None:
    try:
        body = read_body(data)
        refusal = check_body(body, served, KEY, prompt_tokens(body))
    except Refused as error:
        refusal = error.refusal
    if refusal is None:
        return None
    assert refusal.status == 400
    return refusal.message


def thinking(words: str = "hm", signed: str | None = None, model: str = MODEL) -> Json:
    signature = signing.sign(KEY, model, words if signed is None else signed)
    return {"type": "thinking", "thinking": words, "signature": signature}


def redacted(data: str) -> Json:
    return {"type": "redacted_thinking", "data": data}


def image(data: str, media_type: str = "image/png") -> Json:
    source: Fields = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(request(), id="one message"),
        pytest.param(request(*LOOP), id="parallel calls"),
        pytest.param(request({"role": "user", "content": "hello"}), id="a string"),
        pytest.param(
            request(message("user", text("a")), message("user", text("b"))),
            id="neighbours of one role, which the API merges",
        ),
        pytest.param(
            request(
                *LOOP[:2],
                message("user", tool_result("b"), tool_result("a"), text("x")),
            ),
            id="results in another order, text behind them",
        ),
        pytest.param(
            request(*LOOP[:2], message("user", tool_result("a", ""), tool_result("b"))),
            id="an empty result",
        ),
        pytest.param(
            request(message("user", text("a")), message("system", text("b"))),
            id="a system message at the end",
        ),
        pytest.param(
            request(
                message("user", text("a")),
                message("assistant", thinking(), tool_use("a")),
                message("user", tool_result("a")),
                message("assistant", tool_use("b")),
                message("user", tool_result("b")),
                max_tokens=2000,
                thinking=BUDGET,
            ),
            id="a loop that starts with thinking and goes on without",
        ),
        pytest.param(
            request(*LOOP, thinking={"type": "adaptive"}),
            id="a loop without thinking under adaptive thinking",
        ),
        pytest.param(
            request(
                *LOOP,
                message("assistant", text("done")),
                message("user", text("and now?")),
                max_tokens=2000,
                thinking=BUDGET,
            ),
            id="a loop without thinking in an earlier turn",
        ),
        pytest.param(
            request(
                message("user", text("a")),
                message(
                    "assistant", redacted(signing.seal(KEY, MODEL, "x")), text("b")
                ),
                message("user", text("c")),
            ),
            id="redacted thinking of ours",
        ),
        pytest.param(
            request(
                message(
                    "user",
                    image(png(8000, 1)),
                    image(gif(3, 4), "image/gif"),
                    image(jpeg(3, 4), "image/jpeg"),
                    image(webp(3, 4), "image/webp"),
                )
            ),
            id="a picture of each type",
        ),
        pytest.param(
            request(
                message("user", text("a", cache_control=MARK)),
                system=[text("s", cache_control=HOUR), text("t", cache_control=MARK)],
                tools=[tool(cache_control=HOUR)],
            ),
            id="four breakpoints",
        ),
        pytest.param(
            request(
                message("user", text("a")),
                message("assistant", text(" "), tool_use("a")),
                message("user", tool_result("a")),
            ),
            id="an assistant's blank beside a call",
        ),
        pytest.param(
            request(
                message("user", text("a")),
                message("system", {"type": "tool_addition", "tool": {"name": "x"}}),
            ),
            id="a tool added by a system message",
        ),
        pytest.param(
            request(temperature=1, top_k=5, metadata={"user_id": "u"}, stream=True),
            id="other parameters",
        ),
    ],
)
def test_takes_what_the_api_takes(data: bytes) -> None:
    assert refused(data) is None


UNANSWERED = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately "
    "after: {}. Each `tool_use` block must have a corresponding `tool_result` block in "
    "the next message."
)
UNEXPECTED = (
    "messages.{}: unexpected `tool_use_id` found in `tool_result` blocks: {}. Each "
    "`tool_result` block must have a corresponding `tool_use` block in the previous "
    "message."
)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            LOOP[:2], UNANSWERED.format("a, b"), id="none answered, at the end"
        ),
        pytest.param(
            (*LOOP[:2], message("user", tool_result("a"))),
            UNANSWERED.format("b"),
            id="one of two answered",
        ),
        pytest.param(
            (*LOOP[:2], message("user", text("well"), *LOOP[2]["content"])),  # type: ignore[call-overload, index, misc]  # JSON of known shape
            UNANSWERED.format("a, b"),
            id="text before the results",
        ),
        pytest.param(
            (
                *LOOP[:2],
                message("user", tool_result("a")),
                message("user", tool_result("b")),
            ),
            UNANSWERED.format("b"),
            id="results over two messages",
        ),
        pytest.param(
            (message("user", tool_result("a")),),
            UNEXPECTED.format("0.content.0", "a"),
            id="a result without any call",
        ),
        pytest.param(
            (*LOOP, message("assistant", text("x")), message("user", tool_result("a"))),
            UNEXPECTED.format("4.content.0", "a"),
            id="a result again, later",
        ),
        pytest.param(
            (
                *LOOP[:2],
                message("user", tool_result("a"), tool_result("b"), tool_result("a")),
            ),
            "messages.2.content.2: each tool_use must have a single result. Found "
            "multiple `tool_result` blocks with id: a",
            id="two results of one call",
        ),
        pytest.param(
            (
                *LOOP,
                message("assistant", tool_use("a")),
                message("user", tool_result("a")),
            ),
            "messages: `tool_use` ids must be unique",
            id="an id of an earlier turn",
        ),
        pytest.param(
            (message("user", text("a")), message("assistant", tool_use("a.b"))),
            "messages.1.content.0.tool_use.id: String should match pattern "
            "'^[a-zA-Z0-9_-]+$'",
            id="a dot in an id",
        ),
        pytest.param(
            (message("user", text("a")), message("assistant", tool_use(""))),
            "messages.1.content.0.tool_use.id: String should match pattern "
            "'^[a-zA-Z0-9_-]+$'",
            id="an empty id",
        ),
        pytest.param(
            (message("user", text("a")), message("assistant", tool_use("a", "x y"))),
            "messages.1.content.0.tool_use.name: String should match pattern "
            "'^[a-zA-Z0-9_-]{1,200}$'",
            id="a blank in a tool's name",
        ),
        pytest.param(
            (message("user", text("a")), message("assistant", tool_use("a", input=[]))),
            "messages.1.content.0.input: Input should be a valid dictionary",
            id="arguments that are no object",
        ),
        pytest.param(
            (
                *LOOP[:2],
                message("user", tool_result("a", "", is_error=True), tool_result("b")),
            ),
            "messages.2.content.0.tool_result: content cannot be empty if `is_error` is "
            "true",
            id="an error without words",
        ),
        pytest.param(
            (message("user", tool_use("a")),),
            "messages.0: `tool_use` blocks can only be in `assistant` messages",
            id="a user's call",
        ),
        pytest.param(
            (message("user", text("a")), message("assistant", tool_result("a"))),
            "messages.1: `tool_result` blocks can only be in `user` messages",
            id="an assistant's result",
        ),
    ],
)
def test_calls_and_results_pair(messages: Messages, expected: str) -> None:
    assert refused(request(*messages)) == expected


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            (message("assistant", text("a")), message("user", text("b"))),
            'messages: first message must use the "user" role',
            id="an assistant's message first",
        ),
        pytest.param(
            (message("user", text("")),),
            "messages: text content blocks must be non-empty",
            id="an empty text",
        ),
        pytest.param(
            (message("user", text(" \n")),),
            "messages: text content blocks must contain non-whitespace text",
            id="a blank text",
        ),
        pytest.param(
            (
                *LOOP[:2],
                message("user", tool_result("a", [text("")]), tool_result("b")),
            ),
            "messages: text content blocks must be non-empty",
            id="an empty text in a result",
        ),
        pytest.param(
            (message("user", text("", cache_control=MARK)),),
            "messages.0.content.0.text: cache_control cannot be set for empty text "
            "blocks",
            id="a breakpoint on an empty text",
        ),
        pytest.param(
            (message("user"),),
            "messages.0: all messages must have non-empty content except for the "
            "optional final assistant message",
            id="no content",
        ),
        pytest.param(
            (
                message("user", text("a")),
                message("assistant"),
                message("user", text("b")),
            ),
            "messages.1: all messages must have non-empty content except for the "
            "optional final assistant message",
            id="an assistant's message without content",
        ),
        pytest.param(
            (message("user", text("a")), message("assistant", text("b"))),
            "This model does not support assistant message prefill. The conversation "
            "must end with a user message.",
            id="an assistant's message last",
        ),
        pytest.param(
            (message("user", text("a")), message("assistant", image(png(1, 1)))),
            "messages.1: `image` blocks can only be in `user` messages",
            id="an assistant's picture",
        ),
        pytest.param(
            (message("user", {"type": "sound", "data": "x"}),),
            "messages.0.content.0: Input tag 'sound' found using 'type' does not match "
            "any of the expected tags",
            id="an unknown block",
        ),
        pytest.param(
            (message("user", text("a", index=1)),),
            "messages.0.content.0.index: Extra inputs are not permitted",
            id="an unknown field of a block",
        ),
    ],
)
def test_messages_hold_what_they_may(messages: Messages, expected: str) -> None:
    assert refused(request(*messages)) == expected


FOLLOW = (
    "messages.{}: role 'system' must follow a 'user' message or an 'assistant' message "
    "ending in a server tool result"
)
PRECEDE = (
    "messages.{}: role 'system' must precede an 'assistant' message or end the array"
)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            (message("system", text("s")), message("assistant", text("a"))),
            FOLLOW.format(0),
            id="first",
        ),
        pytest.param(
            (
                message("user", text("a")),
                message("assistant", text("b")),
                message("system", text("s")),
            ),
            FOLLOW.format(2),
            id="behind an assistant's",
        ),
        pytest.param(
            (
                message("user", text("a")),
                message("system", text("s")),
                message("user", text("b")),
            ),
            PRECEDE.format(1),
            id="before a user's",
        ),
        pytest.param(
            (
                message("user", text("a")),
                message("system", text("s")),
                message("system", text("t")),
            ),
            PRECEDE.format(1),
            id="two in a row",
        ),
    ],
)
def test_system_messages_have_their_places(messages: Messages, expected: str) -> None:
    assert refused(request(*messages)) == expected


def test_older_models_take_no_system_message() -> None:
    data = request(message("user", text("a")), message("system", text("s")))

    message_ = refused(data, Served(MODEL, system_messages=False))

    assert message_ == (
        'messages: Unexpected role "system". The Messages API accepts a top-level '
        '`system` parameter, not "system" as an input message role.'
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("so", None),
        (
            "so \n",
            "messages: final assistant content cannot end with trailing whitespace",
        ),
    ],
)
def test_a_prefill_does_not_end_in_a_blank(words: str, expected: str | None) -> None:
    data = request(message("user", text("a")), message("assistant", text(words)))

    assert refused(data, PREFILLED) == expected


def said_after(*blocks: Json) -> Messages:
    return (
        message("user", text("a")),
        message("assistant", *blocks),
        message("user", text("b")),
    )


EXPECTED_THINKING = (
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
    "`tool_use`. When `thinking` is enabled, a final `assistant` message must start "
    "with a thinking block (preceeding the lastmost set of `tool_use` and "
    "`tool_result` blocks). We recommend you include thinking blocks from previous "
    "turns. To avoid this requirement, disable `thinking`. Please consult our "
    "documentation at https://docs.claude.com/en/docs/build-with-claude/"
    "extended-thinking"
)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            said_after(thinking("changed", "as it was"), text("x")),
            "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the "
            "latest assistant message cannot be modified. These blocks must remain as "
            "they were in the original response.",
            id="a changed text",
        ),
        pytest.param(
            (
                *said_after(thinking("changed", "as it was"), text("x")),
                message("assistant", text("y")),
                message("user", text("z")),
            ),
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            id="a changed text in an earlier message",
        ),
        pytest.param(
            said_after(thinking("hm", model="claude-other"), text("x")),
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            id="another model's",
        ),
        pytest.param(
            said_after(
                {"type": "thinking", "thinking": "hm", "signature": "EqQBCg=="},
                text("x"),
            ),
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            id="another provider's",
        ),
        pytest.param(
            said_after(
                {"type": "thinking", "thinking": "hm", "signature": ""}, text("x")
            ),
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            id="none",
        ),
        pytest.param(
            said_after(redacted("EqQBCg=="), text("x")),
            "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
            id="redacted, another provider's",
        ),
        pytest.param(
            said_after(thinking()),
            "messages.1: The final block in an assistant message cannot be `thinking`.",
            id="nothing behind it",
        ),
        pytest.param(
            (message("user", thinking()),),
            "messages.0: `thinking` blocks can only be in `assistant` messages",
            id="a user's",
        ),
    ],
)
def test_thinking_is_as_it_was_made(messages: Messages, expected: str) -> None:
    assert refused(request(*messages)) == expected


def test_with_a_budget_a_loop_starts_with_thinking() -> None:
    data = request(*LOOP, max_tokens=2000, thinking=BUDGET)

    assert refused(data) == EXPECTED_THINKING


def test_a_loop_is_judged_by_its_first_response() -> None:
    later = (
        message("assistant", thinking(), tool_use("c")),
        message("user", tool_result("c")),
    )
    data = request(*LOOP, *later, max_tokens=2000, thinking=BUDGET)

    assert refused(data) == EXPECTED_THINKING


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


B64 = "messages.0.content.0.image.source.base64"


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        pytest.param(
            [image(png(8001, 1))],
            f"{B64}.data: At least one of the image dimensions exceed max allowed "
            "size: 8000 pixels",
            id="too wide",
        ),
        pytest.param(
            [image(png(1, 1))] * 20 + [image(png(1, 2001))],
            "messages.0.content.20.image.source.base64.data: At least one of the image "
            "dimensions exceed max allowed size for many-image requests: 2000 pixels",
            id="too high among many",
        ),
        pytest.param(
            [image(png(1, 1))] * 101,
            "Too much media: 0 document pages + 101 images > 100",
            id="too many",
        ),
        pytest.param(
            [image(png(1, 1, size=4_000_000))],
            f"{B64}: image exceeds 5 MB maximum: 5333336 bytes > 5242880 bytes",
            id="too large",
        ),
        pytest.param(
            [image(png(1, 1), "image/jpeg")],
            f"{B64}: The image was specified using the image/jpeg media type, but the "
            "image appears to be a image/png image",
            id="of another type",
        ),
        pytest.param(
            [image(png(1, 1), "image/bmp")],
            f"{B64}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' "
            "or 'image/webp'",
            id="of a type nobody takes",
        ),
        pytest.param([image("?!")], f"{B64}: invalid base64 data", id="no base64"),
        pytest.param([image("aGVsbG8=")], "Could not process image", id="no picture"),
    ],
)
def test_pictures_are_pictures(blocks: list[Json], expected: str) -> None:
    assert refused(request(message("user", *blocks))) == expected


def test_a_picture_in_a_result_is_looked_at_too() -> None:
    result = tool_result("a", [image("aGVsbG8=")])
    data = request(*LOOP[:2], message("user", result, tool_result("b")))

    assert refused(data) == "Could not process image"


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
