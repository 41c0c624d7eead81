"""Each step of the commit protocol (docs/reliability.md) as a place to be killed at.

The process is a real one, and so is SIGKILL: before and behind each call that
changes the file system.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
import trio

from pod.context import context
from pod.entries import ItemEntry
from pod.errors import SessionDamaged
from pod.importing.importer import Imported, import_file
from pod.log import SessionLog, read_log
from pod.repair import repair
from pod.session import Session
from pod.store import Store, look
from pod.tree import Tree
from tests.fuzz.importing import pi_session
from tests.pod.killed_child import killed_at
from tests.pod.logs import HEADER, clock, said, talk, written
from worker.items import UserText

MOST = 200
Action = Callable[[], object]


def texts(path: Path) -> list[str]:
    """Return what the user said in a log, as its path has it."""
    tree = Tree(read_log(path).entries)
    items = context(tree.path(tree.leaf))
    return [item.text for item in items if isinstance(item, UserText)]


def kills(prepare: Callable[[], Action]) -> Iterator[tuple[int, bool]]:
    """Give each kill of what *prepare* returns, after it came; it prepares anew."""
    for behind in (False, True):
        for number in range(1, MOST):
            if not killed_at(number, prepare(), behind=behind):
                break
            yield number, behind
        else:
            raise AssertionError("the action never ended")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "sessions", clock=clock, random=Random(1))


def clear(folder: Path) -> None:
    if folder.exists():
        for file in folder.iterdir():
            file.unlink()


def test_a_session_that_was_being_created_is_there_or_is_no_session(
    store: Store,
) -> None:
    path = store.path("s1")

    def prepare() -> Action:
        clear(store.folder)
        return lambda: Session.create(path, HEADER).close()

    there = 0
    for _ in kills(prepare):
        listed = [look(file) for file in store.folder.glob("*.jsonl")]
        assert all(one.header == HEADER or one.broken for one in listed)
        assert store.latest("/elsewhere") is None
        there += any(one.header for one in listed)
    assert there > 2


def test_what_was_committed_stays_and_what_was_being_written_is_whole_or_gone(
    store: Store,
) -> None:
    path = store.path("s1")
    safe = store.folder.parent / "safe"

    def write() -> None:
        async def run() -> None:
            with Session.open(path) as session:
                for number in range(4):
                    session.append(said(f"{number}a"), said(f"{number}b"))
                    await session.commit()
                    safe.write_text(str(number))

        trio.run(run)

    def prepare() -> Action:
        clear(store.folder)
        safe.unlink(missing_ok=True)
        Session.create(path, HEADER).close()
        return write

    count = 0
    for _ in kills(prepare):
        count += 1
        committed = int(safe.read_text() or "0") + 1 if safe.exists() else 0
        found = texts(path)
        assert found == [f"{n}{half}" for n in range(len(found) // 2) for half in "ab"]
        assert len(found) >= 2 * committed - 2
        with Session.open(path) as session:
            assert len(session.items) == len(found)
    assert count > 16


def test_a_torn_end_is_in_the_log_or_beside_it_until_it_is_set_aside(
    store: Store,
) -> None:
    path = store.path("s1")
    torn = b'{"type":"item","seq":3,"id'

    def prepare() -> Action:
        clear(store.folder)
        store.folder.mkdir(exist_ok=True)
        path.write_bytes(written(talk(2)) + torn)
        return lambda: SessionLog.open(path).log.close()

    beside = 0
    for _ in kills(prepare):
        aside = path.with_name(path.name + ".torn")
        is_in_log = path.read_bytes() == written(talk(2)) + torn
        is_beside = aside.exists() and torn in aside.read_bytes()
        assert is_in_log or (is_beside and path.read_bytes() == written(talk(2)))
        beside += is_beside
        with Session.open(path) as session:
            assert list(session.items) == [UserText("m1"), UserText("m2")]
        assert torn in aside.read_bytes()
    assert beside > 2


def test_a_fork_is_a_session_when_it_is_whole(store: Store) -> None:
    source = store.path("s1")
    data = written(talk(3))

    def prepare() -> Action:
        clear(store.folder)
        store.folder.mkdir(exist_ok=True)
        source.write_bytes(data)
        return lambda: store.fork(source, "e3")

    whole = 0
    for _ in kills(prepare):
        assert source.read_bytes() == data
        for listed in store.sessions():
            assert texts(listed.path) == ["m1", "m2", "m3"]
        whole += len(store.sessions()) - 1
        assert texts(store.fork(source, "e3")) == ["m1", "m2", "m3"]
    assert whole > 2


def test_an_import_is_a_session_when_it_is_whole(store: Store) -> None:
    file = store.folder.parent / "theirs.jsonl"
    file.write_bytes(pi_session())

    def act() -> Imported:
        return import_file(file, store, cwd="/", system="", pod="pod")

    def prepare() -> Action:
        clear(store.folder)
        return act

    whole = 0
    for _ in kills(prepare):
        for listed in store.sessions():
            whole += 1
            assert texts(listed.path) == ["go"]
        assert texts(act().path) == ["go"]
    assert whole > 2


def test_a_log_that_was_being_repaired_is_the_damaged_or_the_mended_one(
    store: Store,
) -> None:
    path = store.path("s1")
    first, *rest = written(talk(3)).splitlines(keepends=True)
    damaged = first + rest[0] + b"\0" * 40 + b"\n" + b"".join(rest[1:])

    def prepare() -> Action:
        clear(store.folder)
        store.folder.mkdir(exist_ok=True)
        path.write_bytes(damaged)
        return lambda: repair(path)

    mended = 0
    for _ in kills(prepare):
        if path.read_bytes() == damaged:
            with pytest.raises(SessionDamaged):
                Session.open(path)
            repair(path)
        else:
            mended += 1
        assert texts(path) == ["m1", "m2", "m3"]
        copies = [file.read_bytes() for file in store.folder.glob("*.damaged*")]
        assert damaged in copies
        Session.open(path).close()
    assert mended > 0


def test_last_words_are_whole_or_gone(store: Store) -> None:
    path = store.path("s1")

    def speak() -> None:
        with Session.open(path) as session:
            session.last_words(said("last"))

    def prepare() -> Action:
        clear(store.folder)
        store.folder.mkdir(exist_ok=True)
        path.write_bytes(written(talk(1)))
        return speak

    ends = set()
    for _ in kills(prepare):
        with Session.open(path) as session:
            ends.add(tuple(texts(path)))
            assert all(isinstance(e, ItemEntry) for e in session.path_entries())
    assert ends == {("m1",), ("m1", "last")}


def test_the_killed_child_says_what_went_wrong_with_its_action() -> None:
    def fail() -> None:
        raise ValueError("no such thing")

    with pytest.raises(AssertionError, match="no such thing"):
        killed_at(1, fail, behind=False)


def test_an_action_that_ends_before_its_kill_was_not_killed() -> None:
    assert not killed_at(
        3, lambda: os.close(os.open(os.devnull, os.O_RDONLY)), behind=True
    )
