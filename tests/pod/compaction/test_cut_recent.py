"""The second seed's cut, and which turn it splits.

From the newest item back until there are enough tokens, and then the nearest
legal point from there on.
"""

from hypothesis import given, strategies as st

from pod.compaction.cut import Cut, NoCut, cut_at, find_cut
from pod.compaction.ground import Ground, turn_start
from pod.context import context
from pod.entries import (
    BranchSummary,
    CustomMessage,
    FileDetails,
    ItemEntry,
    Known,
    ModelChange,
)
from pod.view import View, problems_of_path
from tests.makers import MODEL, call, result, said, synthetic, thought, told, user
from tests.pod.compaction.counting import count
from tests.pod.compaction.histories import compacted, path_of
from tests.strategies import histories, modest
from worker.history import faults
from worker.items import Item, ToolResult
from worker.validate import problems
from worker.wire import to_request


def long(tokens: int) -> str:
    return "word" * tokens


def recent(path: list[Known], keep: int, room: int | None = None) -> Cut | NoCut:
    return find_cut(
        View(path).window(),
        retained_tokens=keep,
        room=room,
        count=count,
        rule="at_or_after",
    )


def ground(path: list[Known], cut: Cut) -> Ground:
    return Ground(
        window=View(path).window(),
        cut=cut,
        system=0,
        tools=0,
        directives=(),
        directive_tokens=0,
        details=FileDetails(),
    )


SEED = path_of(
    user("one"),
    said("a", "r1"),
    call("1"),
    result("1", long(40)),
    user("two"),
    said(long(30), "r2"),
    call("2"),
    result("2", long(30)),
    said(long(30), "r3"),
    call("3"),
    result("3", long(30)),
)
"""The seed's picture: two turns; entries e1 to e11."""


def index_at(keep: int) -> int:
    cut = recent(SEED, keep)
    assert isinstance(cut, Cut)
    return cut.index


def test_the_cut_is_where_the_newest_have_enough_tokens_or_right_behind() -> None:
    sizes = [count(one.item) for one in View(SEED).window().shown]
    since = [sum(sizes[at:]) for at in range(len(sizes))]

    assert index_at(since[4]) == 4  # exactly enough: here
    assert index_at(since[4] - 1) == 4  # a little less: still here
    assert index_at(since[5] + 1) == 4
    assert index_at(since[5]) == 5
    assert index_at(since[7] + 1) == 6
    assert index_at(since[7]) == 8  # a result is no place: behind it
    assert index_at(1) == 9  # the last call and its result go together


def test_enough_for_all_leaves_nothing_to_summarise() -> None:
    cut = recent(SEED, 10_000)

    assert isinstance(cut, NoCut)
    assert cut.reason == "all_kept"


def test_one_huge_result_at_the_end_does_not_keep_everything() -> None:
    """pi#7201: no point from there on, and the first one was taken."""
    path = path_of(user("a"), said("b"), user("c"), call("1"), result("1", long(900)))

    cut = recent(path, 100)

    assert isinstance(cut, Cut)
    assert (cut.index, cut.first_kept) == (3, "e4")


def test_what_the_model_has_not_answered_is_kept() -> None:
    path = path_of(user("a"), said(long(90)), call("1"), result("1"), user(long(200)))

    cut = recent(path, 5)

    assert isinstance(cut, Cut)
    assert cut.index == 2


def test_where_the_room_is_smaller_less_is_kept() -> None:
    cut = recent(SEED, 150, room=60)

    assert isinstance(cut, Cut)
    assert (cut.index, cut.kept_tokens <= 60) == (9, True)


def test_messages_of_programs_and_branches_count_and_are_places() -> None:
    """origins.md §4: custom messages and branch summaries were not counted."""
    path = path_of(
        user("a"),
        said(long(50)),
        CustomMessage(kind="note", text=long(100)),
        said("b"),
        BranchSummary(from_id="e1", summary=long(100)),
        said("c"),
    )

    [one, other] = (recent(path, keep) for keep in (90, 190))

    assert isinstance(one, Cut)
    assert isinstance(other, Cut)
    assert (one.first_kept, other.first_kept) == ("e5", "e3")


def test_metadata_stays_with_the_first_kept_item_up_to_a_compaction() -> None:
    change = ModelChange(model="m")
    path = path_of(user("a"), said(long(90)), change, user("b"), said("c"))
    again = [*compacted(path, at(path, "e4")), *[]]
    again = path_of(*again, change, user("d"), said(long(90)))

    cut = recent(path, 10)
    after = recent(again, count(user("d")) + count(said(long(90))))

    assert isinstance(cut, Cut)
    assert (cut.index, cut.first_kept) == (2, "e3")
    assert isinstance(after, Cut)
    assert after.first_kept == "e7"  # the change; the compaction before it is e6


def at(path: list[Known], entry: str) -> Cut:
    cut = cut_at(View(path).window(), entry, count=count)
    assert isinstance(cut, Cut)
    return cut


def test_an_entry_may_be_named_where_a_cut_is_legal() -> None:
    window = View(SEED).window()
    refused = {
        "e1": "nothing would be summarised",
        "e4": "a tool call would be parted from its result, or a response from its rest",
        "e11": "what the model has not answered yet, or its last answer, has to be kept",
        "nowhere": "it is not among the entries that are in the context, which could be"
        " kept",
    }

    assert at(SEED, "e5").index == 4
    assert at(SEED, "e6").index == 5
    for entry, why in refused.items():
        assert cut_at(window, entry, count=count) == why


