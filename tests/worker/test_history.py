import itertools

import pytest
from hypothesis import given, strategies as st

from tests.makers import (
    call,
    history,
    opaque,
    picture,
    result,
    said,
    synthetic,
    thought,
    told,
    user,
)
from tests.strategies import broken_histories, histories, modest
from worker.history import (
    Fault,
    Rule,
    drop_foreign_reasoning,
    faults,
    is_same_model,
    legal_cuts,
    mend,
    settle,
    unanswered,
    unique_calls,
    without_reasoning,
)
from worker.items import FromModel, Item, ToolCall, ToolResult


@modest
@given(histories())
def test_a_legal_history_has_no_faults(items: list[Item]) -> None:
    assert faults(items) == []
    assert unanswered(items) == []


@modest
@given(broken_histories())
def test_a_broken_history_is_told_what_is_broken(
    broken: tuple[list[Item], Rule],
) -> None:
    items, rule = broken

    assert rule in {fault.rule for fault in faults(items)}


@modest
@given(histories())
def test_both_sides_of_a_legal_cut_are_legal(items: list[Item]) -> None:
    cuts = legal_cuts(items)

    assert cuts[0] == 0
    assert cuts[-1] == len(items)
    assert [(faults(items[:cut]), faults(items[cut:])) for cut in cuts] == [
        ([], []) for _ in cuts
    ]


@modest
@given(histories())
def test_a_history_broken_off_anywhere_can_be_settled(items: list[Item]) -> None:
    for end in range(len(items) + 1):
        settled = [*items[:end], *settle(items[:end], "interrupted")]

        assert faults(items[:end]) == []  # what is open at the end may still run
        assert faults(settled) == []
        assert unanswered(settled) == []


def test_a_fault_says_where_and_what() -> None:
    items = history(user("go"), result("a"))

    assert faults(items) == [
        Fault("orphan_result", 1, "a result for a, which was never called")
    ]


def test_calls_whose_tools_run_are_no_fault() -> None:
    items = history(user("go"), call("a", "r"), call("b", "r"), result("a"))

    assert faults(items) == []
    assert unanswered(items) == [call("b", "r")]


def test_a_call_left_behind_is_a_fault() -> None:
    items = history(user("go"), call("a"), user("are you there?"))

    assert [fault.rule for fault in faults(items)] == ["unanswered_call"]


def test_reasoning_behind_a_call_is_fine_where_some_leads() -> None:
    items = history(thought(), call("a"), thought("more"), result("a"))

    assert faults(items) == []


def test_never_cuts_between_a_call_and_its_result() -> None:
    items = history(user("go"), call("a"), result("a"), said("done"))

    assert legal_cuts(items) == [0, 1, 3, 4]


def test_parallel_calls_and_their_results_stay_together() -> None:
    items = history(
        user("go"),
        said("both", "r"),
        call("a", "r"),
        call("b", "r"),
        result("a"),
        result("b"),
        user("thanks"),
    )

    assert legal_cuts(items) == [0, 1, 6, 7]


def test_a_signed_tool_loop_is_cut_only_before_its_first_response() -> None:
    items = history(
        user("go"),
        thought(of="a"),
        call("a"),
        result("a"),
        call("b"),
        result("b"),
        told("ten minutes left"),
        call("c"),
        result("c"),
        said("done"),
    )

    assert legal_cuts(items) == [0, 1, 10]
    assert legal_cuts(without_reasoning(items)) == [0, 1, 3, 5, 6, 8, 9]


def test_a_tool_loop_without_signed_reasoning_is_cut_between_responses() -> None:
    items = history(
        user("go"), call("a"), result("a"), call("b"), result("b"), said("done")
    )

    assert legal_cuts(items) == [0, 1, 3, 5, 6]


@pytest.mark.parametrize(
    "words", [user("also do this"), synthetic(), user("", picture())]
)
def test_user_text_ends_a_signed_tool_loop(words: Item) -> None:
    items = history(
        user("go"), thought(of="a"), call("a"), result("a"), words, call("b")
    )
    items.append(result("b"))

    assert legal_cuts(items) == [0, 1, 4, 5, 7]


def test_a_blank_user_text_ends_no_loop_for_it_is_never_sent() -> None:
    items = history(user("go"), thought(of="a"), call("a"), result("a"), user(" \n"))
    items += [call("b"), result("b")]

    assert legal_cuts(items) == [0, 1, 7]


def test_nothing_is_cut_while_a_call_is_unanswered() -> None:
    items = history(
        user("go"), said("first"), user("more"), call("a", "r"), call("b", "r")
    )
    items.append(result("a"))

    assert legal_cuts(items) == [0, 1, 2, 3]


def test_a_paused_response_stays_with_the_one_that_goes_on() -> None:
    used = '{"type":"server_tool_use","id":"srv_1","name":"web_search"}'
    found = '{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]}'
    items = history(
        user("go"), opaque(used, "r1"), opaque(found, "r2"), said("so", "r2")
    )

    assert legal_cuts(items) == [0, 1, 4]


