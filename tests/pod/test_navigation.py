"""Moving the leaf: where it goes, what is left behind, and what may stop it."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from pod.branch_summary.content import NO_CONTENT
from pod.branch_summary.summary import Summarized
from pod.compaction.framing import branch_summary_text
from pod.entries import (
    AnyEntry,
    BranchSummary,
    CompactionStart,
    CustomMessage,
    InputEntry,
    Label,
    Leaf,
    NavigationFailed,
    Notice,
    RunEnd,
    RunStart,
)
from pod.errors import DiskFull, EntryNotFound, NavigationMissed, NavigationRefused
from pod.events import NavigateStart
from pod.log import read_log
from pod.navigation import Navigation, navigate
from pod.recovery import CUT_OFF
from pod.session import Session
from tests.makers import call, said, synthetic, user
from tests.pod.compaction.histories import SUMMARY
from tests.pod.faults import SmallDisk
from tests.pod.navigations import USED, Case, Fake
from worker.events import Warning
from worker.items import SystemText
from worker.limits import Spent


class Sleeping(Fake):
    """Never comes to an end; *began* is set once it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.began = trio.Event()

    async def summarize(
        self,
        entries: Sequence[AnyEntry],
        *,
        spent: Spent,
        instructions: str = "",
        replace_instructions: bool = False,
    ) -> Summarized:
        spent.charge(USED, Decimal("0.5"))
        self.began.set()
        await trio.sleep_forever()
        raise AssertionError


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path / "s.jsonl")
    yield case
    case.session.close()


async def test_going_to_where_the_leaf_is_does_nothing(case: Case) -> None:
    before = case.written()

    assert await case.go(case.a3, summarize=True) == Navigation(case.a3, case.a3)
    assert case.written() == before
    assert case.told == []


async def test_a_user_message_leaves_the_history_and_its_text_is_handed_back(
    case: Case,
) -> None:
    found = await case.go(case.q2)

    assert found == Navigation(case.a3, case.a1, text="q2")
    assert case.session.items == [user("q1"), said("a1")]


async def test_any_other_entry_becomes_the_leaf(case: Case) -> None:
    assert await case.go(case.a2) == Navigation(case.a3, case.a2)
    assert case.session.items == [user("q1"), said("a1"), user("q2"), said("a2")]


async def test_the_first_message_puts_the_leaf_before_everything(case: Case) -> None:
    assert await case.go(case.q1) == Navigation(case.a3, None, text="q1")
    assert case.session.items == []


async def test_the_root_can_be_gone_to(case: Case) -> None:
    assert await case.go(None) == Navigation(case.a3, None)
    assert case.session.items == []


async def test_a_custom_message_is_handed_back_like_a_user_s(case: Case) -> None:
    [told] = case.session.append(CustomMessage(kind="k", text="mind the gap"))
    case.add(said("a4"))

    found = await case.go(told.id)

    assert (found.new_leaf, found.text) == (case.a3, "mind the gap")


async def test_what_the_runtime_said_in_the_user_s_place_is_not_handed_back(
    case: Case,
) -> None:
    told = case.add(synthetic("Continue."))
    case.add(said("a4"))

    found = await case.go(told)

    assert (found.new_leaf, found.text) == (told, "")


async def test_a_label_stands_for_the_entry_it_hangs_from(case: Case) -> None:
    [label] = case.session.append(Label(target=case.q1, label="start"))
    case.add(user("q4"))

    assert (await case.go(label.id)).new_leaf == case.a3


async def test_what_is_not_there_is_said_by_name(case: Case) -> None:
    with pytest.raises(EntryNotFound, match="Entry zz not found"):
        await case.go("zz", summarize=True)

    assert case.session.leaf == case.a3
    assert case.told == []