def test_an_entry_that_was_summarised_before_cannot_be_kept_again() -> None:
    """pi#9178: it lay off the path, and the context was the summary alone."""
    path = compacted(SEED, at(SEED, "e6"))

    assert isinstance(cut_at(View(path).window(), "e2", count=count), str)


def test_nothing_may_be_named_while_a_call_runs() -> None:
    path = path_of(user("a"), said("b"), user("c"), call("1"))

    why = cut_at(View(path).window(), "e3", count=count)

    assert why == "nothing can be cut while calls run"


def test_a_cut_inside_a_turn_splits_it() -> None:
    split = ground(SEED, at(SEED, "e9"))

    assert split.history == split.items[:4]
    assert split.turn_prefix == split.items[4:8]


def test_a_cut_where_a_turn_begins_splits_none() -> None:
    whole = ground(SEED, at(SEED, "e5"))

    assert (whole.history, whole.turn_prefix) == (whole.items[:4], [])


def test_turns_begin_with_the_user_a_program_and_a_branch_summary() -> None:
    for begin in (user("a"), synthetic(), told("note")):
        items: list[Item] = [said("x"), begin, said("y"), said("z", "q"), begin]
        assert turn_start(items, 3) == 1
        assert turn_start(items, 4) is None
        assert turn_start(items, 0) is None  # none begins before it
        assert turn_start(items, 5) is None  # nothing is kept


def test_a_turn_that_was_cut_before_is_not_split_again() -> None:
    """Its beginning is in the previous summary, which is brought up to date."""
    path = compacted(SEED, at(SEED, "e6"))
    path = path_of(*path, said("d", "r4"), call("4"), result("4", long(90)))

    cut = recent(path, 100)

    assert isinstance(cut, Cut)
    again = ground(path, cut)
    assert (again.turn_prefix, bool(again.history)) == ([], True)


@modest
@given(
    histories(is_hostile=False),
    st.integers(1, 400),
    st.one_of(st.none(), st.integers(20, 400)),
)
def test_every_item_is_summarised_in_one_of_two_parts_or_kept(
    items: list[Item], keep: int, room: int | None
) -> None:
    path = path_of(*items)
    cut = recent(path, keep, room)
    if isinstance(cut, NoCut):
        return

    parts = ground(path, cut)
    after = compacted(path, cut)

    kept = parts.items[cut.index :]
    assert [*parts.history, *parts.turn_prefix, *kept] == parts.items
    assert parts.head == [*parts.history, *parts.turn_prefix]
    assert not kept or not isinstance(kept[0], ToolResult)
    assert problems_of_path(after) == []
    assert faults(context(after)) == []
    request = to_request(context(after), system="s", tools=(), model=MODEL)
    assert problems(request, model=MODEL) == []


@modest
@given(histories(is_hostile=False), st.integers(1, 400))
def test_the_rule_holds_for_every_history(items: list[Item], keep: int) -> None:
    """No legal point lies between where there are enough tokens and the cut."""
    path = path_of(*items)
    cut = recent(path, keep)
    if isinstance(cut, NoCut):
        return

    shown = View(path).window().shown
    sizes = [count(one.item) for one in shown]
    enough = max(i for i in range(len(sizes)) if sum(sizes[i:]) >= keep)
    between = [
        one.entry
        for one in shown[enough : cut.index]
        if isinstance(cut_at(View(path).window(), one.entry, count=count), Cut)
    ]
    assert between == []
    if cut.index < enough:  # then nothing from there on can be cut
        behind = [
            one.entry
            for one in shown[enough:]
            if isinstance(cut_at(View(path).window(), one.entry, count=count), Cut)
        ]
        assert behind == []


def test_signed_reasoning_of_a_loop_that_is_cut_goes_as_a_whole() -> None:
    loop: list[Item] = [user("a")]
    for n in "123":
        loop += [thought(of=n), call(n), result(n, long(60))]
    path = path_of(*loop)

    cut = recent(path, 100)

    assert isinstance(cut, Cut)
    assert cut.index == 7
    assert cut.dropped_reasoning == ("e8",)


@modest
@given(
    histories(is_hostile=False), st.lists(st.integers(1, 400), min_size=2, max_size=4)
)
def test_chained_compactions_lose_nothing(items: list[Item], sizes: list[int]) -> None:
    """pi#2608: what was kept was gone after the second one."""
    path: list[Known] = []
    summarised: list[str] = []
    step = max(1, len(items) // len(sizes))
    for number, keep in enumerate(sizes):
        end = len(items) if number == len(sizes) - 1 else (number + 1) * step
        path = path_of(*path, *items[number * step : end])
        cut = recent(path, keep)
        if isinstance(cut, NoCut):
            continue
        shown = View(path).window().shown
        summarised += [one.entry for one in shown[: cut.index]]
        summarised += cut.dropped_reasoning
        path = compacted(path, cut)

    left = [one.entry for one in View(path).window().shown]
    added = [entry.id for entry in path if isinstance(entry, ItemEntry)]
    assert sorted([*summarised, *left]) == sorted(added)