def test_a_server_tool_answered_behind_a_tool_result_is_not_cut_off() -> None:
    used = '{"type":"server_tool_use","id":"srv_1","name":"web_search"}'
    found = '{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]}'
    items = history(user("go"), opaque(used, "r"), call("a", "r"), result("a"))
    items += [opaque(found, "s"), said("so", "s"), user("thanks")]

    assert legal_cuts(items) == [0, 1, 6, 7]


def test_a_server_tool_that_is_never_answered_does_not_stop_cuts() -> None:
    used = '{"type":"server_tool_use","id":"srv_1","name":"web_search"}'
    items = history(user("go"), opaque(used, "r"), user("never mind"), said("well"))

    assert legal_cuts(items) == [0, 1, 2, 3, 4]


def test_fifty_thousand_items_are_checked_and_cut_in_one_pass() -> None:
    items: list[Item] = []
    for number in range(12_500):
        items += [thought(of=f"{number}"), call(f"{number}"), result(f"{number}")]
        items.append(user("next"))

    assert len(legal_cuts(items)) == 25_001
    assert faults(items) == []


def test_one_response_with_many_calls_is_checked_in_one_pass() -> None:
    ids = [str(number) for number in range(25_000)]
    items: list[Item] = [call(one, "r") for one in ids]
    items += [result(one) for one in ids]

    assert legal_cuts(items) == [0, 50_000]
    assert faults(items) == []


def test_reasoning_of_another_model_goes_and_the_rest_stays() -> None:
    mine, foreign = thought("mine", "r"), thought("theirs", "r", model="other-2")
    items = history(user("go"), mine, foreign, said("hello", "r"))

    assert drop_foreign_reasoning(items, "claude-test-1") == [
        user("go"),
        mine,
        said("hello", "r"),
    ]


def test_a_dated_snapshot_is_the_same_model() -> None:
    assert is_same_model("claude-opus-5-5-20260401", "claude-opus-5-5")
    assert is_same_model("claude-opus-5-5@20260401", "claude-opus-5-5")
    assert not is_same_model("claude-opus-5", "claude-opus-5-5")


def test_settling_answers_in_call_order() -> None:
    items = history(
        user("go"), call("a", "r"), call("b", "r"), call("c", "r"), result("a")
    )

    assert settle(items, "interrupted") == [
        ToolResult("b", "interrupted", is_error=True),
        ToolResult("c", "interrupted", is_error=True),
    ]


def test_ids_are_renamed_where_empty_used_or_refused() -> None:
    fresh: list[FromModel] = [
        said("look", "r"),
        call("c1", "r", arguments='{"command":"ls"}'),
        call("c1", "r", arguments='{"command":"pwd"}'),
        call("", "r"),
        call("toolu.5", "r"),
        call("c0", "r"),
    ]
    numbers = itertools.count()

    made = unique_calls(fresh, {"c0", "n1"}, lambda: f"n{next(numbers)}")

    assert made == (
        said("look", "r"),
        call("c1", "r", arguments='{"command":"ls"}'),
        call("n0", "r", arguments='{"command":"pwd"}'),
        call("n2", "r"),
        call("n3", "r"),
        call("n4", "r"),
    )


@modest
@given(st.lists(st.sampled_from(["", "a", "b", "c d", "é"])), st.sets(st.just("a")))
def test_renamed_ids_are_unique_and_good_ones_stay(
    ids: list[str], taken: set[str]
) -> None:
    numbers = itertools.count()

    made = unique_calls(
        [call(one, "r") for one in ids], taken, lambda: f"n{next(numbers)}"
    )

    got = [item.call_id for item in made if isinstance(item, ToolCall)]
    assert len(got) == len(ids)
    assert len(set(got) - taken) == len(ids)
    for one in {"a", "b"} & set(ids) - taken:
        assert got[ids.index(one)] == one


def test_an_orphan_result_of_a_chained_compaction_is_mended() -> None:
    # corpus case 07: the call of c1 is summarised away, its result came later.
    items = history(told("summary"), call("c2"), result("c2"), result("c1"), call("c3"))
    items += [result("c3"), user("go on")]

    mended = mend(items, "interrupted")

    assert mended == [item for item in items if item != result("c1")]
    assert faults(mended) == []


def test_a_call_that_was_kept_unanswered_is_mended_where_it_stands() -> None:
    # corpus case 08: two parallel calls, one answered, then the user goes on.
    items = history(
        user("hi"), call("c1", "r"), call("c2", "r"), result("c1"), user("go on")
    )

    mended = mend(items, "interrupted")

    assert mended == [
        *items[:4],
        ToolResult("c2", "interrupted", is_error=True),
        user("go on"),
    ]


def test_a_late_real_result_takes_the_place_of_its_stand_in() -> None:
    stand_in = ToolResult("a", "interrupted", is_error=True)
    items = history(call("a"), stand_in, user("go on"), result("a"), stand_in)

    assert mend(items, "interrupted") == [call("a"), result("a"), user("go on")]


@modest
@given(histories())
def test_a_legal_history_needs_no_mending(items: list[Item]) -> None:
    assert mend(items, "interrupted") == items
