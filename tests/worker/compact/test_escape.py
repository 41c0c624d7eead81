"""Text between tags cannot end them."""

import re

import pytest
from hypothesis import given, strategies as st

from worker.compact.escape import TAGS, escape, unescape


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize(
    "form", ["<{}>", "</{}>", "< / {} >", "<{} a='b'>", "<{}\n>", "<{}/>", "<{}"]
)
def test_what_looks_like_a_boundary_is_escaped(tag: str, form: str) -> None:
    for name in (tag, tag.upper()):
        text = form.format(name)

        assert escape(f"x {text} y") == f"x &lt;{text[1:]} y"


def test_other_tags_stay() -> None:
    text = "<div> a<b </p> <records> <system_prompt> Vec<Summary2> 1 < 2"

    assert escape(text) == text


text = st.lists(st.sampled_from(["<", "/", " ", ">", "record", "System", "x"])).map(
    "".join
)


@given(text)
def test_escaping_twice_is_escaping_once_and_can_be_undone(some: str) -> None:
    assert escape(escape(some)) == escape(some)
    assert unescape(escape(some)) == some


@given(text)
def test_no_boundary_is_left(some: str) -> None:
    assert not re.search(r"<\s*/?\s*(record|system)\s*/?>", escape(some), re.IGNORECASE)


def test_many_blanks_behind_a_bracket_take_no_time() -> None:
    assert escape("<" + " " * 200_000) == "<" + " " * 200_000
