"""A session that is compacted: what it shows, what it holds, what a crash leaves."""

import gc
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import replace

from pod.compaction.breaker import Breaker, breaker_of
from pod.compaction.cut import Cut, find_cut
from pod.compaction.directives import directives_of
from pod.compaction.thrash import thrash_of
from pod.context import context, state
from pod.entries import (
    BreakerChange,
    Clip,
    Compaction,
    CompactionFailed,
    CompactionStart,
    ItemEntry,
    Known,
    Leaf,
    Notice,
    Prune,
    RunEnd,
    RunStart,
    UsageEntry,
)
from pod.log import read_log
from pod.session import Session
from pod.store import Store
from pod.tree import Tree
from tests.makers import call, result, said as answered, thought, user
from tests.pod.compaction.counting import count, count_text
from tests.pod.compaction.histories import SUMMARY, compaction_of
from tests.pod.logs import HEADER, clock
from worker.history import faults
from worker.items import Item, ToolResult, UserText

START = CompactionStart(
    compaction_id="k", reason="mid_turn", mode="worker", tokens_before=90_000
)
USED = UsageEntry(
    response="r", model="m", stop_reason="tool_use", usage=None, context_tokens=None
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s1.jsonl"


def add(session: Session, *items: Item) -> tuple[Known, ...]:
    return session.append(*(ItemEntry(item=item) for item in items))


def compact(session: Session, *, retained: int = 60, room: int | None = None) -> bool:
    """Compact the session as the runtime does; tell whether there was a cut."""
    window = session.window
    cut = find_cut(window, retained_tokens=retained, room=room, count=count)
    if not isinstance(cut, Cut):
        return False
    if cut.clips:
        session.append(*cut.clips)
    if cut.index:
        head = [shown.item for shown in window.shown[: cut.index]]
        before = window.compaction
        directives = directives_of(
            head, before.directives if before else (), budget=10_000, count=count_text
        )
        done = compaction_of(cut, session.path_entries())
        session.append(START, replace(done, directives=directives))
    return True


def test_a_compaction_rebuilds_what_is_shown(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        add(session, user("a"), answered("one" * 200), user("b"))
        revision = session.revision

        compact(session, retained=20)

        assert [type(item).__name__ for item in session.items] == [
            *("SystemText", "SystemText", "UserText")
        ]
        assert session.revision == revision + 1
        add(session, answered("two"))
        assert session.revision == revision + 1
        assert session.items[-1] == answered("two")


def test_a_prune_and_a_clip_rebuild_it_too(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        one, two, *_ = add(session, call("1"), result("1", "long"), user("b"))

        session.append(Prune(entries=(two.id,), tokens=(9,), saved=1))
        session.append(Clip(entry=one.id, text='{"a":1}'))

        assert session.items == [
            call("1", arguments='{"a":1}'),
            ToolResult("1", "ran 1", "[Output truncated - 9 tokens]"),
            user("b"),
        ]
        assert session.revision == 3


def scripted(session: Session, random: Random, steps: int) -> None:
    """Do what a long session does, in a random order."""
    for step in range(steps):
        draw = random.random()
        name = f"c{step}"
        if draw < 0.25:
            add(session, user(f"message {step} " + "x" * random.randrange(80)))
        elif draw < 0.65:
            content = "y" * random.choice([8, 80, 2_000])
            lead = [thought(of=name)] if random.random() < 0.5 else []
            add(session, *lead, call(name), result(name, content))
            session.append(USED)
        elif draw < 0.8:
            compact(
                session,
                retained=random.choice([0, 30, 100]),
                room=random.choice([None, 60, 200]),
            )
        elif draw < 0.85:
            old = [
                one for one in session.window.shown if isinstance(one.item, ToolResult)
            ]
            if old:
                chosen = random.choice(old).entry
                session.append(Prune(entries=(chosen,), tokens=(99,), saved=9))
        elif draw < 0.88:
            session.append(Breaker().failed(name, now=clock()).as_entry())
        elif draw < 0.92:
            ids = [entry.id for entry in session.path_entries()]
            session.navigate(random.choice([None, *ids]))
        else:
            add(session, answered("done", f"r{step}"))


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 10_000))
def test_memory_the_path_and_a_reload_show_the_same(tmp_path: Path, seed: int) -> None:
    log = tmp_path / f"{seed}.jsonl"
    log.unlink(missing_ok=True)
    with Session.create(log, HEADER, random=Random(seed)) as session:
        scripted(session, Random(seed), 40)
        live = list(session.items)
        leaf = session.leaf
        whole = Tree(read_log(log).entries)

        assert live == context(whole.path(leaf))
        assert live == context(session.path_entries())
        assert session.path_entries() == whole.path(leaf)
        assert faults(live) == []
        assert session.problems == []
        assert session.breaker == breaker_of(whole.path(leaf))
        assert session.thrash == thrash_of(whole.path(leaf))
        assert session.state == replace(
            state(HEADER, whole.path(leaf)), begun=session.state.begun
        )

    with Session.open(log) as again:
        assert again.items == live
        assert again.path_entries() == whole.path(leaf)
        assert again.thrash == thrash_of(whole.path(leaf))
        assert again.recovered == ()


def held(session: Session) -> int:
    """Return how many item entries the session's tree holds in memory."""
    return sum(
        isinstance(entry, ItemEntry)
        for entry in session.tree.path_in_memory(session.leaf)
    )


def test_items_behind_the_latest_compaction_leave_memory(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        for n in range(50):
            add(session, user(f"m{n} " + "x" * 1_000))
        add(session, answered("seen", "r1"))  # what it has not seen is always kept
        compact(session, retained=600)

        assert held(session) == 3
        assert len(session.path_entries()) == 53

    with Session.open(path) as again:
        assert held(again) == 3
        assert len(again.path_entries()) == 53


def test_memory_stays_flat_over_compactions(path: Path) -> None:
    """Live bytes after the first compaction and after twenty: within a quarter."""

    def fill(session: Session, at: int) -> None:
        for n in range(at, at + 40):
            add(session, call(f"c{n}"), result(f"c{n}", f"{n} " + "y" * 20_000))
            session.append(USED)
        compact(session, retained=12_000)

    with Session.create(path, HEADER, durability="flush") as session:
        tracemalloc.start()
        try:
            fill(session, 0)
            gc.collect()
            first = tracemalloc.get_traced_memory()[0]
            for round in range(1, 21):
                fill(session, round * 40)
            gc.collect()
            last = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert path.stat().st_size > 15_000_000
    assert last < 1.5 * first + 1_000_000


def test_an_old_message_can_be_navigated_to_after_a_compaction(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        first, *_ = add(session, user("first"), answered("x" * 800), user("b"))
        compact(session, retained=20)
        told = session.items

        text = session.navigate(first.id)

        assert (text, session.items) == ("first", [])
        again, *_ = add(session, user("again"))
        assert session.items == [user("again")]
        assert told[-1] == user("b")
        session.navigate(again.id)
        assert session.items == []


def test_going_back_behind_a_compaction_shows_all_of_it_again(path: Path) -> None:
    """Omp#4090: nothing that another leaf can reach is blanked."""
    with Session.create(path, HEADER) as session:
        items: list[Item] = [user("first"), answered("x" * 800), user("b")]
        *_, last = add(session, *items)
        compact(session, retained=20)
        compacted = list(session.items)
        done = session.leaf
        add(session, answered("on"))

        session.append(Leaf(target=last.id))

        assert session.items == items
        assert session.revision >= 2
        session.append(Leaf(target=done))
        assert session.items == compacted
        assert held(session) == 1


def test_a_session_that_is_not_kept_lets_go_of_nothing() -> None:
    with Session.ephemeral(HEADER) as session:
        add(session, user("first"), answered("x" * 800), user("b"))
        compact(session, retained=20)

        assert held(session) == 3


def test_a_fork_of_a_compacted_session_shows_the_same(tmp_path: Path) -> None:
    """Fastagent PR #401: the ids in a compaction follow."""
    store = Store(tmp_path)
    with Session.create(store.path("s1"), HEADER) as session:
        add(
            session, user("first"), thought(of="1"), call("1"), result("1", "y" * 4_000)
        )
        add(session, thought(of="2"), call("2"), result("2", "z" * 80))
        compact(session, retained=60, room=100)
        shown = list(session.items)
        [*_, entry] = session.path_entries()
        assert isinstance(entry, Compaction)
        assert entry.dropped_reasoning
        old = {one.id for one in session.path_entries()}
        source = session.path
        leaf = session.leaf
    assert source is not None

    copy = store.fork(source, leaf)

    with Session.open(copy) as forked:
        assert forked.items == shown
        assert not old & {entry.id for entry in forked.path_entries()}


def test_a_compaction_that_a_crash_cut_off_gets_exactly_one_end(path: Path) -> None:
    with Session.create(path, HEADER, clock=clock) as session:
        session.append(
            RunStart(run="r1", model="m"), BreakerChange(failures=2, fingerprint="f")
        )
        add(session, user("a"))
        [start] = session.append(START)

    with Session.open(path, clock=clock) as session:
        [failed, end] = session.recovered

        assert failed == CompactionFailed(
            seq=start.seq + 1,
            id=failed.id,
            parent=start.id,
            at=start.at,
            run="r1",
            compaction_id="k",
            code="crashed",
            message="Auto-compaction failed: Pod's process ended before the compaction"
            " did.",
            consecutive_failures=2,
        )
        assert isinstance(end, RunEnd)
    with Session.open(path) as session:
        assert session.recovered == ()


@pytest.mark.parametrize(
    "end",
    [
        SUMMARY,
        CompactionFailed(compaction_id="k", code="api", message="m"),
    ],
)
def test_a_compaction_that_has_an_end_gets_no_other(path: Path, end: Known) -> None:
    with Session.create(path, HEADER) as session:
        session.append(START, end)

    with Session.open(path) as session:
        assert session.recovered == ()


def test_an_end_on_another_branch_counts(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        [one] = add(session, user("a"))
        session.append(START)
        session.append(CompactionFailed(compaction_id="k", code="api", message="m"))
        session.append(Leaf(target=one.id))

    with Session.open(path) as session:
        assert session.recovered == ()


def test_a_compaction_that_cannot_be_shown_is_told_once(path: Path) -> None:
    with Session.create(path, HEADER) as session:
        add(session, user("a"))
        session.append(replace(SUMMARY, first_kept="elsewhere"))
        assert session.items == [UserText("a")]

    with Session.open(path) as session:
        [notice] = session.recovered
        assert isinstance(notice, Notice)
        assert "keeps elsewhere" in notice.message
        assert session.items == [UserText("a")]
        assert held(session) == 1
    with Session.open(path) as session:
        assert session.recovered == ()
