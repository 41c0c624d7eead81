import re
import time
import tracemalloc
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from pod.codec import encode
from pod.entries import Label, Leaf, Notice
from pod.errors import NewerFormat
from pod.scan import Damage, lines, scan
from tests.corpus import corpus
from tests.pod.logs import HEADER, chain, random_tree, said, talk, written


def translated(name: str) -> bytes:
    """Return a corpus log in our format, its damage as it is.

    Its messages become entries of a kind that we do not know.
    """
    data = corpus(f"cases/inputs/{name}").read_bytes()
    data = data.replace(b'"type":"session","version":3', b'"type":"session","format":1')
    data = data.replace(b',"cwd":', b',"system":"","cwd":')
    data = data.replace(b'"parentId"', b'"parent"').replace(b'"timestamp"', b'"at"')
    seqs = iter(range(1, 100_000))
    return re.sub(
        rb'\{"type":"(message|compaction)"',
        lambda match: b'%s,"seq":%d' % (match[0], next(seqs)),
        data,
    )


def kinds(data: bytes) -> list[tuple[int, str]]:
    return [(damage.line, damage.kind) for damage in scan([data]).damage]


def test_a_whole_log_is_read_whole() -> None:
    entries = talk(3)
    data = written(entries)

    found = scan([data])

    assert found.header == HEADER
    assert found.entries == entries
    assert found.good_end == len(data)
    assert (found.torn, found.damage, found.ended) == (None, (), True)


def test_an_empty_file_has_no_header() -> None:
    found = scan([])

    assert (found.header, found.entries, found.good_end) == (None, [], 0)


def test_a_newer_log_is_refused() -> None:
    with pytest.raises(NewerFormat):
        scan([b'{"type":"session","format":99,"id":"x"}\n'])


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80), st.integers(1, 9))
def test_lines_end_at_lf_alone_however_the_bytes_come(data: bytes, size: int) -> None:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]

    found = list(lines(pieces))

    assert b"".join(line + b"\n" * ended for _, _, line, ended in found) == data
    assert [n for n, *_ in found] == list(range(1, len(found) + 1))
    assert all(data[at : at + len(line)] == line for _, at, line, _ in found)
    assert not any(b"\n" in line for _, _, line, _ in found)


def test_every_truncation_keeps_all_whole_entries() -> None:
    entries = chain(said("é"), said("two"), Leaf(target="e1"), Notice(message="x"))
    ends = [len(written(entries[:n])) for n in range(len(entries) + 1)]
    data = written(entries)

    for size in range(len(encode(HEADER)), len(data) + 1):
        found = scan([data[:size]])

        # Without its line end the last entry is whole already.
        whole = sum(end - 1 <= size for end in ends[1:])
        assert found.entries == entries[:whole]
        assert found.damage == ()
        if size in ends or size + 1 in ends:
            assert found.torn is None
            assert found.ended == (size in ends)
            assert found.good_end == size
        else:
            assert found.torn == (ends[whole], size - ends[whole])
            assert found.good_end == ends[whole]
            assert found.ended


@pytest.mark.parametrize(
    "tail",
    [
        b"\0" * 1728,
        b"\0" * 10 + b"\n" + b"\0" * 10,
        b'{"type":"item","seq":4,"te',
        b'{"type":"item","seq":4,"te\n',
        b'{"type":"item"}\n\n   \n{"type',
        b'{"a":"\xe2\x80',
        b"   ",
        b"\xff\xfe\n",
    ],
)
def test_what_does_not_parse_at_the_end_is_a_torn_tail(tail: bytes) -> None:
    data = written(talk(3))

    found = scan([data + tail])

    assert found.torn == (len(data), len(tail))
    assert found.good_end == len(data)
    assert found.entries == talk(3)
    assert (found.damage, found.ended) == ((), True)


def test_a_tail_torn_behind_an_entry_on_its_line_leaves_the_entry() -> None:
    data = written(talk(3)).rstrip(b"\n")

    found = scan([data + b"\0\0\0"])

    assert found.entries == talk(3)
    assert found.torn == (len(data), 3)
    assert not found.ended


def test_a_log_stays_readable_with_bom_crlf_and_blank_lines() -> None:
    data = written(talk(2)).replace(b"\n", b"\r\n\r\n  \n")

    found = scan([b"\xef\xbb\xbf\n" + data])

    assert found.header == HEADER
    assert found.entries == talk(2)
    assert found.damage == ()


def test_damage_in_the_middle_is_located() -> None:
    one, two, three, four = map(encode, talk(4))
    head = encode(HEADER)

    found = scan([head + one + b"\0" * 512 + b"\n" + b"{oops\n" + three + four])

    assert found.damage == (
        Damage(3, len(head + one), 518, "unreadable", "NUL bytes"),
        Damage(5, len(head + one) + 519, len(three) - 1, "seq", "seq 3 after 1"),
        Damage(
            5,
            len(head + one) + 519,
            len(three) - 1,
            "parent",
            "its parent e2 is not in the log",
        ),
    )
    assert [entry.id for entry in found.entries] == ["e1", "e3", "e4"]
    assert two


def test_entries_on_a_broken_line_are_read() -> None:
    head, (one, two, three, four) = encode(HEADER), map(encode, talk(4))
    glued = one.rstrip() + two.rstrip() + b"\r\n"
    torn = b'{"type":"item","seq":3,"id":"e3","parent":"e2","at' + three
    nuls = b"\0" * 300 + four

    found = scan([head + glued + torn + nuls])

    assert found.entries == talk(4)
    assert [(damage.line, damage.kind) for damage in found.damage] == [
        (2, "glued"),
        (3, "unreadable"),
        (4, "unreadable"),
    ]
    assert found.torn is None


