from typing import Literal

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pod.compaction.cut import Cut, NoCut, find_cut
from pod.context import context
from pod.entries import (
    CompactionStart,
    Custom,
    CustomMessage,
    InputEntry,
    Known,
    ModelChange,
    UsageEntry,
)
from pod.view import View, problems_of_path
from tests.corpus import corpus
from tests.makers import MODEL, call, result, said, thought, told, user
from tests.pod.compaction.counting import count
from tests.pod.compaction.histories import compacted, cut_of, path_of
from tests.strategies import THINKING, histories, models, modest
from worker.history import faults, is_paused, is_signed, stretches
from worker.items import FromModel, Item, Reasoning, SystemText, ToolResult, UserText
from worker.model import Model
from worker.validate import problems
from worker.wire import to_request

USED = UsageEntry(
    response="r", model="m", stop_reason="tool_use", usage=None, context_tokens=None
)


def long(tokens: int) -> str:
    return "word" * tokens


def batch(name: str, tokens: int = 10, *, reasons: bool = False) -> list[Item]:
    """One call and its result of some tokens."""
    lead: list[Item] = [thought(of=name)] if reasons else []
    return [*lead, call(name), result(name, long(tokens))]


def kept_by(path: list[Known], cut: Cut | NoCut) -> list[Item]:
    """Return the items behind the summary once *cut* is committed."""
    assert isinstance(cut, Cut)
    items = context(compacted(path, cut))
    return items[1:] if cut.index else items


def test_about_the_newest_tokens_are_kept() -> None:
    path = path_of(user("a"), said(long(500)), user("b"), said(long(50)), user("c"))

    cut = cut_of(path, retained=100)

    assert kept_by(path, cut) == [user("b"), said(long(50)), user("c")]
    assert isinstance(cut, Cut)
    assert cut == Cut(
        index=2,
        first_kept="e3",
        dropped_reasoning=(),
        clips=(),
        summarised_tokens=count(user("a")) + count(said(long(500))),
        kept_tokens=count(user("b")) + count(said(long(50))) + count(user("c")),
    )


def test_a_short_history_is_left_alone() -> None:
    cut = cut_of(path_of(user("a"), said("b")), retained=100)

    assert isinstance(cut, NoCut)
    assert cut.reason == "all_kept"


def test_an_empty_history_has_nothing_to_cut() -> None:
    cut = cut_of([])

    assert isinstance(cut, NoCut)
    assert cut.reason == "empty"


def test_nothing_is_cut_while_a_call_runs() -> None:
    """Also in front of it: pi#4570 and its kin."""
    path = path_of(user(long(500)), said(long(500)), call("1"))

    cut = cut_of(path, retained=10)

    assert isinstance(cut, NoCut)
    assert cut.reason == "unanswered"


def test_a_call_and_its_result_are_never_parted() -> None:
    path = path_of(user("a"), *batch("1", 500), *batch("2", 500))

    for retained in range(0, 1200, 50):
        cut = cut_of(path, retained=retained)

        assert (
            faults(context(compacted(path, cut)) if isinstance(cut, Cut) else []) == []
        )


def test_parallel_calls_stay_together() -> None:
    both: list[Item] = [
        call("1", "r"),
        call("2", "r"),
        result("1", long(300)),
        result("2", "ok"),
    ]
    path = path_of(user("a"), said("x"), user("b"), *both)

    assert kept_by(path, cut_of(path, retained=20)) == both


def test_a_large_unit_is_kept_whole_while_there_is_room() -> None:
    path = path_of(user("a"), said("x"), user("b"), *batch("1", 500))

    assert kept_by(path, cut_of(path, retained=100, room=600)) == batch("1", 500)


def test_a_large_unit_behind_a_small_one_is_summarised_where_there_is_no_room() -> None:
    path = path_of(user("a"), *batch("1", 500), *batch("2"), user("b"))

    assert kept_by(path, cut_of(path, retained=100, room=300)) == [
        *batch("2"),
        user("b"),
    ]


@pytest.mark.parametrize("room", [10_000, 300])
def test_results_are_kept_until_the_model_has_seen_them(room: int) -> None:
    """Input that came meanwhile stands behind them; they go with it, clipped if need be."""
    new: list[Item] = [*batch("2", 500), user("b")]
    path = path_of(user("a"), *batch("1", 500), *new)

    kept = kept_by(path, cut_of(path, retained=5, room=room))

    assert [type(item) for item in kept] == [type(item) for item in new]
    assert (kept == new) is (room == 10_000)


