"""Durable events out of a log that is being written to."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from pod.entries import Notice
from pod.events import line
from pod.protocol.replay import BLOCK, LogReader, Replayed, line_near
from tests.pod.protocol.stand_in import opened


def written(folder: Path, sizes: list[int]) -> tuple[Path, list[Replayed]]:
    """Write notices of these sizes; return the log, and the events that are in it."""
    path = folder / "s.jsonl"
    path.unlink(missing_ok=True)
    expected = []
    with opened(path) as session:
        for size in sizes:
            (entry,) = session.append(Notice(message="x" * size))
            text = line(entry, session="s")
            expected.append(Replayed(entry.seq, "notice", text))
    return path, expected


def all_of(path: Path, first: int, last: int, most: int) -> list[Replayed]:
    reader = LogReader(path, "s", first)
    try:
        found: list[Replayed] = []
        while more := reader.read(last, most=most):
            found += more
        return found
    finally:
        reader.close()


@settings(max_examples=30)
@given(st.data())
def test_any_part_of_a_log_is_given_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("log")
    sizes = data.draw(st.lists(st.sampled_from([0, 1, 300, BLOCK]), max_size=12))
    path, expected = written(folder, sizes)
    first = data.draw(st.integers(0, len(sizes) + 1))
    last = data.draw(st.integers(0, len(sizes)))
    most = data.draw(st.sampled_from([1, 500, BLOCK]))

    found = all_of(path, first, last, most)

    assert found == [event for event in expected if max(first, 1) <= event.seq <= last]


def test_a_late_entry_is_found_without_reading_what_is_before_it(
    tmp_path: Path,
) -> None:
    path, expected = written(tmp_path, [BLOCK // 16] * 400)
    size = path.stat().st_size
    each = size // 400

    with path.open("rb") as log:
        found = [line_near(log.fileno(), seq) for seq in range(402)]

    # Never behind it; and before it at most a block and a line.
    assert all(at <= (seq - 1) * each + 999 for seq, at in enumerate(found) if seq)
    assert all(seq * each - at <= BLOCK + 3 * each for seq, at in enumerate(found))
    assert all_of(path, 399, 400, BLOCK) == expected[398:]


def test_what_is_written_meanwhile_is_read_when_its_turn_comes(tmp_path: Path) -> None:
    with opened(tmp_path / "s.jsonl") as session:
        session.append(Notice(message="a"))
        reader = LogReader(tmp_path / "s.jsonl", "s", 1)
        before = [event.seq for event in reader.read(1)]
        session.append(Notice(message="b"), Notice(message="c"))
        none = reader.read(1)
        after = [event.seq for event in reader.read(3)]
        reader.close()

    assert (before, none, after) == ([1], [], [2, 3])


def test_a_kind_that_nobody_knows_is_given_as_it_is(tmp_path: Path) -> None:
    with opened(tmp_path / "s.jsonl") as session:
        session.append(Notice(message="a"))
    with (tmp_path / "s.jsonl").open("ab") as log:
        log.write(b'{"type":"warp","seq":2,"id":"w","at":"AT","to":9}\n')

    (found,) = all_of(tmp_path / "s.jsonl", 2, 2, BLOCK)

    assert (found.seq, found.name) == (2, "warp")
    assert found.line == (
        b'{"v":1,"seq":2,"at":"AT","session":"s","run":null,"type":"warp",'
        b'"id":"w","to":9}\n'
    )
