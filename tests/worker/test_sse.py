import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.corpus import CORPUS, corpus
from worker.sse import Sse, SseError, SseEvent

STREAMS = sorted((CORPUS / "sse_bodies").glob("*.sse"))


def parsed(pieces: list[bytes]) -> tuple[list[SseEvent], SseEvent | None]:
    sse = Sse()
    events = [event for piece in pieces for event in sse.feed(piece)]
    return events, sse.end()


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted(cut % (len(data) + 1) for cut in cuts)
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_with_lf_crlf_or_cr(end: bytes) -> None:
    data = end.join([b"event: a", b"data: 1", b"", b"data: 2", b"data: 3", b"", b""])

    assert parsed([data]) == ([SseEvent("a", b"1"), SseEvent("message", b"2\n3")], None)


def test_cr_and_lf_of_one_line_end_may_come_apart() -> None:
    events = parsed([b"data: 1\r", b"\ndata: 2\r", b"", b"\n\r", b"\n"])

    assert events == ([SseEvent("message", b"1\n2")], None)


def test_only_lf_and_cr_end_a_line() -> None:
    data = "data: a\x0bb\x0cc\x1cd\x85e\u2028f\n\n".encode()

    assert parsed([data]) == ([SseEvent("message", data[6:-2])], None)


@pytest.mark.parametrize(
    "data",
    [
        b"event:a\ndata:1\n\n",
        b"event: a\ndata: 1\n\n",
        b"\xef\xbb\xbfevent: a\ndata: 1\n\n",
        b": hello\nevent: a\n:\ndata: 1\nid: 7\nretry: 1000\nother: x\n\n: bye\n\n",
        b"\n\n\nevent: b\n\nevent: a\ndata: 1\n\n",
        b"event: b\nevent: a\ndata: 1\n\n",
    ],
    ids=["no-space", "space", "bom", "comments", "blank", "last-name-counts"],
)
def test_these_all_say_the_same(data: bytes) -> None:
    for cut in range(len(data) + 1):
        assert parsed([data[:cut], data[cut:]]) == ([SseEvent("a", b"1")], None)


def test_one_space_after_the_colon_is_dropped_and_no_more() -> None:
    assert parsed([b"data:  x \n\n"]) == ([SseEvent("message", b" x ")], None)


def test_an_empty_data_line_is_data() -> None:
    data = b"data\n\ndata:\ndata:\n\nevent: a\n\n"

    events = [SseEvent("message", b""), SseEvent("message", b"\n")]
    assert parsed([data]) == (events, None)


def test_an_event_without_its_last_blank_line_is_given_apart() -> None:
    whole = [SseEvent("message", b"1")]

    assert parsed([b"data: 1\n\nevent: b\ndata: 2\n"]) == (whole, SseEvent("b", b"2"))
    assert parsed([b"data: 1\n\nevent: b\ndata: 2"]) == (whole, SseEvent("b", b"2"))
    assert parsed([b"data: 1\n\nevent: b\nda"]) == (whole, None)


def test_a_body_that_is_no_event_stream_has_no_fields() -> None:
    for body in [b"", b"\xef\xbb", b"Hello, world!\n", b"<p>\n\n<p>\n\n", b"\n\n"]:
        sse = Sse()

        assert sse.feed(body) == []
        assert sse.end() is None
        assert not sse.has_fields


@pytest.mark.skipif(not STREAMS, reason="no corpus beside the project")
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_partition_gives_the_same_events(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(STREAMS))
    body = path.read_bytes()
    if data.draw(st.booleans()):
        body = body.replace(b"\n", b"\r\n")
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=40))

    assert parsed(pieces(body, cuts)) == parsed([body])


@given(
    body=st.text(alphabet="da:t \r\n\ufeffé", max_size=40).map(str.encode),
    cuts=st.lists(st.integers(0, 100), max_size=8),
)
def test_every_partition_of_any_bytes_gives_the_same_events(
    body: bytes, cuts: list[int]
) -> None:
    assert parsed(pieces(body, cuts)) == parsed([body])


def test_every_recorded_stream_has_the_events_its_index_tells() -> None:
    for entry in json.loads(corpus("sse_bodies/index.json").read_text()):
        path = corpus(entry["file"])

        events, rest = parsed([path.read_bytes()])

        told = events if rest is None else [*events, rest]
        assert Counter(event.event for event in told) == entry["events"], path.name
        assert _kinds(told, "content_block") == entry["blocks"], path.name
        assert _kinds(told, "delta") == entry["deltas"], path.name


def _kinds(events: list[SseEvent], field: str) -> dict[str, int]:
    read = [json.loads(event.data) for event in events]
    parts = [event[field] for event in read if field in event]
    return Counter(part["type"] for part in parts if "type" in part)


@pytest.mark.parametrize("name", ["23-cr.sse", "23-crlf.sse", "23-nospace.sse"])
def test_the_dialects_of_case_23_say_the_same_at_every_cut(name: str) -> None:
    same = parsed([_case("23-multibyte.sse").read_bytes()])
    body = _case(name).read_bytes()

    for cut in range(len(body)):
        assert parsed([body[:cut], body[cut:]]) == same


def _case(name: str) -> Path:
    return corpus(f"cases/inputs/{name}")


def test_a_large_event_costs_what_its_bytes_cost() -> None:
    large = b"x" * 20_000_000
    body = b"data: " + large + b"\n\n"
    chunks = [body[i : i + 65_536] for i in range(0, len(body), 65_536)]

    assert parsed(chunks) == ([SseEvent("message", large)], None)


def test_a_million_single_bytes_take_no_million_copies() -> None:
    body = b"data: " + b"x" * 1_000_000 + b"\n\n"

    events, _ = parsed([body[i : i + 1] for i in range(len(body))])

    assert events == [SseEvent("message", b"x" * 1_000_000)]


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_an_event_beyond_the_limit_is_an_error_and_those_before_are_not_lost(
    chunk: int,
) -> None:
    for too_large in [b"data: " + b"x" * 50, b"data: 12345678\n" * 4]:
        body = b"data: 1\n\ndata: 2\n\n" + too_large
        sse = Sse(limit=40)
        events: list[SseEvent] = []

        with pytest.raises(SseError, match="larger than 40 bytes"):
            feed_all(sse, pieces(body, list(range(0, len(body), chunk))), events)

        assert events == [SseEvent("message", b"1"), SseEvent("message", b"2")]


def feed_all(sse: Sse, chunks: list[bytes], events: list[SseEvent]) -> None:
    for chunk in chunks:
        events += sse.feed(chunk)
    sse.end()


def test_any_number_of_comments_is_within_the_limit() -> None:
    sse = Sse(limit=40)

    events = [event for _ in range(100) for event in sse.feed(b": still here\n")]

    assert events + sse.feed(b"data: 1\n\n") == [SseEvent("message", b"1")]


def test_the_limit_is_for_one_event() -> None:
    sse = Sse(limit=40)

    assert len(sse.feed(b"data: 1234567890\n\n" * 100)) == 100
