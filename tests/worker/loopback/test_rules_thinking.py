"""The rules about thinking, each by a request that breaks only it."""

import pytest

from tests.worker.loopback.judging import BUDGET, Messages, redacted, refused, thinking
from tests.worker.loopback.requests import (
    LOOP,
    Json,
    message,
    request,
    text,
    tool_result,
    tool_use,
)


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
