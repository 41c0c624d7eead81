"""Logs with entries of every kind, whole and damaged."""

import re
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import fields, replace

from pod.codec import decode, encode
from pod.context import context
from pod.entries import REFERENCES, AnyEntry, Entry, Known, Label, Leaf
from pod.log import read_log
from pod.repair import repair
from pod.scan import scan
from pod.session import Session
from tests.pod.every_kind import MAKERS
from tests.pod.logs import AT, random_tree, written
from worker.history import faults, unanswered

whole = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
seeds = st.integers(0, 2**32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s1.jsonl"


def test_no_kind_is_left_out() -> None:
    assert set(MAKERS) == set(get_args(Known))


def test_random_logs_have_them_all() -> None:
    random = Random(1)
    kinds = {type(entry) for _ in range(60) for entry in random_tree(random, 40)}

    assert kinds == set(get_args(Known))


@pytest.mark.parametrize("kind", get_args(Known), ids=lambda kind: kind.__name__)
def test_each_comes_back_from_its_line(kind: type[Entry]) -> None:
    random = Random(1)
    for _ in range(20):
        made = MAKERS[kind](random, ("e1", "e2"))
        entry = replace(made, seq=3, id="e3", parent="e2", at=AT)

        assert decode(encode(entry)) == entry
        assert encode(entry).startswith(
            b'{"type":"%s","seq":3,"id":"e3"' % str(kind.__struct_config__.tag).encode()
        )


def _refers(entry: AnyEntry) -> set[str]:
    """Return the ids of entries in any field of the entry itself."""
    found: set[str] = set()
    for field in fields(entry):
        value = getattr(entry, field.name)
        names = value if isinstance(value, tuple) else (value,)
        if field.name not in ("id", "at"):
            found |= {n for n in names if isinstance(n, str) and n.startswith("#")}
    return found


@pytest.mark.parametrize("kind", get_args(Known), ids=lambda kind: kind.__name__)
def test_whatever_one_refers_to_is_mapped_by_a_fork(kind: type[Entry]) -> None:
    """A field that refers to an entry and is not in REFERENCES fails here."""
    random = Random(1)
    seen = set()
    for _ in range(20):
        made = MAKERS[kind](random, ("#1", "#2"))
        seen |= _refers(made)
        mapped = {
            name
            for field in fields(made)
            if field.name in REFERENCES
            for value in [getattr(made, field.name)]
            for name in (value if isinstance(value, tuple) else (value,))
            if isinstance(name, str) and name.startswith("#")
        }
        assert _refers(made) == mapped


@whole
@given(seeds)
def test_a_session_opens_with_any_of_them_and_is_settled_once(
    path: Path, seed: int
) -> None:
    path.write_bytes(written(random_tree(Random(seed), 40)))

    with Session.open(path) as session:
        held = list(session.items)
        _check(session)
        assert held == context(session.path_entries())
    with Session.open(path) as session:
        assert session.recovered == ()
        assert list(session.items) == held


@whole
@given(seeds, st.binary(max_size=30))
def test_whatever_happened_to_one_it_is_located_mended_and_gone_on_with(
    path: Path, seed: int, junk: bytes
) -> None:
    random = Random(seed)
    lines = written(random_tree(random, 40)).splitlines(keepends=True)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(1, len(lines))
        line = lines[at]
        cut = random.randint(0, len(line))
        lines[at] = random.choice(
            [
                b"",
                line[:cut],
                line[:cut] + junk + line[cut:],
                line * 2,
                bytes(40) + b"\n",
            ]
        )
    data = b"".join(lines)
    path.write_bytes(data)
    before = scan([data])

    done = repair(path, at=AT, id="fix")

    after = read_log(path)
    assert after.damage == ()
    assert after.torn is None
    if before.damage or before.torn:
        assert done.report
    assert _told(before.entries) - _told(after.entries) == set()
    with Session.open(path) as session:
        _check(session)
    with Session.open(path) as session:
        assert session.recovered == ()
    assert repair(path).damaged is None


def _told(entries: list[AnyEntry]) -> set[bytes]:
    """Return what entries say, but for their place in the tree and whom they mean.

    A leaf, or a label, whose entry is lost means another, or is left out.
    """
    return {
        re.sub(rb'"(e\d+)(-\d+)?"', rb'"\1"', _PLACE.sub(b"", encode(e)))
        for e in entries
        if not isinstance(e, Leaf | Label)
    }


_PLACE = re.compile(rb'"seq":\d+,|"parent":("[^"]*"|null),')
"""In the bytes: of a kind that nobody knows they are all there is."""


def _check(session: Session) -> None:
    """Hold a session that was opened to what is promised of every one."""
    assert faults(session.items) == []
    assert unanswered(session.items) == []
    assert not session.tree.running
    assert not session.tree.compacting
    assert session.leaf is None or session.leaf in session.tree
