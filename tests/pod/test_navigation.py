"""Moving the leaf: where it goes, what is left behind, and what may stop it."""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from pod.branch_summary.content import NO_CONTENT
from pod.branch_summary.summary import Summarized, Summarizer
from pod.compaction.framing import branch_summary_text
from pod.entries import (
    AnyEntry,
    BranchSummary,
    CompactionStart,
    CustomMessage,
    FileDetails,
    InputEntry,
    ItemEntry,
    Known,
    Label,
    Leaf,
    NavigationFailed,
    Notice,
    RunEnd,
    RunStart,
)
from pod.errors import DiskFull, EntryNotFound, NavigationMissed, NavigationRefused
from pod.events import NavigateStart
from pod.hooks.answers import BeforeTreeAnswer, HookSummary
from pod.hooks.hooks import Hook, Hooks
from pod.hooks.payloads import AnyPayload, BeforeTree, Navigated
from pod.log import read_log
from pod.navigation import Navigation, navigate
from pod.recovery import CUT_OFF
from pod.session import Session
from tests.makers import call, said, synthetic, user
from tests.pod.compaction.histories import SUMMARY
from tests.pod.faults import SmallDisk
from tests.pod.logs import HEADER
from worker.events import Warning
from worker.items import Item, SystemText
from worker.limits import Spent
from worker.usage import Usage

USED = Usage(input=100, output=20)


class Fake:
    """Summarises a branch by naming its entries; *meanwhile* happens before that."""

    def __init__(
        self,
        *,
        error: Exception | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self.asked: list[tuple[list[str], str, bool]] = []
        self._error = error
        self._meanwhile = meanwhile

    async def summarize(
        self,
        entries: Sequence[AnyEntry],
        *,
        spent: Spent,
        instructions: str = "",
        replace_instructions: bool = False,
    ) -> Summarized:
        ids = [entry.id for entry in entries]
        self.asked.append((ids, instructions, replace_instructions))
        spent.charge(USED, Decimal("0.5"))
        await trio.lowlevel.checkpoint()
        self._meanwhile()
        if self._error is not None:
            raise self._error
        return Summarized(
            text=f"Did {' '.join(ids)}.",
            details=FileDetails(modified_files=("a.py",)),
            summarised=len(ids),
            left_out=0,
            model="m",
            seconds=1.5,
        )


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


class Case:
    """A session on which two ways lead on from the same answer.

    q1 - a1 - q2 - a2 and, from a1, q3 - a3: the names are attributes, the leaf is
    at a3.
    """

    def __init__(self, path: Path) -> None:
        self.session = Session.create(path, HEADER)
        self.told: list[NavigateStart | Warning] = []
        self.q1 = self.add(user("q1"))
        self.a1 = self.add(said("a1"))
        self.q2 = self.add(user("q2"))
        self.a2 = self.add(said("a2"))
        self.session.navigate(self.a1)
        self.q3 = self.add(user("q3"))
        self.a3 = self.add(said("a3"))

    def add(self, item: Item) -> str:
        [entry] = self.session.append(ItemEntry(item=item))
        return entry.id

    async def go(
        self,
        target: str | None,
        *,
        summarize: bool = False,
        instructions: str = "",
        replace_instructions: bool = False,
        label: str = "",
        hooks: Hooks | None = None,
        summarizer: Summarizer | None = None,
        abort: trio.CancelScope | None = None,
    ) -> Navigation:
        return await navigate(
            self.session,
            target,
            summarize=summarize,
            instructions=instructions,
            replace_instructions=replace_instructions,
            label=label,
            hooks=hooks,
            summarizer=summarizer,
            tell=self.told.append,
            abort=abort,
        )

    def written(self) -> list[AnyEntry]:
        assert self.session.path is not None
        return list(read_log(self.session.path).entries)

    def of(self, kind: type[Known]) -> list[AnyEntry]:
        return [entry for entry in self.written() if isinstance(entry, kind)]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path / "s.jsonl")
    yield case
    case.session.close()