async def test_the_summary_hangs_where_the_session_goes(case: Case) -> None:
    fake = Fake()

    found = await case.go(case.a2, summarize=True, summarizer=fake)

    assert fake.asked == [([case.q3, case.a3], "", False)]
    entry = found.entry
    assert entry is not None
    assert (entry.parent, entry.from_id) == (case.a2, case.a3)
    assert found == Navigation(case.a3, entry.id, entry=entry)
    assert case.session.leaf == entry.id
    assert (entry.usage, entry.cost_usd, entry.seconds) == (USED, 0.5, 1.5)
    assert case.session.items[4:] == [
        SystemText(branch_summary_text(f"Did {case.q3} {case.a3}.", entry.details))
    ]


async def test_between_branches_only_what_is_not_shared_is_summarised(
    case: Case,
) -> None:
    """Back to a user message: the message itself is left behind, too."""
    fake = Fake()

    found = await case.go(case.q3, summarize=True, summarizer=fake)

    assert fake.asked == [([case.q3, case.a3], "", False)]
    assert found.entry is not None
    assert found.entry.parent == case.a1
    assert found.text == "q3"


async def test_a_summary_of_everything_hangs_at_the_root(case: Case) -> None:
    fake = Fake()

    found = await case.go(case.q1, summarize=True, summarizer=fake)

    assert fake.asked[0][0] == [case.q1, case.a1, case.q3, case.a3]
    assert found.entry is not None
    assert found.entry.parent is None
    assert found.text == "q1"


async def test_branch_summaries_nest(case: Case) -> None:
    fake = Fake()
    first = await case.go(case.a2, summarize=True, summarizer=fake)
    a4 = case.add(said("a4"))

    second = await case.go(case.a3, summarize=True, summarizer=fake)

    assert first.entry is not None
    assert fake.asked[1][0] == [case.q2, case.a2, first.entry.id, a4]
    assert second.entry is not None
    assert (second.entry.parent, second.entry.from_id) == (case.a3, a4)


async def test_further_down_nothing_is_left_behind_and_nobody_is_asked(
    case: Case,
) -> None:
    await case.go(case.a1)
    fake = Fake()

    found = await case.go(case.a2, summarize=True, summarizer=fake)

    assert found == Navigation(case.a1, case.a2)
    assert fake.asked == []


async def test_a_branch_on_which_nothing_was_said_is_refused(case: Case) -> None:
    end = RunEnd(outcome="failed", reason="auth", exit_code=5)
    case.session.append(RunStart(model="m"), end)
    before = case.written()

    with pytest.raises(NavigationRefused, match="No content to summarize") as refused:
        await case.go(case.a3, summarize=True, summarizer=Fake())

    assert str(refused.value) == NO_CONTENT
    assert case.written() == before
    assert case.told == []


async def test_during_a_run_or_a_compaction_the_leaf_stays(case: Case) -> None:
    """pi#6558, pi#9178."""
    compacting = CompactionStart(
        compaction_id="c", reason="manual", mode="worker", tokens_before=1
    )
    case.session.append(compacting)
    with pytest.raises(NavigationRefused, match="compaction is under way"):
        await case.go(case.a2)
    case.session.append(RunStart(model="m"))
    with pytest.raises(NavigationRefused, match="run is under way"):
        await case.go(case.a2)

    assert len(case.of(Leaf)) == 1, "that of the fixture"


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_a_navigation_that_a_crash_cut_off_did_not_take_place(
    case: Case, lost: int
) -> None:
    """Its lines are one write; a power cut may leave some of them."""
    opened = case.add(call("c1"))
    case.session.navigate(case.a2)
    items = list(case.session.items)
    await case.go(opened, summarize=True, summarizer=Fake(), label="tried")
    path = case.session.path
    assert path is not None
    case.session.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-lost]) + lines[-lost][:20])

    with Session.open(path) as session:
        assert (session.leaf, list(session.items)) == (case.a2, items)
        told = [entry for entry in session.recovered if isinstance(entry, Notice)]
        assert [notice.message for notice in told if notice.message == CUT_OFF]
    with Session.open(path) as session:
        assert (session.leaf, session.recovered) == (case.a2, ())


