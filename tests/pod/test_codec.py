import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from pod.codec import BadLine, decode, decode_header, encode, rewrite
from pod.entries import (
    REFERENCES,
    Entry,
    InputEntry,
    ItemEntry,
    Known,
    Leaf,
    Notice,
    RunEnd,
    Unknown,
    UsageEntry,
)
from pod.errors import NewerFormat
from tests.pod.logs import AT, HEADER, chain
from worker.items import Reasoning, ToolResult, UserText
from worker.usage import Usage

UNKNOWN = (
    b'{"type":"hologram","seq":3,"id":"h","parent":"e2","at":"now",'
    b'"points": [1, 2],  "caf\\u00e9":null}'
)
texts = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=100, deadline=None)
@given(text=texts, other=texts)
def test_any_text_comes_back_from_one_ascii_line(text: str, other: str) -> None:
    entries = chain(
        ItemEntry(item=UserText(text)),
        ItemEntry(item=Reasoning(text=text, response="r", model="m", signature=other)),
        ItemEntry(item=ToolResult("c", text, content=other, referenced_files=(text,))),
        Leaf(target=text),
        RunEnd(outcome="limit", reason=text, exit_code=3, usage=Usage(input=1)),
    )

    lines = [encode(entry) for entry in entries]

    assert [decode(line) for line in lines] == entries
    assert all(line.isascii() for line in lines)
    assert all(line.find(b"\n") == len(line) - 1 for line in lines)


def test_type_and_seq_come_first() -> None:
    [entry] = chain(Notice(message="é 😀 \u2028"))

    assert encode(entry) == (
        b'{"type":"notice","seq":1,"id":"e1","at":"2026-11-30T05:00:00.000Z",'
        b'"message":"\\u00e9 \\ud83d\\ude00 \\u2028"}\n'
    )


def test_text_that_cannot_be_read_back_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        encode(Notice(seq=1, id="a", at="now", message="\ud800"))


def test_a_header_comes_back() -> None:
    assert decode_header(encode(HEADER)) == HEADER


def test_a_newer_format_is_refused_with_both_versions() -> None:
    line = b'{"type":"session","format":2,"shape":"new"}\n'

    with pytest.raises(NewerFormat, match="format 2, this Pod knows up to 1"):
        decode_header(line)


@pytest.mark.parametrize(
    "line", [b"", b"\0\0", b"[]", b'{"type":"notice"}', b'{"format":1}', b"\xff"]
)
def test_what_is_no_header_is_called_so(line: bytes) -> None:
    with pytest.raises(BadLine, match="no session header"):
        decode_header(line)


def test_an_unknown_kind_is_kept_to_the_byte() -> None:
    entry = decode(UNKNOWN + b"\r")

    assert entry == Unknown(
        seq=3,
        id="h",
        parent="e2",
        at="now",
        type="hologram",
        json=UNKNOWN.decode(),
    )
    assert encode(entry) == UNKNOWN + b"\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"type":"notice","seq":1,"id":"a","at":"b"}', "missing required"),
        (b'{"type":"notice","id":"a","at":"b","message":""}', "without seq"),
        (b'{"type":"notice","seq":1,"at":"b","message":""}', "without seq"),
        (b'{"type":"hologram","id":"a","at":"b"}', "missing required field `seq`"),
        (b'{"type":"notice","seq":1,"id":"a","at":"b","message":""}{}', "trailing"),
        (b'{"type":"notice","seq":1,"id":"a","at":"b","message":"\xff"}', "UTF-8"),
        (b'{"type":"zz","seq":1,"id":"a","at":"b","x":"\xff"}', "UTF-8"),
        (b'{"type":"notice","seq":1,"id":"a","a', "truncated"),
        (b'{"type":"session","format":1}', "second session header"),
        (b'{"type":"notice","seq":1,"id":"a","at":"b","message":"","\xff":1}', "UTF-8"),
        (b"\0\0\0", "NUL bytes"),
        (b'\0{"type":"notice"}', "NUL bytes in a line"),
        (b'{"type":"zz","x":' + b"[" * 99999 + b"]" * 99999 + b"}", "nested too deep"),
    ],
)
def test_a_broken_line_says_what_is_wrong(line: bytes, why: str) -> None:
    with pytest.raises(BadLine, match=why):
        decode(line)


def test_rewriting_maps_references_and_keeps_fields_of_later_versions() -> None:
    line = (
        b'{"type":"delivered","seq":4,"id":"d","parent":"c","at":"now","run":"r",'
        b'"inputs":["i","j"],"later":{"c": [1.50]},"note":"c"}'
    )

    new = rewrite(line, {"d": "D", "c": "C", "j": "J"}, seq=2)

    assert new == (
        b'{"type":"delivered","seq":2,"id":"D","parent":"C","at":"now","run":"r",'
        b'"inputs":["i","J"],"later":{"c": [1.50]},"note":"c"}\n'
    )


def test_rewriting_an_unknown_kind_maps_whatever_is_an_id() -> None:
    line = b'{"type":"zz","seq":4,"id":"d","at":"now","first_kept":"c","text":"c d"}'

    new = rewrite(line, {"d": "D", "c": "C"}, parent="C")

    assert new == (
        b'{"type":"zz","seq":4,"id":"D","at":"now","first_kept":"C","text":"c d",'
        b'"parent":"C"}\n'
    )


def test_every_field_that_refers_is_listed() -> None:
    """A new id field of an entry must be in REFERENCES, or a fork loses it."""
    plain = {
        *("id", "at", "text", "response", "model", "json", "stop_reason", "name"),
        *("request_id", "reason", "message", "label", "call_id", "previous"),
        *("system", "kind", "compaction_id", "summary", "short_summary"),
        *("preserve_data", "opened_at", "fingerprint"),
        "attempts",
        "tier",
        "tool",
        "rule",
        *("texts", "returned"),
    }

    texts = {
        field.name for kind in _kinds() for field in kind.fields if _is_text(field)
    }

    assert texts - plain == set(REFERENCES)


def _kinds() -> list[msgspec.inspect.StructType]:
    union = msgspec.inspect.type_info(Known)
    assert isinstance(union, msgspec.inspect.UnionType)
    return [
        kind for kind in union.types if isinstance(kind, msgspec.inspect.StructType)
    ]


def _is_text(field: msgspec.inspect.Field) -> bool:
    kind = field.type
    if isinstance(kind, msgspec.inspect.VarTupleType):
        kind = kind.item_type
    kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    return any(isinstance(each, msgspec.inspect.StrType) for each in kinds)


def test_an_entry_without_its_extras_is_small() -> None:
    entry: Entry = InputEntry(seq=1, id="a", at=AT, input="i", text="hi")
    usage = UsageEntry(
        seq=1,
        id="a",
        at=AT,
        response="r",
        model="m",
        stop_reason="end_turn",
        usage=None,
        context_tokens=None,
    )

    assert len(msgspec.json.encode(entry)) < 100
    assert len(encode(usage)) < 170
