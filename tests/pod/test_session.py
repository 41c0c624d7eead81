import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import replace

from pod.context import context
from pod.entries import (
    AnyEntry,
    CompactionFailed,
    CompactionStart,
    CustomMessage,
    DeliveredEntry,
    InputEntry,
    ItemEntry,
    Known,
    Label,
    Leaf,
    Notice,
    RunEnd,
    RunStart,
    SessionInfo,
    ToolStart,
    UsageEntry,
)
from pod.errors import DiskFull, EntryNotFound, LogFailed, SessionLocked
from pod.log import read_log
from pod.session import Session
from pod.tree import Tree
from prompts import load
from tests.pod.faults import FaultyDisk, SmallDisk
from tests.pod.logs import AT, HEADER, clock, said, written
from worker.items import AssistantText, ToolCall, ToolResult, UserText
from worker.usage import Usage

DONE = RunEnd(outcome="finished", reason="end_turn", exit_code=0)


def call(id: str) -> ItemEntry:
    return ItemEntry(item=ToolCall(id, "bash", "{}", "r1"))


def result(id: str) -> ItemEntry:
    return ItemEntry(item=ToolResult(id, "ok"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s1.jsonl"


def begin(path: Path, *entries: Known) -> None:
    """Leave a session as it is after these entries, however it ended."""
    with Session.create(path, HEADER, clock=clock, random=Random(1)) as session:
        session.append(*entries)


def reopen(path: Path) -> Session:
    return Session.open(path, clock=clock, random=Random(2))


def test_appending_fills_in_what_an_entry_needs(path: Path) -> None:
    told: list[AnyEntry] = []
    with Session.create(path, HEADER, clock=clock, random=Random(1)) as session:
        session.on_entry = told.append

        one, two = session.append(said("a"), said("b"))
        [three] = session.append(said("c"))

        assert [(e.seq, e.parent, e.at) for e in (one, two, three)] == [
            (1, None, AT),
            (2, one.id, AT),
            (3, two.id, AT),
        ]
        assert all(len(e.id) == 8 and int(e.id, 16) >= 0 for e in (one, two, three))
        assert session.items == [UserText("a"), UserText("b"), UserText("c")]
        assert session.leaf == three.id
    assert told == [one, two, three]
    assert path.read_bytes() == written([one, two, three])


def test_entries_of_a_run_carry_its_id(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        before, start, item, end, after = session.append(
            said("a"), RunStart(model="m"), said("b"), DONE, said("c")
        )
        [named] = session.append(RunStart(run="r9", model="m"))

        assert [e.run for e in (before, start, item, end, after)] == [
            None,
            start.id,
            start.id,
            start.id,
            None,
        ]
        assert (named.run, session.run) == ("r9", "r9")


def test_ids_are_unique_even_from_a_poor_source(path: Path) -> None:
    class Poor(Random):
        draws = iter([7, 7, 7, 8, 8, 9])

        def getrandbits(self, k: int) -> int:
            return next(self.draws)

    with Session.create(path, HEADER, random=Poor()) as session:
        entries = session.append(said("a"), said("b"))
        entries += session.append(said("c"))

    assert [e.id for e in entries] == ["00000007", "00000008", "00000009"]


def test_memory_does_not_run_ahead_of_a_full_disk(path: Path) -> None:
    disk = SmallDisk(len(written([])))
    told: list[AnyEntry] = []
    with Session.create(path, HEADER, disk=disk) as session:
        disk.room = 200
        session.append(said("a"))
        leaf = session.leaf
        session.on_entry = told.append

        with pytest.raises(DiskFull):
            session.append(RunStart(model="m"), said("x" * 500))

        assert (session.leaf, session.run, session.items) == (
            leaf,
            None,
            [UserText("a")],
        )
        assert told == []
        disk.room = 1000
        [words] = session.last_words(said("b"))
        assert (words.seq, words.parent) == (2, leaf)
    assert [e.seq for e in read_log(path).entries] == [1, 2]


async def test_commit_is_the_logs(path: Path) -> None:
    disk = FaultyDisk(lambda *_: 0)
    with Session.create(path, HEADER, disk=disk) as session:
        session.append(said("a"))
        await session.commit()
        assert disk.calls == ["write", "sync", "write", "sync"]

        session.append(said("b"))
        disk._fails = lambda *_: errno.EIO
        with pytest.raises(LogFailed):
            await session.commit()


def test_a_finished_session_opens_as_it_was(path: Path) -> None:
    begin(path, RunStart(model="m"), said("a"), DONE)
    before = path.read_bytes()

    with reopen(path) as session:
        assert session.recovered == ()
        assert session.items == [UserText("a")]
        assert session.run is None
        assert session.id == "s1"
        assert session.files == path.with_name("s1.files")
        with pytest.raises(SessionLocked):
            reopen(path)
    assert path.read_bytes() == before


def test_the_end_of_a_crashed_run_has_what_its_compactions_used(path: Path) -> None:
    failed = CompactionFailed(
        compaction_id="k",
        code="no_summary",
        message="m",
        usage=Usage(input=30, output=4),
        cost_usd=0.5,
    )
    used = UsageEntry(
        response="r1",
        model="m",
        stop_reason="end_turn",
        usage=Usage(input=5, output=2),
        context_tokens=7,
        cost_usd=0.25,
    )
    start = CompactionStart(
        compaction_id="k", reason="mid_turn", mode="worker", tokens_before=9
    )
    begin(path, RunStart(model="m"), said("a"), used, start, failed)

    with reopen(path) as session:
        (end,) = session.recovered

        assert isinstance(end, RunEnd)
        assert (end.usage, end.cost_usd) == (Usage(input=35, output=6), 0.75)
        assert end.requests == 1


def test_a_crashed_run_is_brought_to_its_end(path: Path) -> None:
    used = UsageEntry(
        response="r1",
        model="m",
        stop_reason="tool_use",
        usage=Usage(input=5, output=2),
        context_tokens=7,
        cost_usd=0.25,
    )
    begin(
        path,
        RunStart(model="m"),
        said("a"),
        call("c1"),
        call("c2"),
        call("c3"),
        used,
        ToolStart(call_id="c1", name="bash"),
        ToolStart(call_id="c2", name="bash"),
        result("c1"),
    )

    with reopen(path) as session:
        lost, unbegun, end = session.recovered

        assert lost.run == end.run == session.tree.path(session.leaf)[0].run
        assert isinstance(lost, ItemEntry)
        assert isinstance(unbegun, ItemEntry)
        assert [lost.item, unbegun.item] == [
            ToolResult("c2", load("crashed_call"), is_error=True),
            ToolResult("c3", load("crashed_call_not_begun"), is_error=True),
        ]
        assert replace(end, seq=0, id="", parent=None, at="", run=None) == RunEnd(
            outcome="failed",
            reason="crashed",
            exit_code=1,
            interrupted=True,
            message="Pod's process ended before the run did.",
            requests=1,
            tool_calls=3,
            usage=Usage(input=5, output=2),
            cost_usd=0.25,
        )
        assert session.run is None
        assert session.state.interrupted
    with reopen(path) as session:
        assert session.recovered == ()
        assert session.state.last_run == end


def test_a_torn_tail_is_told_in_the_log(path: Path) -> None:
    begin(path, said("a"))
    with path.open("ab") as log:
        log.write(b'{"type":"item","seq":2,"i')

    with reopen(path) as session:
        [notice] = session.recovered

        assert isinstance(notice, Notice)
        assert "25 bytes" in notice.message
        assert session.items == [UserText("a")]
        [after] = session.append(said("b"))
        assert (after.seq, after.parent) == (3, session.tree.path(after.id)[0].id)


def test_an_input_that_waits_is_not_lost_and_not_delivered_twice(path: Path) -> None:
    first = InputEntry(input="i1", text="do it")
    second = InputEntry(input="i2", text="and this")
    begin(path, first, second)
    with reopen(path) as session:
        assert [e.input for e in session.pending_inputs] == ["i1", "i2"]

        session.append(said("do it"), DeliveredEntry(inputs=("i1",)))
        assert [e.input for e in session.pending_inputs] == ["i2"]

    with reopen(path) as session:
        assert [e.input for e in session.pending_inputs] == ["i2"]


@pytest.mark.parametrize(
    ("texts", "waiting"), [([], ["i1", "i2"]), (["yes"], ["i2"]), (["yes", "yes"], [])]
)
def test_a_crash_between_item_and_delivery_delivers_once(
    path: Path, texts: list[str], waiting: list[str]
) -> None:
    begin(
        path,
        InputEntry(input="i1", text="yes"),
        InputEntry(input="i2", text="yes"),
        *map(said, texts),
    )

    with reopen(path) as session:
        assert [e.input for e in session.pending_inputs] == waiting
    with reopen(path) as session:
        assert [e.input for e in session.pending_inputs] == waiting
        assert session.recovered == ()


def test_navigating_moves_the_leaf_for_good(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        one, _two = session.append(said("a"), ItemEntry(item=AssistantText("b", "r")))

        assert session.navigate(_two.id) == ""
        session.append(said("c"))
        assert session.navigate(one.id) == "a"
        assert (session.leaf, session.items) == (None, [])
        session.navigate(_two.id)
        session.append(said("d"))

        assert session.items == [UserText("a"), AssistantText("b", "r"), UserText("d")]
        session.navigate(_two.id)
    with reopen(path) as session:
        assert session.leaf == _two.id
        assert session.items == [UserText("a"), AssistantText("b", "r")]


def test_navigating_between_a_call_and_its_result_answers_it(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        _, called, _ = session.append(said("a"), call("c1"), result("c1"))

        session.navigate(called.id)

        assert session.items == [
            UserText("a"),
            called.item if isinstance(called, ItemEntry) else None,
            ToolResult("c1", load("left_call"), is_error=True),
        ]


def test_a_leaf_inside_a_run_that_ended_is_no_crash(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        entries = session.append(
            RunStart(model="m"),
            said("a"),
            ItemEntry(item=AssistantText("b", "r")),
            DONE,
        )
        session.navigate(entries[2].id)

    with reopen(path) as session:
        assert session.recovered == ()
        assert session.run is None
        assert session.state.interrupted


def test_a_message_taken_back_does_not_wait_again(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        session.append(said("a"), DONE)
        taken = session.append(
            RunStart(model="m"),
            InputEntry(input="i1", text="b"),
            said("b"),
            DeliveredEntry(inputs=("i1",)),
            DONE,
        )[2]

        assert session.navigate(taken.id) == "b"
        assert session.items == [UserText("a")]
        assert session.pending_inputs == []
        assert session.state.open_run is None


def test_names_must_be_of_something(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        [entry] = session.append(said("a"))
        session.append(Label(target=entry.id, label="x"), SessionInfo(name="work"))

        for wrong in (Label(target="zz", label="x"), Leaf(target="zz")):
            with pytest.raises(KeyError):
                session.append(wrong)
        with pytest.raises(EntryNotFound, match="Entry zz not found"):
            session.navigate("zz")

        assert session.leaf == entry.id
        assert len(session.tree) == 3
    assert read_log(path).damage == ()


def test_text_that_cannot_be_written_changes_nothing(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        with pytest.raises(ValueError, match="surrogates"):
            session.append(said("fine"), said("\ud800"))

        assert session.items == []
        session.append(said("a"))
    assert [e.seq for e in read_log(path).entries] == [1]


async def test_a_session_that_is_not_kept_leaves_nothing() -> None:
    session = Session.ephemeral(HEADER)
    (session.files / "output.txt").write_text("long")

    session.append(said("a"), CustomMessage(kind="k", text="t"))
    session.navigate(None)
    session.navigate(session.tree.children(None)[0].id)
    await session.commit()
    session.append(said("b"))

    assert session.path is None
    assert session.items == [UserText("b")]
    session.close()
    assert not session.files.exists()


def steps() -> st.SearchStrategy[list[Callable[[Session], object]]]:
    def go(n: int) -> Callable[[Session], object]:
        def navigate(session: Session) -> None:
            ids = [None, *(e.id for e in session.tree.path(session.leaf))]
            session.navigate(ids[n % len(ids)])

        return navigate

    return st.lists(
        st.one_of(
            st.integers(0, 9).map(lambda n: lambda s: s.append(said(f"m{n}"))),
            st.integers(0, 9).map(
                lambda n: lambda s: s.append(InputEntry(input=f"i{n}", text="x"))
            ),
            st.integers(0, 9).map(
                lambda n: lambda s: s.append(DeliveredEntry(inputs=(f"i{n}",)))
            ),
            st.just(lambda s: s.append(CustomMessage(kind="k", text="t"))),
            st.just(lambda s: s.append(RunStart(model="m"), DONE)),
            st.just(lambda s: s.append(call("c1")) and s.append(result("c1"))),
            st.integers(0, 50).map(go),
        ),
        max_size=25,
    )


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps())
def test_reload_gives_what_was_in_memory(
    path: Path, todo: list[Callable[[Session], object]]
) -> None:
    path.unlink(missing_ok=True)
    with Session.create(path, HEADER, durability="flush") as session:
        for step in todo:
            step(session)
            assert session.items == context(session.path_entries())
        live = (session.items, session.leaf, session.pending_inputs)

    scan = read_log(path)
    assert scan.damage == ()
    assert Tree(scan.entries).leaf == live[1]
    with reopen(path) as session:
        assert (session.items, session.leaf, session.pending_inputs) == live


def test_appending_to_a_long_session_stays_cheap(path: Path) -> None:
    """Not a clock: how often the path is walked."""
    walks = 0

    class Counted(Tree):
        def path(self, leaf: str | None) -> list[AnyEntry]:
            nonlocal walks
            walks += 1
            return super().path(leaf)

    with Session.create(path, HEADER, durability="flush") as session:
        session.tree = Counted()
        for n in range(200):
            session.append(said(f"m{n}"))

    assert walks == 0


def test_a_session_that_is_only_looked_at_stays_as_it_is(path: Path) -> None:
    begin(path, RunStart(model="m"), call("a"))
    before = path.read_bytes()

    with Session.open(path, kept=False) as session:
        session.append(said("only in memory"))

        assert [type(entry) for entry in session.recovered] == [ItemEntry, RunEnd]
        assert session.items[-1] == UserText("only in memory")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_session_can_be_looked_at_while_another_process_writes(path: Path) -> None:
    begin(path, said("a"))

    with Session.open(path) as writer, Session.open(path, kept=False) as session:
        assert list(session.items) == list(writer.items)
