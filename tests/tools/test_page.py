from hypothesis import given, strategies as st

from tools.page import Line, Page, numbered

CHUNKS = st.lists(st.text("ab\n\r", max_size=12).map(str.encode), max_size=8)


def page_of(
    chunks: list[bytes], offset: int = 1, limit: int = 99, **sizes: int
) -> Page:
    page = Page(
        offset,
        limit,
        max_bytes=sizes.get("max_bytes", 9999),
        max_line_bytes=sizes.get("max_line_bytes", 999),
    )
    for chunk in chunks:
        page.feed(chunk)
    page.finish()
    return page


def lines_of(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


@given(CHUNKS, st.integers(1, 12), st.integers(1, 12))
def test_a_page_is_the_slice_however_the_chunks_lie(
    chunks: list[bytes], offset: int, limit: int
) -> None:
    page = page_of(chunks, offset, limit)

    lines = lines_of(b"".join(chunks))
    wanted = lines[offset - 1 : offset - 1 + limit]
    assert [line.text for line in page.lines] == wanted
    assert [line.number for line in page.lines] == list(
        range(offset, offset + len(wanted))
    )
    assert page.total == len(lines)


@given(CHUNKS, st.integers(1, 30), st.integers(0, 5))
def test_a_page_holds_no_more_than_it_may(
    chunks: list[bytes], max_bytes: int, max_line_bytes: int
) -> None:
    page = page_of(chunks, max_bytes=max_bytes, max_line_bytes=max_line_bytes)

    lines = lines_of(b"".join(chunks))
    assert sum(len(line.text) for line in page.lines) <= max_bytes
    assert [line.size for line in page.lines] == [
        len(line) for line in lines[: len(page.lines)]
    ]
    assert all(
        line.text == lines[line.number - 1][:max_line_bytes]
        for line in page.lines
        if max_line_bytes <= max_bytes
    )
    assert page.total == len(lines)


def test_a_page_ends_before_the_line_that_does_not_fit() -> None:
    page = page_of([b"one\ntwo\nthree\n"], max_bytes=24)

    assert page.lines == [Line(1, b"one", 3), Line(2, b"two", 3)]
    assert (page.is_full, page.total) == (True, 3)


def test_lines_are_numbered_and_clipped_between_characters() -> None:
    lines = [Line(9, b"ab\r", 3), Line(10, "xäö".encode()[:4], 100)]

    text, notes = numbered(lines)

    assert text == "     9\tab\n    10\txä [… line clipped, it has 100 bytes]\n"
    assert notes == ""


def test_what_was_made_visible_is_noted_once() -> None:
    lines = [Line(1, b"a\0\rb", 4), Line(2, b"\xff\0", 2), Line(3, b"\xfe", 1)]

    text, notes = numbered(lines)

    assert text == "     1\ta␀␍b\n     2\t\ufffd␀\n     3\t\ufffd\n"
    assert notes == (
        "control characters shown as ␀-like pictures; "
        "bytes that are no UTF-8 are shown as \ufffd"
    )
