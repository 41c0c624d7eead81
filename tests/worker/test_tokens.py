import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import Raw

from tools.base import Image
from worker.api import ToolSpec
from worker.items import (
    AssistantText,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.tokens import (
    CALL_ENVELOPE,
    ENVELOPE,
    NEW_TOKENIZER,
    OLD_TOKENIZER,
    OTHER_TOKENIZER,
    RESULT_ENVELOPE,
    at_most,
    count_item,
    count_tool,
    factor_for,
    item_bytes,
    tool_bytes,
)


class Letters:
    """Counts every character as a token."""

    def count(self, text: str) -> int:
        return len(text)


PNG = "iVBORw0KGgoAAAANSUhEUgAAAlgAAAGQCAYAAAA="  # a header of 600 x 400
TEXT = st.text(max_size=40)
ITEMS = st.one_of(
    st.builds(SystemText, TEXT),
    st.builds(UserText, TEXT),
    st.builds(AssistantText, TEXT, response=st.just("r")),
    st.builds(
        Reasoning,
        TEXT,
        response=st.just("r"),
        model=TEXT,
        signature=st.integers(0, 2_000).map("s".__mul__),
    ),
    st.builds(ToolCall, TEXT, TEXT, TEXT, response=st.just("r")),
    st.builds(ToolResult, TEXT, TEXT, content=st.none() | TEXT),
    st.builds(Opaque, TEXT, response=st.just("r")),
)


@pytest.mark.parametrize(
    ("item", "tokens"),
    [
        (SystemText("abc"), 3),
        (UserText("abc"), 3),
        (AssistantText("abc", response="r", extra="{}"), 5),
        (Reasoning("abc", response="r", model="m", extra="{}"), 5),
        # 1 304 characters of signature were 806 of reasoning, and 179 tokens
        (Reasoning("", response="r", model="m", signature="s" * 1_304), 203),
        (Reasoning("", response="r", model="m", redacted="s" * 1_304), 203),
        (Reasoning("t" * 300, response="r", model="m", signature="s" * 1_304), 300),
        (Reasoning("abc", response="r", model="m", signature="s" * 200), 3),
        (ToolCall("id", "bash", '{"a":1}', response="r"), 11),
        (ToolResult("id", "short", content="the whole text"), 14),
        (ToolResult("id", "short"), 5),
        (ToolResult("id", "short", content=""), 0),
        (Opaque('{"type":"x"}', response="r"), 12),
        (UserText("abc", images=(Image("image/png", PNG),)), 3 + 320),
        (ToolResult("id", "s", images=(Image("image/png", PNG),)), 1 + 320),
    ],
)
def test_what_the_model_sees_of_an_item_is_counted(item: Item, tokens: int) -> None:
    around = {ToolResult: RESULT_ENVELOPE, ToolCall: CALL_ENVELOPE}

    counted = count_item(item, Letters())

    assert counted == around.get(type(item), ENVELOPE) + tokens


def test_a_tool_counts_with_its_schema() -> None:
    schema = msgspec.json.encode({"type": "object"})
    spec = ToolSpec("bash", "Run it.", Raw(schema))

    assert count_tool(spec, Letters()) == ENVELOPE + 4 + 1 + 7 + 1 + len(schema)


@given(st.builds(ToolSpec, TEXT, TEXT, st.just(Raw(b"{}"))))
def test_bytes_bound_the_count_of_a_tool(spec: ToolSpec) -> None:
    assert count_tool(spec, Letters()) <= tool_bytes(spec)


@given(ITEMS)
def test_bytes_bound_any_count_of_at_most_a_token_a_byte(item: Item) -> None:
    assert count_item(item, Letters()) <= item_bytes(item)


def test_a_bound_by_bytes_takes_what_utf8_cannot() -> None:
    assert at_most("é\ud800") == 3


@pytest.mark.parametrize(
    ("model", "factor"),
    [
        ("claude-sonnet-4-5-20250929", OLD_TOKENIZER),
        ("claude-opus-4-6", OLD_TOKENIZER),
        ("us.anthropic.claude-opus-4-7-v1:0", NEW_TOKENIZER),
        ("claude-haiku-5-5", NEW_TOKENIZER),
        ("claude-something-9", NEW_TOKENIZER),
        ("qwen3-coder", OTHER_TOKENIZER),
    ],
)
def test_the_first_factor_is_that_of_the_models_tokenizer(
    model: str, factor: float
) -> None:
    assert factor_for(model) == factor
