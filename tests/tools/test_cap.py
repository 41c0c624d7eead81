from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tests.corpus import corpus
from tools.cap import Capped, cap, fits


def of_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def of_words(text: str) -> int:
    return len(text.split())


def of_dense_digits(text: str) -> int:
    """Count a digit as one token, and anything else as a ninth."""
    digits = sum(char.isdigit() for char in text)
    return digits + (len(text) - digits) // 9


def never(text: str) -> int:
    raise AssertionError("bytes already settle it")


COUNTS = st.sampled_from([of_bytes, of_words, of_dense_digits])
TEXTS = st.builds(
    lambda parts, times: "".join(parts) * times,
    st.lists(
        st.text(max_size=30) | st.sampled_from(["\n", "0" * 40, "漢" * 20, "x" * 99]),
        max_size=8,
    ),
    st.integers(1, 60),
)


@given(TEXTS, st.integers(0, 3000), st.integers(0, 600), COUNTS)
def test_the_result_is_within_both_limits(
    text: str, max_bytes: int, max_tokens: int, count: Callable[[str], int]
) -> None:
    capped = cap(
        text, max_bytes=max_bytes, max_tokens=max_tokens, count=count, where="/s/a.txt"
    )

    assert of_bytes(capped.text) <= max_bytes
    assert count(capped.text) <= max_tokens
    assert (capped.left_out_bytes == 0) is (capped.text == text)


@given(TEXTS, st.integers(200, 3000), st.integers(200, 600), COUNTS)
def test_the_beginning_and_the_end_are_kept_as_they_were(
    text: str, max_bytes: int, max_tokens: int, count: Callable[[str], int]
) -> None:
    capped = cap(
        text, max_bytes=max_bytes, max_tokens=max_tokens, count=count, where="/s/a.txt"
    )

    if capped.left_out_bytes:
        head, rest = capped.text.split("[… ", 1)
        tail = rest.split(" …]\n", 1)[1]
        assert text.startswith(head.removesuffix("\n"))
        assert text.endswith(tail)
        size = of_bytes(head) + of_bytes(tail) + capped.left_out_bytes
        assert size - of_bytes(text) in (0, 1)  # 1: the line break before the middle


def test_a_text_that_fits_is_handed_back_without_counting() -> None:
    capped = cap("abc\n", max_bytes=10, max_tokens=10, count=never, where="")

    assert capped == Capped("abc\n")


def test_a_text_over_the_bytes_is_not_counted_where_its_size_settles_the_tokens() -> (
    None
):
    capped = cap("x" * 1000, max_bytes=300, max_tokens=300, count=never, where="")

    assert capped.left_out_bytes > 0


def test_only_what_may_stay_is_ever_counted() -> None:
    seen = []

    def count(text: str) -> int:
        seen.append(len(text))
        return len(text) // 3

    cap("word " * 1_000_000, max_bytes=6000, max_tokens=1500, count=count, where="")

    assert seen
    assert max(seen) <= 6000
    assert len(seen) <= 4


def test_cuts_lie_between_short_lines() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 1001))

    capped = cap(text, max_bytes=200, max_tokens=200, count=never, where="/s/call.txt")

    assert capped.text == (
        "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\n"
        "[… 986 lines, 8782 bytes left out; the full text is in /s/call.txt …]\n"
        "line 995\nline 996\nline 997\nline 998\nline 999\nline 1000\n"
    )


def test_a_giant_line_is_cut_inside() -> None:
    text = "a" * 500_000 + "z" * 500_000

    capped = cap(text, max_bytes=200, max_tokens=200, count=never, where="/s/a.txt")

    assert capped.text == (
        "a" * 68
        + "\n[… 999864 bytes left out; the full text is in /s/a.txt …]\n"
        + "z" * 68
    )


def test_most_of_the_room_is_used_when_tokens_decide() -> None:
    text = "0123456789\n" * 50_000 + "some words at the end\n" * 50_000

    capped = cap(
        text, max_bytes=60_000, max_tokens=16_000, count=of_dense_digits, where=""
    )

    assert 12_000 < of_dense_digits(capped.text) <= 16_000


@pytest.mark.parametrize(("size", "expected"), [(0, ""), (3, "abc"), (7, "abc漢")])
def test_a_limit_too_small_for_the_words_in_the_middle_still_holds(
    size: int, expected: str
) -> None:
    capped = cap(
        "abc漢字" * 50, max_bytes=size, max_tokens=99, count=never, where="/s/a"
    )

    assert capped == Capped(expected, 50 * 9 - len(expected.encode()))


def test_fits_says_what_cap_would_leave_alone() -> None:
    found = [
        fits(text, max_bytes=10, max_tokens=4, count=of_words)
        for text in ("abc", "one two", "1 2 3 4 5", "ä" * 6)
    ]

    assert found == [True, True, False, False]


def test_the_giant_line_of_the_corpus_comes_within_the_limits() -> None:
    text = corpus("cases/inputs/18-one-line.txt").read_text("utf-8")

    capped = cap(text, max_bytes=2000, max_tokens=400, count=of_words, where="/s/a")

    assert of_bytes(capped.text) <= 2000
    assert of_words(capped.text) <= 400
