import os
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pod.entries import Header, ItemEntry, RunEnd, RunStart, SessionInfo, ToolStart
from pod.errors import (
    AmbiguousSession,
    NotASession,
    SessionDamaged,
    SessionError,
    SessionNotFound,
)
from pod.log import read_log
from pod.session import Session
from pod.store import TAIL, Listed, Store, default_folder, look
from pod.tree import Tree
from prompts import load
from tests.pod.logs import AT, clock, random_tree, said, talk, written
from worker.items import AssistantText, ToolCall, ToolResult, UserText

DONE = RunEnd(outcome="finished", reason="end_turn", exit_code=0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "sessions", clock=clock, random=Random(1))


def header(id: str, cwd: str = "/work") -> Header:
    return Header(format=1, id=id, at=AT, cwd=cwd, system="s" * 9000)


def put(store: Store, id: str, *, cwd: str = "/work", age: int = 0) -> Session:
    path = store.path(id)
    session = Session.create(path, header(id, cwd), clock=clock, durability="flush")
    session.append(RunStart(model="m"), said(f"do {id}\nnow"), DONE)
    session.close()
    os.utime(path, (1000 - age, 1000 - age))
    return session


def test_ids_tell_when_and_are_free(store: Store) -> None:
    first = store.new_id()
    store.path(first).parent.mkdir()
    store.path(first).touch()
    again = Store(store.folder, clock=clock, random=Random(1))

    assert first == "20261130-050000-2265"
    assert again.new_id() == "20261130-050000-91b7"


def test_sessions_live_in_the_state_folder_unless_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    assert Store().folder == default_folder()
    assert default_folder().name == "sessions"
    assert default_folder().is_relative_to(tmp_path)
    assert Store("~/logs").folder == tmp_path / "home" / "logs"


def test_a_session_is_found_by_what_its_id_begins_with(store: Store) -> None:
    for id in ("20261130-050000-aaaa", "20261130-050000-aabb", "20261201-060000-cccc"):
        put(store, id)
    path = store.path("20261130-050000-aaaa")

    assert store.find("20261130-050000-aaaa") == path
    assert store.find("20261201") == store.path("20261201-060000-cccc")
    assert store.find(str(path)) == path
    with pytest.raises(AmbiguousSession) as ambiguous:
        store.find("20261130-050000-aa")
    assert str(ambiguous.value) == (
        "2 sessions begin with 20261130-050000-aa: 20261130-050000-aaaa,"
        " 20261130-050000-aabb"
    )
    with pytest.raises(SessionNotFound, match="near it: 20261201-060000-cccc"):
        store.find("20261201-060000-cccd")
    for wrong in ("", "zz", "../s", "/none/x.jsonl", "none.jsonl"):
        with pytest.raises(SessionNotFound, match="no session"):
            store.find(wrong)


def test_a_session_is_found_by_any_part_of_its_id_that_no_other_has(
    store: Store,
) -> None:
    for id in ("20261130-050000-aaaa", "20261130-060000-2026", "20261201-060000-cccc"):
        put(store, id)

    assert store.find("aaaa") == store.path("20261130-050000-aaaa")
    assert store.find("1201") == store.path("20261201-060000-cccc")
    with pytest.raises(AmbiguousSession, match="2 sessions have in their id -060000-"):
        store.find("-060000-")
    with pytest.raises(AmbiguousSession, match="3 sessions begin with 2026:"):
        store.find("2026")


def test_an_empty_store_has_no_sessions(store: Store) -> None:
    assert store.sessions() == []
    assert store.latest("/work") is None
    with pytest.raises(SessionNotFound):
        store.find("a")


def test_sessions_are_listed_newest_first(store: Store) -> None:
    put(store, "a", age=30)
    put(store, "b", age=10)
    put(store, "c", cwd="/other", age=20)

    assert [listed.id for listed in store.sessions()] == ["b", "c", "a"]
    latest = store.latest("/work")
    assert latest
    assert latest.id == "b"
    assert store.latest("/none") is None


def test_a_listing_tells_what_a_session_is_about(store: Store) -> None:
    put(store, "a")
    with Session.open(store.path("a"), clock=clock) as session:
        session.append(SessionInfo(name="work"), RunStart(model="m"), said("more"))

        running = look(store.path("a"))

    size = store.path("a").stat().st_size
    assert running == Listed(
        id="a",
        path=store.path("a"),
        size=size,
        modified=running.modified,
        header=header("a"),
        entries=6,
        outcome="",
        name="work",
        prompt="do a",
    )


def test_a_listing_tells_what_a_person_said_before_what_a_program_said(
    store: Store,
) -> None:
    items = [UserText("<environment>", synthetic=True), UserText("do b")]
    with Session.create(store.path("a"), header("a"), clock=clock) as session:
        session.append(*map(_item, items[:1]))
        alone = look(store.path("a"))
        session.append(*map(_item, items[1:]))

        both = look(store.path("a"))

    assert (alone.prompt, both.prompt) == ("<environment>", "do b")


def _item(item: UserText) -> ItemEntry:
    return ItemEntry(item=item)


@pytest.mark.parametrize("bad", [b"garbage\n", b"", b"\0\n"], ids=repr)
def test_a_listing_tells_damage_that_it_comes_by(store: Store, bad: bytes) -> None:
    put(store, "a")
    lines = store.path("a").read_bytes().splitlines(keepends=True)
    store.path("a").write_bytes(b"".join([*lines[:2], bad, *lines[3:]]))

    listed = look(store.path("a"))

    assert (listed.damaged, listed.broken) == (True, "")
    assert read_log(store.path("a")).damage