def test_the_newest_unit_is_clipped_where_it_exceeds_the_room_alone() -> None:
    """pi#7201, case 18: the last result is larger than all that may be kept."""
    path = path_of(user("a"), said("x"), user("b"), *batch("1", 5_000))

    cut = cut_of(path, retained=100, room=400)

    kept = kept_by(path, cut)
    assert isinstance(cut, Cut)
    assert sum(map(count, kept)) == cut.kept_tokens <= 400
    [made, clipped] = kept
    assert made == call("1")
    assert isinstance(clipped, ToolResult)
    assert "left out; the full text is in the session log, entry e5" in (
        clipped.content or ""
    )
    assert (clipped.content or "").startswith("wordword")
    assert (clipped.content or "").endswith("wordword")


def test_a_result_larger_than_the_budget_is_cut_behind_or_clipped() -> None:
    """Case 18: 14,073 words in one result, 8,000 tokens to keep."""
    rows = corpus("cases/inputs/18-window-8k.jsonl").read_text().splitlines()
    longest = max(rows, key=len)
    path = path_of(user("a"), said("x"), user("b"), call("1"), result("1", longest))

    whole = cut_of(path, retained=8_000, room=20_000)
    clipped = cut_of(path, retained=8_000, room=8_000)

    assert kept_by(path, whole) == [call("1"), result("1", longest)]
    assert isinstance(clipped, Cut)
    assert clipped.index == 3
    assert 7_000 < clipped.kept_tokens <= 8_000


def test_where_nothing_comes_before_the_newest_unit_the_clip_alone_is_progress() -> (
    None
):
    path = path_of(*batch("1", 5_000))

    cut = cut_of(path, retained=100, room=400)

    assert isinstance(cut, Cut)
    assert cut.index == 0
    assert [clip.entry for clip in cut.clips] == ["e2"]
    assert sum(map(count, kept_by(path, cut))) <= 400


def test_all_is_summarised_where_nothing_is_to_be_kept() -> None:
    path = path_of(user("a"), said("b"))

    cut = cut_of(path, retained=0)

    assert kept_by(path, cut) == []
    assert isinstance(cut, Cut)
    assert cut.first_kept is None


def test_system_items_count_and_can_be_cut_at() -> None:
    """Pi left custom messages out of the walk."""
    path = path_of(
        user("a"),
        CustomMessage(kind="k", text=long(500)),
        CustomMessage(kind="k", text="b"),
        said("c"),
    )

    assert kept_by(path, cut_of(path, retained=40)) == [told("[k] b"), said("c")]


def test_entries_without_items_stay_with_the_first_kept_one() -> None:
    path = path_of(
        user("a"),
        said(long(500)),
        ModelChange(model="m"),
        USED,
        user("b"),
    )

    cut = cut_of(path, retained=50)

    assert isinstance(cut, Cut)
    assert (cut.index, cut.first_kept) == (2, "e3")


def test_entries_before_the_first_kept_one_do_not_reach_over_a_compaction() -> None:
    first = path_of(user("a"), said(long(500)), ModelChange(model="m"))
    path = compacted(first, cut_in(first, retained=0))
    path = path_of(*path, USED, user("b"), said(long(500)), user("c"))

    cut = cut_of(path, retained=50)
    all_of_it = cut_of(path, retained=520)

    assert isinstance(cut, Cut)
    assert cut.first_kept == "e8"
    assert isinstance(all_of_it, Cut | NoCut)


def cut_in(path: list[Known], *, retained: int) -> Cut:
    cut = cut_of(path, retained=retained)
    assert isinstance(cut, Cut)
    return cut


def test_what_comes_while_everything_is_summarised_is_kept() -> None:
    start = CompactionStart(
        compaction_id="k", reason="manual", mode="worker", tokens_before=1
    )
    path = path_of(user("a"), said("b"), start)
    cut = cut_in(path, retained=0)

    later = path_of(*path, user("meanwhile"))

    assert cut.first_kept == "e3"
    assert context(compacted(later, cut))[1:] == [user("meanwhile")]


