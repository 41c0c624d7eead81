"""Each rule, by a request that breaks only it."""

import pytest

from tests.worker.loopback.judging import (
    BUDGET,
    HOUR,
    KEY,
    MARK,
    Messages,
    image,
    redacted,
    refused,
    thinking,
)
from tests.worker.loopback.pictures import gif, jpeg, png, webp
from tests.worker.loopback.requests import (
    LOOP,
    MODEL,
    message,
    request,
    text,
    tool,
    tool_result,
    tool_use,
)
from worker.loopback import signing
from worker.loopback.rules import Served

PREFILLED = Served(MODEL, prefill=True)


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
