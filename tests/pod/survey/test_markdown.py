"""Text from files is shown and does nothing else."""

import pytest
from hypothesis import given, strategies as st

from pod.survey.markdown import code, escaped, plain, unescaped


@given(st.text())
def test_an_escaped_text_can_be_had_back(text: str) -> None:
    shown = escaped(text)

    assert unescaped(shown) == text
    assert shown.isprintable()
    assert "`" not in shown


@given(st.text())
def test_running_text_stays_in_its_line(text: str) -> None:
    shown = plain(text)

    assert shown.isprintable()
    assert "`" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("snake_case stays, a -> b, x|y too", "snake_case stays, a -> b, x|y too"),
        ("*bold* and _italic_", r"\*bold\* and \_italic\_"),
        ("<script>", r"\<script>"),
        ("see [this](there), not [that]", r"see \[this](there), not [that]"),
        ("# no heading", r"\# no heading"),
        ("`code`", "code"),
        ("two\nlines\u2028more", "two lines more"),
        ("&lt; & &#60;", r"\&lt; & \&#60;"),
        (r"a\b", r"a\\b"),
    ],
)
def test_only_what_would_act_is_escaped(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_code_is_one_line_without_its_own_sign() -> None:
    assert code("a`b\nc") == r"`a\x60b\x0ac`"