async def test_a_compaction_that_keeps_what_is_not_there_is_told(case: Case) -> None:
    """pi#9178: its first kept entry is on another branch."""
    wrong = replace(SUMMARY, first_kept=case.q2, compacted_from=case.a3)
    [compaction] = case.session.append(wrong)
    await case.go(case.a2)
    case.told.clear()

    await case.go(compaction.id)

    assert case.session.items == [user("q1"), said("a1"), user("q3"), said("a3")]
    [warning] = [event for event in case.told if isinstance(event, Warning)]
    assert f"keeps {case.q2}, which is not in what it compacted" in warning.message


async def test_without_a_model_there_is_no_summary(case: Case) -> None:
    with pytest.raises(NavigationRefused, match="No model available"):
        await case.go(case.a2, summarize=True)

    assert case.session.leaf == case.a3


async def test_instructions_reach_the_summariser(case: Case) -> None:
    fake = Fake()

    await case.go(
        case.a2,
        summarize=True,
        instructions="the tests",
        replace_instructions=True,
        summarizer=fake,
    )

    assert fake.asked == [([case.q3, case.a3], "the tests", True)]


@pytest.mark.parametrize("summarize", [False, True])
async def test_a_label_goes_on_the_summary_and_else_on_the_target(
    case: Case, summarize: bool
) -> None:
    found = await case.go(
        case.q2, summarize=summarize, label="retry", summarizer=Fake()
    )

    labelled = found.entry.id if found.entry else case.q2
    labels = {id: label.label for id, label in case.session.tree.labels.items()}
    assert labels == {labelled: "retry"}


async def test_a_label_is_set_even_where_the_leaf_stays(case: Case) -> None:
    await case.go(case.a3, label="here")

    assert case.session.tree.labels[case.a3].label == "here"
    assert case.session.leaf == case.a3


async def test_aborted_the_leaf_is_where_it_was(case: Case) -> None:
    abort, asleep = trio.CancelScope(), Sleeping()

    async def stop() -> None:
        await asleep.began.wait()
        abort.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop)
        found = await case.go(case.a2, summarize=True, summarizer=asleep, abort=abort)

    assert found == Navigation(case.a3, case.a3, cancelled=True, message="cancelled")
    assert case.session.leaf == case.a3
    [failed] = case.of(NavigationFailed)
    assert isinstance(failed, NavigationFailed)
    assert (failed.target, failed.code) == (case.a2, "cancelled")
    assert (failed.usage, failed.cost_usd) == (USED, 0.5)


async def test_cancelled_from_outside_the_cancel_passes(case: Case) -> None:
    asleep = Sleeping()

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asleep.began.wait)
            scope.cancel()
            await case.go(case.a2, summarize=True, summarizer=asleep)

    assert scope.cancelled_caught
    assert case.session.leaf == case.a3


async def test_a_failure_leaves_the_leaf_and_stands_in_the_log(case: Case) -> None:
    error = NavigationMissed("the branch summary was cut off", code="truncated")

    with pytest.raises(NavigationMissed, match="cut off"):
        await case.go(case.a2, summarize=True, summarizer=Fake(error=error))

    assert case.session.leaf == case.a3
    [failed] = case.of(NavigationFailed)
    assert isinstance(failed, NavigationFailed)
    assert (failed.code, failed.usage, failed.cost_usd) == ("truncated", USED, 0.5)
    assert case.of(BranchSummary) == []


async def test_a_fault_of_the_summariser_is_told_as_such(case: Case) -> None:
    with pytest.raises(ZeroDivisionError):
        await case.go(
            case.a2, summarize=True, summarizer=Fake(error=ZeroDivisionError())
        )

    assert case.session.leaf == case.a3
    [failed] = case.of(NavigationFailed)
    assert isinstance(failed, NavigationFailed)
    assert failed.code == "crashed"


