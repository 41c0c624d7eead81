import errno
import stat
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import replace

from pod.codec import encode
from pod.entries import (
    AnyEntry,
    BranchSummary,
    ItemEntry,
    Label,
    Leaf,
    Notice,
    Prune,
)
from pod.errors import DiskFull, NotASession, SessionLocked
from pod.log import SessionLog, read_log
from pod.mend import Mend
from pod.repair import Repaired, repair
from pod.scan import read, scan
from pod.session import Session
from pod.tree import Tree
from pod.view import problems_of_path
from tests.pod.compaction.histories import SUMMARY
from tests.pod.faults import FaultyDisk, always
from tests.pod.logs import AT, HEADER, chain, random_tree, said, talk, written
from tests.pod.test_scan import translated


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s1.jsonl"


def mended(path: Path, data: bytes) -> Repaired:
    path.write_bytes(data)
    return repair(path, at=AT, id="fix")


def test_a_whole_log_is_left_alone(path: Path) -> None:
    found = mended(path, written(talk(3)))

    assert found == Repaired(path, None, ())
    assert path.read_bytes() == written(talk(3))
    assert [each.name for each in path.parent.iterdir()] == ["s1.jsonl"]


def test_lost_entries_are_told_and_their_children_hang_from_the_one_before(
    path: Path,
) -> None:
    one, _, three, four, five = talk(5)
    data = (
        written([one]) + b"\0" * 99 + b"\n" + written([three, four]).split(b"\n", 1)[1]
    )
    data += encode(replace(five, parent="e2"))

    found = mended(path, data)

    assert found.report == (
        f"Line 3, byte {len(written([one]))}: 99 bytes are lost (NUL bytes).",
        "Line 4: an entry before it is missing (seq 2).",
        "Line 4: its parent e2 is not before it; e1 takes its place.",
    )
    assert found.damaged == path.with_name("s1.jsonl.damaged")
    assert found.damaged.read_bytes() == data
    assert read_log(path).entries == [
        one,
        replace(three, seq=2, parent="e1"),
        replace(four, seq=3),
        replace(five, seq=4, parent="e1"),
        Notice(
            seq=5,
            id="fix",
            parent="e5",
            at=AT,
            message="The log was repaired. " + " ".join(found.report),
        ),
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_entries_on_a_broken_line_are_recovered(path: Path) -> None:
    head, (one, two, three, four) = encode(HEADER), map(encode, talk(4))
    data = head + one.rstrip() + two + b'{"type":"item","seq":3,"at' + three
    data += b"\0" * 300 + four

    found = mended(path, data)

    assert read_log(path).entries[:4] == talk(4)
    assert len(found.report) == 3
    assert "another entry before it on its line" in found.report[0]
    assert "Line 3" in found.report[1]
    assert "300 bytes are lost" in found.report[2]


def test_lines_that_fit_are_copied_to_the_byte(path: Path) -> None:
    odd = b'{"id":"e1","seq":1,"at":"x","type":"later","more":[1.50]}\n'
    known = encode(replace(talk(2)[1], seq=9))[:-2] + b',"later":{"a": 1.0}}\n'

    mended(path, encode(HEADER) + odd + known)

    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[1] == odd
    assert lines[2] == known.replace(b'"seq":9', b'"seq":2')


def test_an_entry_written_twice_is_kept_once_and_a_second_of_its_id_renamed(
    path: Path,
) -> None:
    one, two, three = talk(3)
    other = replace(said("other"), seq=3, id="e2", parent="e1", at=AT)

    found = mended(path, written([one, two, two, other, replace(three, seq=4)]))

    entries = read_log(path).entries
    assert [(e.id, e.parent) for e in entries] == [
        ("e1", None),
        ("e2", "e1"),
        ("e2-2", "e1"),
        ("e3", "e2-2"),
        ("fix", "e3"),
    ]
    assert found.report[0] == "Line 4: entry e2 again; left out."


def test_who_refers_to_a_renamed_entry_still_does(path: Path) -> None:
    one, two, _ = talk(3)
    other = replace(said("other"), seq=3, id="e2", parent="e1", at=AT)
    summary = replace(
        SUMMARY,
        seq=4,
        id="e4",
        parent="e2",
        at=AT,
        first_kept="e2",
        compacted_from="e2",
    )
    branch = BranchSummary(
        seq=5, id="e5", parent="e4", at=AT, from_id="e2", summary="s"
    )

    mended(path, written([one, two, other, summary, branch]))

    entries = read_log(path).entries
    assert entries[3:5] == [
        replace(summary, parent="e2-2", first_kept="e2-2", compacted_from="e2-2"),
        replace(branch, from_id="e2-2"),
    ]
    assert problems_of_path(Tree(entries).path("e5")) == []


def test_the_second_of_an_id_that_names_its_own_id_means_the_first(path: Path) -> None:
    one, two, _ = talk(3)
    itself = Prune(
        seq=3, id="e2", parent="e2", at=AT, entries=("e2",), tokens=(9,), saved=9
    )
    back = Leaf(seq=4, id="e2", parent="e2", at=AT, target="e2")

    mended(path, written([one, two, itself, back]))

    first, second, *renamed = read_log(path).entries[:4]
    assert [first, second] == [one, two]
    assert renamed == [
        replace(itself, id="e2-2"),
        replace(back, id="e2-3", parent="e2-2", target="e2-2"),
    ]


_any_id = st.sampled_from(["a", "b", "c", "a-2", "a0"])
_any_entry = st.builds(
    lambda at, id, parent, to, kind: replace(
        [
            said("x"),
            Leaf(target=to),
            Label(target=to or "a", label="l"),
            Prune(entries=(to or "a",), tokens=(1,), saved=1),
            BranchSummary(from_id=to or "a", summary="s"),
        ][kind],
        seq=at,
        id=id,
        parent=parent,
        at=AT,
    ),
    st.integers(1, 6),
    _any_id,
    _any_id | st.none(),
    _any_id | st.none(),
    st.integers(0, 4),
)


@given(st.lists(_any_entry, min_size=1, max_size=7))
def test_whatever_the_ids_a_mended_log_has_no_damage(entries: list[AnyEntry]) -> None:
    mend = Mend("s")
    lines = list(mend.lines(read([written(entries)])))

    found = scan([*lines, mend.notice(AT, "a")])

    assert (found.damage, found.torn) == ((), None)


def seconds_to_mend(data: bytes) -> float:
    started = time.thread_time()
    for _ in Mend("s1").lines(read([data])):
        pass
    return time.thread_time() - started


@pytest.mark.parametrize("ids", [1, 10_000], ids=["of one id", "each of two"])
def test_a_log_of_repeated_entries_is_mended_in_linear_time(ids: int) -> None:
    def data(size: int) -> bytes:
        return written(
            [
                replace(said(f"m{n}"), seq=n, at=AT, id=f"e{n % min(ids, size // 2)}")
                for n in range(1, size + 1)
            ]
        )

    # 16 times as much; in quadratic time it would take 256 times as long.
    assert seconds_to_mend(data(6_400)) < 80 * seconds_to_mend(data(400))


def test_cycles_and_parents_that_come_later_are_undone(path: Path) -> None:
    one, two, three = talk(3)

    mended(path, written([replace(one, parent="e3"), two, three]))

    tree = Tree(read_log(path).entries)
    assert [e.id for e in tree.path("e3")] == ["e1", "e2", "e3"]


def test_targets_that_are_lost(path: Path) -> None:
    log = chain(said("a"), Leaf(target="zz"), Label(target="yy", label="x"), said("b"))
    log[3] = replace(log[3], parent="zz")

    found = mended(path, written(log))

    entries = read_log(path).entries
    assert [type(e) for e in entries] == [ItemEntry, Leaf, ItemEntry, Notice]
    assert entries[2].parent == "e1"
    assert "Line 4: a label for yy, which is lost." in found.report


def test_a_lost_header_is_replaced_and_told(path: Path) -> None:
    data = written(talk(2))

    found = mended(path, b"\0" * 40 + data[40:])

    assert "system prompt" in " ".join(found.report)
    with Session.open(path) as session:
        assert session.header.system == ""
        assert session.id == "s1"
        assert len(session.items) == 2


def test_a_torn_tail_and_a_missing_line_end_are_mended(path: Path) -> None:
    found = mended(path, written(talk(2)) + b'{"ty')
    [lost] = found.report
    assert lost.startswith(f"Line 4, byte {len(written(talk(2)))}: 4 bytes are lost")
    assert read_log(path).entries[:2] == talk(2)

    mended(path, written(talk(2))[:-1])
    assert read_log(path).entries[:2] == talk(2)


def test_damaged_logs_are_kept_side_by_side(path: Path) -> None:
    one, _, three = talk(3)
    for _ in range(3):
        mended(path, written([one, three]))

    assert sorted(each.name for each in path.parent.iterdir()) == [
        "s1.jsonl",
        "s1.jsonl.damaged",
        "s1.jsonl.damaged-2",
        "s1.jsonl.damaged-3",
    ]


def test_a_log_in_use_is_not_repaired(path: Path) -> None:
    with SessionLog.create(path, HEADER):
        with pytest.raises(SessionLocked):
            repair(path)


def test_a_foreign_file_is_not_repaired(path: Path) -> None:
    with pytest.raises(NotASession):
        mended(path, b"hello\n")

    assert path.read_bytes() == b"hello\n"


@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_repair_that_fails_changes_nothing(path: Path, call: str) -> None:
    one, _, three = talk(3)
    path.write_bytes(written([one, three]))

    with pytest.raises(DiskFull):
        repair(path, disk=FaultyDisk(always(call, errno.ENOSPC)))

    assert path.read_bytes() == written([one, three])
    assert [each.name for each in path.parent.iterdir()] == ["s1.jsonl"]


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 100_000), st.binary(max_size=30))
def test_whatever_happened_a_repaired_log_opens_and_keeps_what_was_whole(
    path: Path, seed: int, junk: bytes
) -> None:
    random = Random(seed)
    entries = random_tree(random, 15)
    lines = written(entries).splitlines(keepends=True)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(1, len(lines))
        line = lines[at]
        cut = random.randint(0, len(line))
        lines[at] = random.choice(
            [b"", line[:cut], line[:cut] + junk + line[cut:], line * 2, lines[-1], junk]
        )
    data = b"".join(lines)
    whole = [e.item for e in scan([data]).entries if isinstance(e, ItemEntry)]

    mended(path, data)

    SessionLog.open(path).log.close()
    kept = [e.item for e in read_log(path).entries if isinstance(e, ItemEntry)]
    assert [item for n, item in enumerate(whole) if item not in whole[:n]] == [
        item for n, item in enumerate(kept) if item not in kept[:n]
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("01-torn-tail-fused.jsonl", ["u1", "a1", "u3", "a3"]),
        ("02-nul-block-mid.jsonl", ["u1", "a1", "u2"]),
        ("02-nul-block-no-newline.jsonl", ["u1", "a1", "u2"]),
        ("06-glued.jsonl", ["u1", "a1", "u2", "a2"]),
    ],
)
def test_reported_logs(path: Path, name: str, expected: list[str]) -> None:
    found = mended(path, translated(name))

    assert found.report
    tree = Tree(read_log(path).entries)
    assert [entry.id for entry in tree.path(tree.leaf)] == expected
    SessionLog.open(path).log.close()
