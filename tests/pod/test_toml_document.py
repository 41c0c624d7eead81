import codecs

import pytest
from hypothesis import given, strategies as st

from pod.toml_document import Document, TomlError, decoded, parse_bytes
from pod.toml_positions import Position


def refusal(raw: bytes) -> tuple[str, Position]:
    with pytest.raises(TomlError) as caught:
        parse_bytes(raw)
    return str(caught.value), caught.value.position


def test_values_come_with_their_positions() -> None:
    assert parse_bytes(b"[a]\r\nb = 1\r\n") == Document(
        {"a": {"b": 1}}, {("a",): Position(1, 2), ("a", "b"): Position(2, 1)}
    )


def test_an_empty_file_is_an_empty_document() -> None:
    assert parse_bytes(b"") == parse_bytes(codecs.BOM_UTF8) == Document({}, {})


def test_one_mark_at_the_start_is_ignored_and_moves_no_column() -> None:
    assert parse_bytes(codecs.BOM_UTF8 + b"a = 1").positions == {("a",): Position(1, 1)}


def test_a_mark_inside_a_value_is_data() -> None:
    assert decoded("\ufeffa = '\ufeff'".encode()) == "a = '\ufeff'"


def test_a_second_mark_is_refused_by_its_name() -> None:
    assert refusal(codecs.BOM_UTF8 * 2 + b"a = 1") == (
        "not TOML: Invalid statement (U+FEFF)",
        Position(1, 1),
    )


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-16", "the file is UTF-16: save it as UTF-8"),
        ("utf-32", "the file is UTF-32: save it as UTF-8"),
        ("utf-16-le", "the file looks like UTF-16, or is no text: save it as UTF-8"),
        ("utf-16-be", "the file looks like UTF-16, or is no text: save it as UTF-8"),
    ],
)
def test_other_unicode_encodings_are_named(encoding: str, text: str) -> None:
    assert refusal("name = 'x'".encode(encoding)) == (text, Position(1, 1))


def test_bytes_that_are_no_utf_8_are_pointed_at() -> None:
    assert refusal(codecs.BOM_UTF8 + "ü = 1\nprix = 'é'".encode("cp1252")) == (
        "byte 0xfc is no UTF-8: save the file as UTF-8",
        Position(1, 1),
    )
    assert refusal("a = 'ü'\nb = 'ü".encode() + b"\xe9'") == (
        "byte 0xe9 is no UTF-8: save the file as UTF-8",
        Position(2, 7),
    )


def test_a_lone_carriage_return_is_named() -> None:
    assert refusal(b"a = 1\r\nb = 2\rc = 3") == (
        "a carriage return alone ends no line: save with LF or CRLF line ends",
        Position(2, 6),
    )


def test_a_repeated_key_is_named_with_its_first_line() -> None:
    assert refusal(b"[model]\nid = 'a'\n\nid = 'b'\n") == (
        "[model] id is set already, on line 2",
        Position(4, 1),
    )


def test_a_repeated_table_is_named_with_its_first_line() -> None:
    assert refusal(b"[model]\n[tools]\n[model]\n") == (
        "[model] is set already, on line 1",
        Position(3, 1),
    )


def test_a_key_repeated_in_an_inline_table_is_pointed_at() -> None:
    assert refusal(b"a = {b = 1, b = 2}") == (
        "not TOML: Duplicate inline table key 'b'",
        Position(1, 18),
    )


def test_nesting_too_deep_is_no_crash() -> None:
    text, _ = refusal(b"a = " + b"[" * 5000)

    assert text == "arrays or tables are nested too deep"


def test_a_number_of_thousands_of_digits_is_no_crash() -> None:
    assert refusal(b"a = 1\nb = " + b"9" * 5000) == (
        "a number is too long",
        Position(2, 5),
    )


def accepts(raw: bytes) -> bool:
    """Whether *raw* is read; a refusal is one line that points into it."""
    try:
        parse_bytes(raw)
    except TomlError as error:
        lines, line = str(error).splitlines(), error.position.line
    else:
        return True
    assert len(lines) == 1
    assert 1 <= line <= raw.count(b"\n") + 1
    return False


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_read_or_refused_in_one_line(raw: bytes) -> None:
    accepts(raw)


@given(st.text(alphabet="ab=.[]{}\"'#,\\\r\n 1-:Té\0\u2028", max_size=40))
def test_text_that_is_nearly_toml_is_read_or_refused_in_one_line(text: str) -> None:
    accepts(text.encode())