def test_an_item_inside_an_entry_is_not_taken_for_an_entry() -> None:
    inner = encode(talk(1)[0]).decode().rstrip()
    [entry] = chain(said(f"look: {inner}"))

    found = scan([encode(HEADER) + encode(entry)[:-3] + b"\n" + encode(entry)])

    assert found.entries == [entry]


def test_a_seq_that_jumps_or_steps_back_is_damage() -> None:
    one, two, three = talk(3)
    late = replace(three, seq=7)

    assert kinds(written([one, late])) == [(3, "seq"), (3, "parent")]
    assert kinds(written([one, two, replace(three, seq=2)])) == [(4, "seq")]


def test_an_id_used_twice_is_damage() -> None:
    one, two, three = talk(3)

    assert kinds(written([one, two, replace(three, id="e1")])) == [(4, "repeated")]


def test_parents_that_come_later_and_cycles_are_named() -> None:
    one, two, three = talk(3)
    later = [replace(one, parent="e3"), replace(two, parent=None), three]
    later[2] = replace(three, parent="e2")
    cycle = [replace(one, parent="e3"), two, three]
    self_made = [replace(one, parent="e1")]

    assert [d.reason for d in scan([written(later)]).damage] == [
        "its parent e3 comes later"
    ]
    assert [d.reason for d in scan([written(cycle)]).damage] == [
        "its parent e3 descends from it: a cycle"
    ]
    assert [d.reason for d in scan([written(self_made)]).damage] == [
        "its parent e1 descends from it: a cycle"
    ]


def test_targets_that_are_not_there_are_damage() -> None:
    log = chain(said("a"), Leaf(target="zz"), Label(target="e9", label="x"))

    assert kinds(written(log)) == [(3, "target"), (4, "target")]


def test_a_lost_header_is_damage_and_the_entries_are_read() -> None:
    data = written(talk(2))

    found = scan([b"\0\0" + data[5:]])

    assert found.header is None
    assert found.entries == talk(2)
    assert [d.kind for d in found.damage] == ["header"]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_what_a_session_writes_is_never_damage(seed: int) -> None:
    entries = random_tree(Random(seed), 30)

    found = scan([written(entries)])

    assert found.entries == entries
    assert found.damage == ()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 60), st.binary(max_size=40))
def test_damage_costs_no_entry_that_it_does_not_touch(
    at: int, length: int, junk: bytes
) -> None:
    entries = talk(8)
    data = written(entries)
    at = len(encode(HEADER)) + at % (len(data) - len(encode(HEADER)))
    ends = [len(written(entries[:n])) for n in range(9)]
    whole = [
        entry
        for entry, start, end in zip(entries, ends, ends[1:], strict=False)
        if end - 1 <= at or at + length <= start
    ]

    found = scan([data[:at] + junk + data[at + length :]])

    assert [e for e in found.entries if e in whole] == whole


@pytest.mark.parametrize(
    ("name", "expected", "damaged", "torn"),
    [
        ("01-torn-tail.jsonl", ["u1", "a1"], [], True),
        ("01-torn-tail-fused.jsonl", ["u1", "a1", "u3", "a3"], [4, 4], False),
        ("02-nul-block-mid.jsonl", ["u1", "a1", "u2"], [4], False),
        ("02-nul-block-no-newline.jsonl", ["u1", "a1", "u2"], [4], False),
        ("05-line-separators.jsonl", ["u1", "a1", "u2"], [], False),
        ("06-glued.jsonl", ["u1", "a1", "u2", "a2"], [4], False),
        ("06-crlf-bom-blank.jsonl", ["u1", "a1", "u2"], [], False),
    ],
)
def test_reported_logs(
    name: str, expected: list[str], damaged: list[int], torn: bool
) -> None:
    found = scan([translated(name)])

    assert found.header is not None
    assert [entry.id for entry in found.entries] == expected
    assert [damage.line for damage in found.damage] == damaged
    assert (found.torn is not None) == torn


def test_reported_nul_tail() -> None:
    data = translated("03-nul-tail.jsonl")

    found = scan([data])

    assert [entry.id for entry in found.entries] == ["u1", "a1", "u2"]
    assert found.torn == (len(data) - 1728, 1728)


def test_reported_deep_chain() -> None:
    found = scan([translated("20-deep-3000.jsonl")])

    assert len(found.entries) == 3000
    assert found.damage == ()


def test_a_deep_log_is_read_in_linear_time() -> None:
    data = written(talk(50_000))
    backwards = encode(HEADER) + b"".join(
        encode(entry) for entry in reversed(talk(50_000))
    )

    started = time.process_time()
    found = scan([data])
    upset = scan([backwards])

    assert len(found.entries) == len(upset.entries) == 50_000
    assert len([d for d in upset.damage if d.kind == "order"]) == 49_999
    assert time.process_time() - started < 10


def test_a_large_entry_is_read_from_small_pieces_without_copies_of_it() -> None:
    size = 20_000_000
    [entry] = chain(said("x" * size))
    data = written([entry])

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(data), 4096):
            yield data[at : at + 4096]

    tracemalloc.start()
    found = scan(pieces())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found.entries == [entry]
    assert peak < 4 * size
