import time

import pytest
from hypothesis import example, given, strategies as st

from tests.corpus import corpus
from tools.text import Cleaned, binary_kind, clean, counted, decode, is_binary, one_line

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("\ufeffäöü".encode(), "äöü"),
        ("äöü 漢字".encode("utf-16"), "äöü 漢字"),
        (b"\xfe\xff" + "äöü".encode("utf-16-be"), "äöü"),
        ("äöü".encode("utf-32"), "äöü"),
        (b"\x00\x00\xfe\xff" + "äöü".encode("utf-32-be"), "äöü"),
        (b"good \xff\xfe bad", "good \ufffd\ufffd bad"),
        (b"cut off \xe6\xbc", "cut off \ufffd"),
        (b"\xff\xfea", "\ufffd"),
        (b"", ""),
    ],
)
def test_bytes_are_decoded_by_their_mark_or_as_utf_8(data: bytes, text: str) -> None:
    assert decode(data) == text


@given(st.binary())
def test_any_bytes_become_text_that_can_be_sent(data: bytes) -> None:
    text = clean(decode(data)).text

    assert decode(text.encode()) == text.removeprefix("\ufeff")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain\n\ttext ü 漢 😀", Cleaned("plain\n\ttext ü 漢 😀")),
        ("one\r\ntwo\rthree\r", Cleaned("one\ntwo\nthree\n")),
        (
            "a\0b\x07\x7f",
            Cleaned("a␀b␇␡", "control characters shown as ␀-like pictures"),
        ),
        ("a\ud800b", Cleaned("a\ufffdb", "invalid characters replaced by \ufffd")),
        ("\x9b31m", Cleaned("\ufffd31m", "invalid characters replaced by \ufffd")),
        ("\x1b[1;31mred\x1b[0m", Cleaned("red", "escape sequences taken out")),
        ("\x1b]0;title\x07x", Cleaned("x", "escape sequences taken out")),
        (
            "\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\",
            Cleaned("link", "escape sequences taken out"),
        ),
        ("\x1b(B\x1b=\x1b7x", Cleaned("x", "escape sequences taken out")),
        (
            "\x1b]unended and all that follows",
            Cleaned(
                "␛]unended and all that follows",
                "control characters shown as ␀-like pictures",
            ),
        ),
        (
            "\x1b",
            Cleaned("␛", "control characters shown as ␀-like pictures"),
        ),
    ],
)
def test_text_is_cleaned_and_says_what_was_changed(text: str, cleaned: Cleaned) -> None:
    assert clean(text) == cleaned


@given(ANY_TEXT)
@example("\x1b\x1b[m[31m")
def test_clean_text_can_be_encoded_and_holds_no_controls(text: str) -> None:
    cleaned = clean(text).text

    cleaned.encode()
    assert not [
        c for c in cleaned if (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0"
    ]


@given(ANY_TEXT)
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = clean(text).text

    assert clean(once) == Cleaned(once)


@given(st.text(st.characters(exclude_categories=("Cc", "Cs"))))
def test_printable_text_is_left_alone(text: str) -> None:
    assert clean(text) == Cleaned(text)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "\0",
        "\x1b",
        "\x1b[",
        "\x1b]",
        "\x1b]" + "a" * 5000,
        "\x1b[1",
        "\ud800",
        "\x85",
    ],
    ids=ascii,
)
def test_ten_megabytes_in_one_line_are_cleaned_in_no_time(text: str) -> None:
    text = text * (10_000_000 // len(text))
    start = time.process_time()

    clean(text)

    # About 0.3 s at worst; anything quadratic would take hours.
    assert time.process_time() - start < 8


@pytest.mark.parametrize(
    ("data", "binary"),
    [
        (b"", False),
        (b"text\n", False),
        ("äöü漢字".encode(), False),
        ("äöü".encode("latin-1"), False),
        ("text".encode("utf-16"), False),
        (b"\x1b[31mred\x1b[0m\r\n", False),
        (b"a\0b", True),
        (b"\x7fELF\x02", True),
        (b"%PDF-1.7\n", True),
        (b"\x1f\x8b\x08\x08", True),
        (b"\x01\x02\x03\x04abc", True),
        (b"x" * 8192 + b"\0", False),
    ],
)
def test_binary_data_is_told_from_text(data: bytes, binary: bool) -> None:
    assert is_binary(data) is binary


def test_a_binary_file_is_named_by_its_first_bytes() -> None:
    found = [
        binary_kind(data)
        for data in (b"%PDF-1", b"RIFF\0\0\0\0WEBPVP8 ", b"\x89PNG\r\n\x1a\n", b"zzz")
    ]

    assert found == ["PDF", "WebP image", "PNG image", "binary"]


def test_a_name_is_shown_in_one_line() -> None:
    assert one_line("a\nb\tc\0\udcff\x1b[2J") == "a␊b␉c␀\ufffd"


def test_nul_and_binary_tool_output_of_the_corpus_becomes_clean_text() -> None:
    data = corpus("cases/inputs/14-nul-and-binary.bin").read_bytes()

    cleaned = clean(decode(data))

    assert "\0" not in cleaned.text
    assert cleaned.notes


def test_utf_16_of_the_corpus_is_decoded() -> None:
    data = corpus("cases/inputs/14-utf16.txt").read_bytes()

    text = decode(data)

    assert text == data.decode("utf-16")
    assert clean(text).text.isprintable() or "\n" in text


def test_a_count_of_one_takes_no_s() -> None:
    assert [counted(number, "call") for number in (0, 1, 2, 1_000)] == [
        "0 calls",
        "1 call",
        "2 calls",
        "1,000 calls",
    ]