def hooks(answer: object, heard: list[AnyPayload] | None = None) -> Hooks:
    """Return a hook of both events; *answer* is for the one before."""

    async def ask(payload: AnyPayload) -> object:
        if heard is not None:
            heard.append(payload)
        if isinstance(payload, Navigated):
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Hooks(
        [
            Hook(event="session_before_tree", name="h", ask=ask),
            Hook(event="session_tree", name="h", ask=ask),
        ]
    )


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


async def test_hooks_hear_of_a_navigation_before_and_after(case: Case) -> None:
    heard: list[AnyPayload] = []

    found = await case.go(
        case.q2,
        summarize=True,
        instructions="i",
        label="l",
        summarizer=Fake(),
        hooks=hooks(None, heard),
    )

    assert heard == [
        BeforeTree(
            session="s1",
            target=case.q2,
            old_leaf=case.a3,
            common_ancestor=case.a1,
            entries=(case.q3, case.a3),
            wants_summary=True,
            instructions="i",
            replace_instructions=False,
            label="l",
        ),
        Navigated(
            session="s1",
            old_leaf=case.a3,
            new_leaf=found.new_leaf,
            entry=found.entry,
            from_hook=False,
        ),
    ]


async def test_a_hook_can_cancel(case: Case) -> None:
    heard: list[AnyPayload] = []
    answer = BeforeTreeAnswer(cancel=True, message="not now")

    found = await case.go(
        case.a2, summarize=True, summarizer=Fake(), hooks=hooks(answer, heard)
    )

    assert found == Navigation(case.a3, case.a3, cancelled=True, message="not now")
    assert case.session.leaf == case.a3
    assert [type(payload) for payload in heard] == [BeforeTree]


async def test_a_hook_s_summary_is_used_where_one_was_asked_for(case: Case) -> None:
    fake = Fake()
    details = FileDetails(read_files=("r",))
    answer = BeforeTreeAnswer(summary=HookSummary(text="By hook.", details=details))

    found = await case.go(case.a2, summarize=True, summarizer=fake, hooks=hooks(answer))

    assert fake.asked == []
    assert found.entry is not None
    assert (found.entry.summary, found.entry.details) == ("By hook.", details)
    assert found.entry.from_hook


async def test_a_hook_s_summary_is_not_used_where_none_was_asked_for(
    case: Case,
) -> None:
    answer = BeforeTreeAnswer(summary=HookSummary(text="By hook."))

    found = await case.go(case.a2, hooks=hooks(answer))

    assert found == Navigation(case.a3, case.a2)


@pytest.mark.parametrize("text", [" \n", "x" * 64_001])
async def test_a_hook_s_summary_that_cannot_be_used_is_told_and_replaced(
    case: Case, text: str
) -> None:
    fake = Fake()
    answer = BeforeTreeAnswer(summary=HookSummary(text=text))

    found = await case.go(case.a2, summarize=True, summarizer=fake, hooks=hooks(answer))

    assert len(fake.asked) == 1
    assert found.entry is not None
    assert not found.entry.from_hook
    assert [type(event) for event in case.told] == [Warning, NavigateStart]


async def test_a_hook_that_throws_changes_nothing(case: Case) -> None:
    fake = Fake()

    found = await case.go(
        case.a2, summarize=True, summarizer=fake, hooks=hooks(ValueError("boo"))
    )

    assert len(fake.asked) == 1
    assert found.new_leaf == case.session.leaf != case.a3


async def test_a_hook_can_set_the_instructions_and_the_label(case: Case) -> None:
    fake = Fake()
    answer = BeforeTreeAnswer(
        instructions="only files", replace_instructions=True, label="by hook"
    )

    found = await case.go(
        case.a2,
        summarize=True,
        instructions="asked",
        summarizer=fake,
        hooks=hooks(answer),
    )

    assert fake.asked[0][1:] == ("only files", True)
    assert found.entry is not None
    assert case.session.tree.labels[found.entry.id].label == "by hook"
