"""Lines as a client reads them, from this version and from others."""

import json

import pytest
from hypothesis import given, strategies as st

from pod.entries import Notice
from pod.events import CompactStart, Status
from pod.protocol.reading import (
    BadMessage,
    Fault,
    Response,
    UnknownEvent,
    read,
    read_event,
)

HEAD = '{"v":1,"at":"AT","session":"s","run":null,'


def test_an_event_is_its_struct() -> None:
    line = f'{HEAD}"seq":7,"type":"notice","id":"e","message":"torn"}}'

    assert read(line.encode()) == Notice(seq=7, id="e", at="AT", message="torn")


def test_fields_that_nobody_knows_are_left_out_and_order_means_nothing() -> None:
    line = '{"state":"idle","new":[1,{"a":2}],"type":"status","v":1}'

    assert read(line.encode()) == Status("idle")


@pytest.mark.parametrize("value", ["1e9991", "[" * 500 + "]" * 500])
def test_what_a_field_that_nobody_knows_holds_is_not_looked_at(value: str) -> None:
    line = f'{{"type":"status","new":{value},"state":"idle"}}'

    assert read(line.encode()) == Status("idle")


def test_an_event_that_nobody_knows_is_kept_as_it_came() -> None:
    line = f'{HEAD}"seq":8,"type":"teleport","to":"mars"}}'

    assert read(f"{line}\n".encode()) == UnknownEvent("teleport", line, 8, "AT")


def test_an_event_in_a_shape_that_nobody_knows_is_kept_as_it_came() -> None:
    line = (
        f'{HEAD}"seq":9,"type":"compact_start","compaction_id":"c","reason":"whim",'
        '"mode":"worker","tokens_before":1}'
    )

    found = read_event(line.encode())

    assert found == UnknownEvent("compact_start", line, 9, "AT")
    assert not isinstance(found, CompactStart)


def test_a_response_is_told_from_an_event() -> None:
    good = read(b'{"id":1,"ok":true,"data":{"run":"r"},"more":1}')
    bad = read(
        b'{"id":"a","ok":false,"error":{"code":"from_the_future","message":"m"}}'
    )

    assert isinstance(good, Response)
    assert (good.id, good.ok, bytes(good.data)) == (1, True, b'{"run":"r"}')
    assert isinstance(bad, Response)
    assert bad.error == Fault("from_the_future", "m")


@pytest.mark.parametrize(
    "line",
    [b"", b"hello", b"[]", b"{}", b'{"type":7}', b'{"ok":true,"id":[]}', b"\xff"],
)
def test_what_is_neither_is_a_bad_message(line: bytes) -> None:
    with pytest.raises(BadMessage):
        read(line)


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_a_bad_message(line: bytes) -> None:
    try:
        found = read(line)
    except BadMessage:
        return

    json.loads(line)
    assert found is not None
