from random import Random

from hypothesis import given, settings, strategies as st

from pod.context import State, context, state
from pod.entries import (
    Custom,
    CustomMessage,
    DeliveredEntry,
    InputEntry,
    ItemEntry,
    ModelChange,
    PromptChange,
    RunEnd,
    RunStart,
    ToolStart,
)
from pod.scan import scan
from pod.tree import Tree
from tests.pod.logs import HEADER, chain, random_tree, said, written
from worker.items import SystemText, ToolResult, UserText


def test_the_model_sees_items_and_custom_messages_in_their_order() -> None:
    path = chain(
        RunStart(model="m"),
        InputEntry(input="i", text="one"),
        said("one"),
        DeliveredEntry(inputs=("i",)),
        CustomMessage(kind="tests", text="{kind} 3 failed {text}"),
        Custom(kind="tests", json="{}"),
        ItemEntry(item=ToolResult("c", "done")),
    )

    assert context(path) == [
        UserText("one"),
        SystemText("[tests] {kind} 3 failed {text}"),
        ToolResult("c", "done"),
    ]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100_000))
def test_reading_a_log_again_gives_the_same_items(seed: int) -> None:
    tree = Tree(random_tree(Random(seed), 40))

    for leaf in [None, *(entry.id for entry in tree.path(tree.leaf))]:
        path = tree.path(leaf)

        again = Tree(scan([written(path)]).entries)

        assert context(again.path(leaf)) == context(path)


def test_the_state_is_that_of_the_last_changes() -> None:
    done = RunEnd(outcome="limit", reason="max_requests", exit_code=3, interrupted=True)
    path = chain(
        RunStart(model="m1"),
        ToolStart(call_id="c1", name="bash"),
        done,
        ModelChange(model="m2"),
        PromptChange(system="Be brief."),
    )

    before, after = state(HEADER, path[:2]), state(HEADER, path)

    start = path[0]
    assert isinstance(start, RunStart)
    assert before == State("You are Pod.", "m1", None, start, frozenset({"c1"}))
    assert before.interrupted
    end = path[2]
    assert isinstance(end, RunEnd)
    assert after == State("Be brief.", "m2", end, None, frozenset({"c1"}))
    assert after.interrupted
    assert state(HEADER, []) == State("You are Pod.", None, None, None, frozenset())
    assert not state(HEADER, []).interrupted
