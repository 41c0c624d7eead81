"""Which input an interrupt takes back out of the history."""

from pod.entries import (
    Compaction,
    CustomMessage,
    DeliveredEntry,
    InputEntry,
    ItemEntry,
    Known,
    Leaf,
    RunEnd,
    RunStart,
)
from pod.rollback import Unanswered, taken_back, unanswered
from pod.tree import Tree
from tests.pod.logs import chain, said
from worker.items import AssistantText, ToolResult, UserText

DONE = RunEnd(outcome="finished", reason="done", exit_code=0)
FAILED = RunEnd(outcome="failed", reason="server", exit_code=6, interrupted=True)
PAUSED = RunEnd(outcome="yielded", reason="paused", exit_code=0, interrupted=True)
START = RunStart(model="m")
ANSWER = ItemEntry(item=AssistantText("b", "r"))
CONTINUE = ItemEntry(item=UserText("Continue.", synthetic=True))


def given(text: str) -> list[Known]:
    return [said(text), DeliveredEntry(inputs=(f"input {text}",))]


def test_the_input_of_a_run_without_an_answer_goes_back() -> None:
    path = chain(*given("a"), ANSWER, DONE, InputEntry(input="input b", text="b"))
    path = chain(*path, START, *given("b"), *given("c"))

    found = unanswered(path)

    assert found == Unanswered("e7", ("input b", "input c"), ("b", "c"))
    assert Tree(path).before("e7") == "e4"


def test_what_was_steered_into_an_answered_turn_stays() -> None:
    assert unanswered(chain(START, *given("a"), ANSWER, *given("b"))) is None


def test_a_result_of_a_tool_is_an_answer() -> None:
    result = ItemEntry(item=ToolResult("c", "ran"))

    assert unanswered(chain(START, *given("a"), result)) is None


def test_a_turn_that_was_paused_is_the_same_when_it_is_resumed() -> None:
    path = chain(DONE, START, *given("a"), PAUSED, START)

    assert unanswered(path) == Unanswered("e3", ("input a",), ("a",))


def test_what_an_earlier_run_failed_to_answer_stays() -> None:
    path = chain(START, *given("a"), FAILED, START, *given("b"))

    assert unanswered(path) == Unanswered("e6", ("input b",), ("b",))


def test_what_the_runtime_said_in_the_users_place_goes_with_it() -> None:
    path = chain(DONE, START, CONTINUE, *given("a"))

    assert unanswered(path) == Unanswered("e3", ("input a",), ("a",))


def test_a_run_without_the_users_input_is_not_rolled_back() -> None:
    assert unanswered(chain(DONE, START, CONTINUE)) is None
    assert unanswered(chain(DONE, START)) is None


def test_a_message_that_nobody_handed_in_keeps_its_turn_where_it_is() -> None:
    """A program may put one into the log by itself: there is nobody it goes back to."""
    assert unanswered(chain(START, said("a"), *given("b"))) is None


def test_what_may_stand_in_a_summary_stays() -> None:
    compaction = Compaction(
        compaction_id="k",
        reason="overflow",
        mode="mechanical",
        summary="s",
        first_kept=None,
        compacted_from="e3",
        tokens_before=2,
        tokens_after=1,
    )

    assert unanswered(chain(START, *given("a"), compaction)) is None
    assert unanswered(chain(START, compaction, *given("a"))) is not None


def test_what_hooks_had_the_model_told_is_no_answer() -> None:
    note = CustomMessage(kind="hook", text="t")

    assert unanswered(chain(START, *given("a"), note)) is not None


def test_nothing_is_taken_back_where_there_is_nothing() -> None:
    tree = Tree(chain(START, *given("a")))

    assert taken_back(tree, None) == ()
    back = unanswered(tree.path(tree.leaf))
    assert taken_back(tree, back)[1] == Leaf(target=None)