@pytest.mark.parametrize("end", [b'{"type":"it', b"\n\n", b" \n"], ids=repr)
def test_a_torn_tail_is_no_damage_in_a_listing(store: Store, end: bytes) -> None:
    put(store, "a")
    with store.path("a").open("ab") as log:
        log.write(end)

    assert read_log(store.path("a")).damage == ()
    assert not look(store.path("a")).damaged


def test_a_listing_reads_the_ends_of_a_log_alone(store: Store) -> None:
    put(store, "a")
    with store.path("a").open("ab") as log:
        log.truncate(3_000_000_000)  # a hole: reading it all would take its time
        log.seek(0, os.SEEK_END)
        log.write(b"\n" + written(talk(3)).partition(b"\n")[2])

    before = _bytes_read()
    listed = look(store.path("a"))
    read = _bytes_read() - before

    assert (listed.broken, listed.entries, listed.prompt) == ("", 3, "do a")
    assert read < 4 * TAIL


def _bytes_read() -> int:
    text = Path("/proc/self/io")
    if not text.exists():
        pytest.skip("no /proc/self/io")
    return int(text.read_text().split()[1])


def test_broken_logs_are_listed_as_broken(store: Store) -> None:
    put(store, "good")
    store.path("empty").touch()
    store.path("foreign").write_text("hello\n")
    store.path("newer").write_text('{"type":"session","format":9}\n')
    store.path("torn").write_text('{"type":"sess')
    os.mkfifo(store.path("pipe"))
    (store.folder / "notes.txt").touch()
    (store.folder / "good.jsonl.torn").touch()
    (store.folder / "folder.jsonl").mkdir()

    found = {listed.id: listed.broken for listed in store.sessions()}

    assert found == {
        "good": "",
        "empty": "the file is empty",
        "foreign": "no session header",
        "newer": "the session has log format 9, this Pod knows up to 1: use the"
        " version that wrote it, or a newer one",
        "torn": "no session header",
    }
    assert store.latest("/work") is not None


def test_a_nul_tail_hides_no_session(store: Store) -> None:
    put(store, "a")
    with store.path("a").open("ab") as log:
        log.write(b"\0" * 1728)

    listed = look(store.path("a"))

    assert (listed.broken, listed.outcome, listed.entries) == ("", "finished", 3)


def test_a_fork_goes_on_by_itself(store: Store) -> None:
    put(store, "a")
    source = store.path("a").read_bytes()
    with Session.open(store.path("a")) as session:  # in use: forking only reads
        leaf = session.tree.path(session.leaf)[1].id
        path = store.fork(store.path("a"), session.leaf)
        middle = store.fork(store.path("a"), leaf)

    with Session.open(path) as fork:
        assert fork.header == Header(
            format=1,
            id=path.stem,
            at=AT,
            cwd="/work",
            system="s" * 9000,
            parent_session="a",
        )
        assert fork.recovered == ()
        assert fork.items == [UserText("do a\nnow")]
        fork.append(said("more"))
    with Session.open(middle) as fork:
        assert fork.recovered == ()
        last = fork.state.last_run
        assert last
        assert (last.outcome, last.reason, last.interrupted) == (
            "cancelled",
            "forked",
            True,
        )
    assert store.path("a").read_bytes() == source


def test_a_fork_between_call_and_result_answers_the_call(store: Store) -> None:
    with Session.create(store.path("a"), header("a"), clock=clock) as session:
        started = session.append(
            RunStart(model="m"),
            said("go"),
            ItemEntry(item=ToolCall("c1", "bash", "{}", "r1")),
            ToolStart(call_id="c1", name="bash"),
        )[-1]
        session.append(
            ItemEntry(item=ToolResult("c1", "ok")),
            ItemEntry(item=AssistantText("done", "r2")),
            DONE,
        )

    copy = store.fork(store.path("a"), started.id)

    assert look(copy).outcome == "forked"
    with Session.open(copy) as fork:
        assert fork.items == [
            UserText("go"),
            ToolCall("c1", "bash", "{}", "r1"),
            ToolResult("c1", load("left_call"), is_error=True),
        ]


def test_what_cannot_be_forked_leaves_nothing(store: Store) -> None:
    put(store, "a")
    with pytest.raises(KeyError):
        store.fork(store.path("a"), "zz")
    store.path("b").write_bytes(b"junk\n")
    with pytest.raises(NotASession):
        store.fork(store.path("b"), None)
    one, _, three = talk(3)
    store.path("b").write_bytes(written([one, three]))
    with pytest.raises(SessionDamaged, match="pod session repair b first"):
        store.fork(store.path("b"), None)

    assert sorted(path.name for path in store.folder.iterdir()) == [
        "a.jsonl",
        "b.jsonl",
    ]


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 100_000))
def test_a_forks_history_is_its_sources(store: Store, seed: int) -> None:
    random = Random(seed)
    entries = random_tree(random, 20)
    leaf = random.choice([None, *(entry.id for entry in entries)])
    source = store.path("src")
    source.parent.mkdir(exist_ok=True)
    source.write_bytes(written(entries))

    path = store.fork(source, leaf)

    tree = Tree(read_log(path).entries)
    texts = [e.item for e in tree.path(tree.leaf) if isinstance(e, ItemEntry)]
    old = [e.item for e in Tree(entries).path(leaf) if isinstance(e, ItemEntry)]
    assert texts == old


def test_every_error_has_a_word_for_programs() -> None:
    reasons = [kind.reason for kind in SessionError.__subclasses__()]

    assert len(set(reasons)) == len(reasons)
    assert all(reason.isidentifier() for reason in reasons)
