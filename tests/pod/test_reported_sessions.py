"""Logs from public bug reports (corpus/cases 01 to 06, 20, 27), as whole sessions."""

import gc
import time
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from pod.branch_summary.content import content_of
from pod.branches import left_behind
from pod.cli.drawing import draw
from pod.cli.sessions import entry_line
from pod.codec import encode
from pod.entries import ItemEntry, Notice, Unknown
from pod.log import read_log
from pod.repair import repair
from pod.session import Session
from pod.store import Store
from pod.tree import Tree
from tests.makers import said, user
from tests.pod.compaction.histories import SUMMARY, path_of
from tests.pod.logs import HEADER, talk, written
from tests.pod.test_scan import translated


@pytest.mark.parametrize(
    ("name", "needs_repair", "whole"),
    [
        ("01-torn-tail.jsonl", False, ["u1", "a1"]),
        ("01-torn-tail-fused.jsonl", True, ["u1", "a1", "u3", "a3"]),
        ("02-nul-block-mid.jsonl", True, ["u1", "a1", "u2"]),
        ("02-nul-block-no-newline.jsonl", True, ["u1", "a1", "u2"]),
        ("03-nul-tail.jsonl", False, ["u1", "a1", "u2"]),
        ("05-line-separators.jsonl", False, ["u1", "a1", "u2"]),
        ("06-crlf-bom-blank.jsonl", False, ["u1", "a1", "u2"]),
        ("06-glued.jsonl", True, ["u1", "a1", "u2", "a2"]),
    ],
)
def test_a_reported_log_opens_and_goes_on_behind_its_last_whole_entry(
    tmp_path: Path, name: str, needs_repair: bool, whole: list[str]
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(translated(name))
    listed = Store(tmp_path).sessions()

    report = repair(path).report if needs_repair else ()
    with Session.open(path) as session:
        session.append(ItemEntry(item=user("on we go")))

    found = read_log(path)
    assert [each.path for each in listed] == [path]
    assert bool(report) == needs_repair
    assert (found.damage, found.torn, found.ended) == ((), None, True)
    entries = [entry for entry in found.entries if not isinstance(entry, Notice)]
    assert [entry.id for entry in entries[:-1]] == whole
    assert isinstance(entries[-1], ItemEntry)
    assert entries[-1].item == user("on we go")
    assert entries[-1].parent == whole[-1]
    is_torn = name in {"01-torn-tail.jsonl", "03-nul-tail.jsonl"}
    assert any(isinstance(e, Notice) for e in found.entries) == (
        is_torn or needs_repair
    ), "who reads the session is told"


class _Part(msgspec.Struct):
    text: str = ""


class _Message(msgspec.Struct):
    content: list[_Part]


class _Line(msgspec.Struct):
    message: _Message


def test_every_mark_but_a_line_feed_is_part_of_the_text(tmp_path: Path) -> None:
    """Case 05: U+2028, U+2029 and U+0085 come back as they were, after a fork too."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(translated("05-line-separators.jsonl"))

    [fork] = [Store(tmp_path).fork(path, "u2")]

    for log in (path, fork):
        texts = [
            part.text
            for entry in read_log(log).entries
            if isinstance(entry, Unknown)
            for part in msgspec.json.decode(entry.json, type=_Line).message.content
        ]
        assert any({"\u2028", "\u2029", "\x85"} <= set(text) for text in texts)


def test_a_session_as_deep_as_it_is_long_is_walked_in_linear_time() -> None:
    """Case 20."""
    tree = Tree(talk(50_000))
    started = time.process_time()

    assert len(tree.path("e50000")) == 50_000
    assert len(left_behind(tree, "e50000", "e1").entries) == 49_999
    assert len(list(draw(tree, entry_line, everything=True))) == 50_000
    assert len(list(draw(tree, entry_line))) == 2
    assert time.process_time() - started < 20


def test_a_deep_session_opens_branches_and_forks(tmp_path: Path) -> None:
    """Case 20: 50,000 entries; nothing recurses."""
    path = tmp_path / "s1.jsonl"
    path.write_bytes(written(talk(50_000)))
    started = time.process_time()

    with Session.open(path, durability="flush") as session:
        assert session.navigate("e40000") == "m40000"
        assert len(session.items) == 39_999
        session.append(ItemEntry(item=user("another way")))
    fork = Store(tmp_path).fork(path, "e30000")

    assert len(read_log(fork).entries) == 30_000
    assert time.process_time() - started < 30


def test_a_branch_of_50_000_messages_is_cut_to_the_budget_without_reading_it_all() -> (
    None
):
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text) // 4

    found = content_of(talk(50_000), budget=1_000, count=count)

    assert found.summarised + found.left_out == 50_000
    assert len(counted) == found.summarised + 1 < 400


def test_a_long_log_of_several_segments_is_whole_and_held_in_bounded_memory(
    tmp_path: Path,
) -> None:
    """Case 27: 18 MB in 8,366 lines, three compactions, one line of 5 MB."""
    parts = [said("x" * 1_500) if n % 2 else user("y" * 1_500) for n in range(8_362)]
    parts[4_000] = user("z" * 5_000_000)
    log = path_of(
        *parts[:3_000],
        SUMMARY,
        *parts[3_000:6_000],
        SUMMARY,
        *parts[6_000:],
        SUMMARY,
        user("last"),
    )
    path = tmp_path / "s1.jsonl"
    with path.open("wb") as file:
        file.write(encode(HEADER))
        file.writelines(map(encode, log))
    size = path.stat().st_size
    del log, parts
    gc.collect()
    tracemalloc.start()

    with Session.open(path, durability="flush") as session:
        peak = tracemalloc.get_traced_memory()[1]
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert len(session.tree) == 8_366
        assert session.items[-1] == user("last")
        assert session.navigate("e4002") == "z" * 5_000_000, "and it is read again"

    assert size > 17_000_000
    assert peak < 3 * size
    assert held < size / 2