def test_the_kept_part_never_starts_at_an_input_that_a_fork_may_leave_out() -> None:
    path = path_of(
        user("a"),
        said(long(500)),
        InputEntry(input="i", text="x"),
        Custom(kind="k", json="{}"),
        InputEntry(input="j", text="y"),
        user("b"),
    )

    assert cut_in(path, retained=50).first_kept == "e4"
    assert cut_in(path_of(*path[:3], user("b")), retained=50).first_kept == "e4"


LOOP = [
    user("a"),
    *batch("1", 300, reasons=True),
    *batch("2", 300, reasons=True),
    *batch("3", 20, reasons=True),
    *batch("4", 20, reasons=True),
]
"""One turn that goes on and on; thought of c is 12 tokens or so."""


def test_a_signed_loop_is_cut_before_its_first_response_while_it_fits() -> None:
    path = path_of(*LOOP)

    assert kept_by(path, cut_of(path, retained=150, room=10_000)) == LOOP[1:]


def test_inside_a_giant_signed_loop_the_kept_part_loses_its_reasoning() -> None:
    path = path_of(*LOOP)

    cut = cut_of(path, retained=150, room=200)

    assert isinstance(cut, Cut)
    assert cut.dropped_reasoning == ("e8", "e11")
    assert kept_by(path, cut) == [*batch("3", 20), *batch("4", 20)]


def test_what_the_model_reasons_after_such_a_cut_is_shown() -> None:
    path = path_of(*LOOP)
    cut = cut_in_room(path)

    later = path_of(*compacted(path, cut), *batch("5", 20, reasons=True))

    assert context(later)[-3:] == batch("5", 20, reasons=True)


def cut_in_room(path: list[Known]) -> Cut:
    cut = cut_of(path, retained=150, room=200)
    assert isinstance(cut, Cut)
    return cut


def test_the_reasoning_of_later_turns_is_kept_by_a_cut_inside_an_earlier_loop() -> None:
    loop = [*LOOP[:7], *batch("3", 20, reasons=True), said("done", "r-done")]
    path = path_of(*loop, user("b"), *batch("4", 20, reasons=True))

    assert kept_by(path, cut_of(path, retained=200, room=230)) == [
        *batch("3", 20),
        said("done", "r-done"),
        user("b"),
        *batch("4", 20, reasons=True),
    ]


def test_a_second_cut_inside_the_same_loop_is_legal_too() -> None:
    path = path_of(*LOOP)
    path = compacted(path, cut_in_room(path))
    path = path_of(
        *path, *batch("5", 100, reasons=True), *batch("6", 100, reasons=True)
    )

    cut = cut_of(path, retained=150, room=200)

    assert kept_by(path, cut) == batch("6", 100)


@pytest.mark.parametrize("thinking", THINKING)
def test_the_request_after_such_a_cut_is_one_the_api_takes(
    thinking: Literal["adaptive", "off"] | int | None,
) -> None:
    model = replace(MODEL, thinking=thinking)
    path = path_of(*LOOP)

    items = context(compacted(path, cut_in_room(path)))
    request = to_request(items, system="s", tools=(), model=model)

    assert problems(request, model=model) == []


BESIDE: list[Known] = [USED, ModelChange(model="m")]


@st.composite
def windows(draw: st.DrawFn) -> tuple[list[Known], int, int | None]:
    """A path with items of all sizes, what to keep, and the room there is."""
    items = draw(histories(is_hostile=False))
    path: list[Item | Known] = []
    for item in items:
        if isinstance(item, ToolResult) and draw(st.booleans()):
            item = ToolResult(item.call_id, "r", long(draw(st.sampled_from([9, 400]))))
        path.append(item)
        if draw(st.integers(0, 4)) == 0:
            path.append(draw(st.sampled_from(BESIDE)))
    retained = draw(st.sampled_from([0, 20, 100, 400, 2_000]))
    room = draw(st.sampled_from([None, 0, 100, 500, 2_000]))
    return path_of(*path), retained, room


