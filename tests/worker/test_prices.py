from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from worker.prices import is_priced, price_of
from worker.usage import Usage

MILLION = 1_000_000
FIGURE = st.integers(-5, 3_000_000)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(), "0"),
        (Usage(input=MILLION), "3"),
        (Usage(output=MILLION), "15"),
        (Usage(output=MILLION, reasoning=MILLION), "15"),
        (Usage(cache_read=MILLION), "0.3"),
        (Usage(cache_write=MILLION), "3.75"),
        (Usage(cache_write=MILLION, cache_write_1h=MILLION), "6"),
        (Usage(cache_write=2 * MILLION, cache_write_1h=MILLION), "9.75"),
        (Usage(input=MILLION, cache_read=MILLION, cache_write=MILLION), "7.05"),
        (Usage(web_searches=1_000), "10"),
    ],
)
def test_each_kind_of_token_has_its_price(usage: Usage, dollars: str) -> None:
    assert price_of("claude-sonnet-4-0", usage) == Decimal(dollars)


def test_a_large_prompt_is_billed_by_its_tier_cached_tokens_included() -> None:
    small = price_of("claude-haiku-5-5", Usage(input=100_000))
    large = price_of("claude-haiku-5-5", Usage(input=1, cache_read=100_000))

    assert small == Decimal("0.01")
    assert large == Decimal("0.005") + Decimal("0.0000005")


@pytest.mark.parametrize(
    "name",
    [
        "claude-sonnet-4-5-20250929",
        "anthropic/claude-sonnet-4.5",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_a_model_is_priced_under_any_of_its_names(name: str) -> None:
    assert price_of(name, Usage(output=1_000)) == Decimal("0.015")
    assert is_priced(name)


@pytest.mark.parametrize("name", ["", "scripted", "gpt-4o", "qwen3", "claude-next-9"])
def test_an_unknown_model_has_no_price(name: str) -> None:
    assert price_of(name, Usage(input=1)) is None
    assert not is_priced(name)


@given(
    usage=st.builds(
        Usage, FIGURE, FIGURE, FIGURE, FIGURE, FIGURE, FIGURE, st.integers(-1, 5)
    ),
    model=st.sampled_from(["claude-haiku-5-5", "claude-opus-5-5", "claude-2", "?"]),
)
def test_figures_that_make_no_sense_are_no_error(usage: Usage, model: str) -> None:
    price = price_of(model, usage)

    assert price is None if model == "?" else price is not None and price >= 0