async def test_a_session_that_went_on_meanwhile_is_not_moved(case: Case) -> None:
    """omp#7474: what was said in the meantime is not cut off."""

    def go_on() -> None:
        case.add(said("late"))

    fake = Fake(meanwhile=go_on)

    with pytest.raises(NavigationMissed, match="went on"):
        await case.go(case.a2, summarize=True, summarizer=fake)

    assert case.session.items[-1] == said("late")
    [failed] = case.of(NavigationFailed)
    assert isinstance(failed, NavigationFailed)
    assert (failed.code, failed.usage, failed.cost_usd) == ("moved", USED, 0.5)


async def test_input_that_came_meanwhile_waits_where_the_session_goes(
    case: Case,
) -> None:
    def accept() -> None:
        case.session.append(InputEntry(input="i1", text="hello"))

    found = await case.go(case.a2, summarize=True, summarizer=Fake(meanwhile=accept))

    assert [entry.text for entry in case.session.pending_inputs] == ["hello"]
    assert found.entry is not None
    accepted = case.of(InputEntry)[0]
    assert found.entry.from_id == accepted.id, "the leaf that was really left"


async def test_all_of_it_is_one_write_and_survives_a_restart(case: Case) -> None:
    found = await case.go(case.a2, summarize=True, summarizer=Fake(), label="tried")
    items = list(case.session.items)
    path = case.session.path
    case.session.close()
    assert path is not None

    with Session.open(path) as session:
        assert session.leaf == found.new_leaf
        assert list(session.items) == items
        assert session.recovered == ()
    kinds = [type(entry) for entry in read_log(path).entries[-3:]]
    assert kinds == [Leaf, BranchSummary, Label]


@pytest.mark.parametrize("room", [0, 1, 200, 400])
async def test_on_a_full_disk_the_session_stays_where_it_is(
    case: Case, room: int
) -> None:
    path, items = case.session.path, list(case.session.items)
    assert path is not None
    case.session.close()
    disk = SmallDisk(1 << 30)
    with Session.open(path, disk=disk) as session:
        disk.room = room
        with pytest.raises(DiskFull):
            await navigate(session, case.a2, summarize=True, summarizer=Fake())
        assert (session.leaf, list(session.items)) == (case.a3, items)
        disk.room = 1 << 20
        found = await navigate(session, case.a2, summarize=True, summarizer=Fake())

    assert found.entry is not None
    assert found.entry.parent == case.a2
    assert read_log(path).damage == ()


@pytest.mark.parametrize("cut", range(12))
async def test_wherever_a_write_is_cut_off_the_leaf_is_the_old_or_the_new_one(
    case: Case, cut: int
) -> None:
    before = case.session.path.stat().st_size if case.session.path else 0
    found = await case.go(case.a2, summarize=True, summarizer=Fake(), label="x")
    path = case.session.path
    assert path is not None
    case.session.close()
    data = path.read_bytes()
    size = before + (len(data) - before) * cut // 11
    path.write_bytes(data[:size])

    with Session.open(path) as session:
        whole = size in {len(data), len(data) - 1}
        assert session.leaf == (found.new_leaf if whole else case.a3)


async def test_a_call_that_stands_open_is_answered_before_the_summary(
    case: Case,
) -> None:
    opened = case.add(call("c1"))
    await case.go(case.a2)

    found = await case.go(opened, summarize=True, summarizer=Fake())

    kinds = [type(entry).__name__ for entry in case.written()[-3:]]
    assert kinds == ["Leaf", "ItemEntry", "BranchSummary"]
    assert found.entry is not None
    assert found.entry.parent == case.written()[-2].id


async def test_the_start_is_told_before_the_leaf_moves(case: Case) -> None:
    await case.go(case.q2, summarize=True, summarizer=Fake())

    assert case.told == [
        NavigateStart(
            target=case.q2,
            old_leaf=case.a3,
            new_leaf=case.a1,
            entries=2,
            summarize=True,
        )
    ]