@modest
@given(windows(), models())
def test_every_item_is_either_summarised_or_kept_and_the_request_is_legal(
    drawn: tuple[list[Known], int, int | None], model: Model
) -> None:
    path, retained, room = drawn
    before = View(path).window().shown

    cut = cut_of(path, retained=retained, room=room)

    if isinstance(cut, NoCut):
        total = sum(count(shown.item) for shown in before)
        is_seen = any(isinstance(shown.item, FromModel) for shown in before)
        assert (
            room is None
            or total <= max(room, retained)
            or len(before) < 3
            or not is_seen
        )
        return
    after = compacted(path, cut)
    clips = {clip.entry for clip in cut.clips}
    kept = {shown.entry: shown.item for shown in View(after).window().shown}
    expected = {
        shown.entry: shown.item
        for shown in before[cut.index :]
        if shown.entry not in cut.dropped_reasoning
    }
    assert list(kept) == list(expected)
    assert {id: item for id, item in kept.items() if id not in clips} == {
        id: item for id, item in expected.items() if id not in clips
    }
    assert cut.kept_tokens == sum(map(count, kept.values()))
    assert problems_of_path(after) == []
    items = context(after)
    assert faults(items) == []
    request = to_request(items, system="s", tools=(), model=model)
    assert problems(request, model=model) == []


def reasoning_by_loop(items: list[Item]) -> list[list[str]]:
    """Return the ids of the signed reasoning of each tool loop (e1 is the first)."""
    loops: list[list[str]] = []
    joined = False
    for start, end in stretches(items):
        stretch = items[start:end]
        first = stretch[0]
        if isinstance(first, ToolResult):
            joined = True
        elif isinstance(first, UserText):
            joined = joined and not (first.text.strip() or first.images)
        elif not isinstance(first, SystemText):
            if not joined:
                loops.append([])
            loops[-1] += [
                f"e{start + at}"
                for at, item in enumerate(stretch, 1)
                if is_signed(item)
            ]
            joined = is_paused(stretch)
    return loops


@modest
@given(histories(is_hostile=False), st.integers(1, 300))
def test_a_loop_keeps_its_signed_reasoning_as_a_whole_or_loses_it(
    items: list[Item], retained: int
) -> None:
    path = path_of(*items)
    cut = cut_of(path, retained=retained, room=retained + 20)
    if isinstance(cut, NoCut) or not cut.index:
        return

    kept = {shown.entry for shown in View(compacted(path, cut)).window().shown}

    for loop in reasoning_by_loop(items):
        assert kept.isdisjoint(loop) or kept.issuperset(loop)


@modest
@given(
    histories(is_hostile=False), st.lists(st.integers(0, 400), min_size=2, max_size=4)
)
def test_chained_compactions_lose_nothing(items: list[Item], sizes: list[int]) -> None:
    """Ten in a row or two: each item is summarised once, or still shown."""
    summarised: list[str] = []
    path: list[Known] = []
    step = max(1, len(items) // len(sizes))
    added: list[str] = []
    for at, retained in enumerate(sizes):
        start = at * step
        end = len(items) if at == len(sizes) - 1 else start + step
        path = path_of(*path, *items[start:end])
        added = [entry.id for entry in path if entry.__struct_config__.tag == "item"]
        cut = cut_of(path, retained=retained)
        if isinstance(cut, NoCut):
            continue
        shown = View(path).window().shown
        summarised += [one.entry for one in shown[: cut.index]]
        summarised += cut.dropped_reasoning
        path = compacted(path, cut)

    left = [one.entry for one in View(path).window().shown]

    assert sorted([*summarised, *left]) == sorted(added)


def test_a_window_of_thousands_of_items_is_cut_at_once() -> None:
    counted: list[Item] = []
    items: list[Item] = [user("a")]
    for n in range(3_000):
        items += batch(str(n), 10, reasons=True)
    path = path_of(*items)

    def counting(item: Item) -> int:
        counted.append(item)
        return count(item)

    cut = find_cut(
        View(path).window(), retained_tokens=5_000, room=6_000, count=counting
    )

    assert isinstance(cut, Cut)
    assert 0 < cut.kept_tokens <= 6_000
    assert len(counted) == len(items)


def test_a_loop_that_has_reasoning_without_a_signature_is_cut_as_any_other() -> None:
    loose: list[Item] = [
        Reasoning("hm", "r-1", MODEL.id),
        call("1"),
        result("1", long(300)),
        Reasoning("hm", "r-2", MODEL.id),
        call("2"),
        result("2", long(20)),
    ]
    path = path_of(user("a"), *loose)

    assert kept_by(path, cut_of(path, retained=60, room=100)) == loose[3:]
