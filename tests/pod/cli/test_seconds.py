"""Times as people write them."""

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from pod.cli.seconds import BadTime, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        (" 90 s ", 90),
        ("1.5m", 90),
        ("2h", 7_200),
        ("0.25", 0.25),
    ],
)
def test_a_time_is_a_number_and_perhaps_a_unit(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "0", "0h", "-5", "soon", "5 min", "1e3", "nan", "inf", "1h30m", "1_000", ".5"],
)
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(BadTime, match="is no time: write seconds"):
        parse_seconds(text)


@given(text=st.text(max_size=20))
def test_no_text_breaks_it(text: str) -> None:
    with suppress(BadTime):
        assert parse_seconds(text) > 0
