"""What of a branch a summariser is given."""

from hypothesis import given, settings, strategies as st

from pod.branch_summary.content import (
    LEAST_TOKENS,
    Content,
    content_of,
    cut_to,
    has_content,
)
from pod.compaction.file_operations import branch_details
from pod.entries import (
    BranchSummary,
    CustomMessage,
    FileDetails,
    RunStart,
)
from tests.makers import call, result, said, thought, user
from tests.pod.compaction.histories import SUMMARY, path_of
from worker.compact.conversation import RESULT_CHARS

SIDE = BranchSummary(from_id="x", summary="Tried it.")


def count(text: str) -> int:
    """Count a token a character."""
    return len(text)


def test_all_of_a_small_branch_is_given_in_order() -> None:
    path = path_of(
        user("Fix it."),
        thought(),
        call("1"),
        result("1", "done"),
        CustomMessage(kind="ci", text="red"),
        SUMMARY,
        SIDE,
        said("Fixed."),
    )

    assert content_of(path, budget=10_000, count=count) == Content(
        "[User]: Fix it.\n\n"
        "[Assistant tool call]: bash()\n\n"
        "[Tool result]: done\n\n"
        "[System]: [ci] red\n\n"
        "[System]: Summary of what came before:\n    What was done.\n\n"
        "[System]: Summary of another branch that was left:\n    Tried it.\n\n"
        "[Assistant]: Fixed.",
        summarised=7,
        left_out=0,
    )


def test_the_newest_is_given_and_the_first_that_does_not_fit_ends_it() -> None:
    path = path_of(user("tiny"), said("x" * 500), said("b" * 50), said("c" * 50))

    found = content_of(path, budget=200, count=count)

    assert found.text == f"[Assistant]: {'b' * 50}\n\n[Assistant]: {'c' * 50}"
    assert (found.summarised, found.left_out) == (2, 2)


def test_a_summary_is_still_taken_near_the_budget() -> None:
    long = "s" * 3_000
    for summary in (
        BranchSummary(from_id="x", summary=long),
        type(SUMMARY)(
            compaction_id="c",
            reason="manual",
            mode="worker",
            summary=long,
            first_kept=None,
            compacted_from="x",
            tokens_before=1,
            tokens_after=1,
        ),
    ):
        path = path_of(user("old"), summary, said("c" * 500))

        found = content_of(path, budget=1_000, count=count)

        assert found.text.startswith("[System]: Summary of")
        assert "[…]" in found.text
        assert (found.summarised, found.left_out) == (2, 1)
        assert len(found.text) <= 1_000 + len("\n\n")


def test_beyond_nine_tenths_of_the_budget_no_summary_is_taken() -> None:
    path = path_of(BranchSummary(from_id="x", summary="s" * 500), said("c" * 900))

    found = content_of(path, budget=1_000, count=count)

    assert (found.summarised, found.left_out) == (1, 1)


def test_of_a_newest_message_that_is_too_long_the_beginning_is_given() -> None:
    path = path_of(user("u"), said("y" * 5_000))

    found = content_of(path, budget=1_000, count=count)

    assert found.text.startswith("[Assistant]: yyy")
    assert found.text.endswith(" […]")
    assert len(found.text) <= 1_000


def test_a_result_is_cut() -> None:
    path = path_of(call("1"), result("1", "r" * 100_000))

    found = content_of(path, budget=5_000, count=count)

    assert found.summarised == 2
    assert len(found.text) < RESULT_CHARS + 200


def test_results_alone_are_nothing_to_summarise() -> None:
    path = path_of(RunStart(model="m"), result("1", "ok"), thought())

    assert content_of(path, budget=1_000, count=count) == Content("", 0, 1)
    assert not has_content(path)
    assert has_content(path_of(said("x")))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.integers(0, 200))
def test_what_is_cut_fits(text: str, most: int) -> None:
    shown = cut_to(text, most, lambda text: len(text.encode("utf-8", "replace")))

    assert len(shown.encode("utf-8", "replace")) <= most
    assert (shown != "") == (most >= LEAST_TOKENS and text != "")


def test_the_files_are_those_of_the_whole_branch() -> None:
    """Past the budget, too; nested summaries and compactions of our own count."""
    path = path_of(
        call("1", name="read_file", arguments='{"path":"read.py"}'),
        result("1"),
        BranchSummary(
            from_id="x",
            summary="s",
            details=FileDetails(read_files=("side.py",), modified_files=("mod.py",)),
        ),
        BranchSummary(
            from_id="x",
            summary="s",
            details=FileDetails(read_files=("hook.py",)),
            from_hook=True,
        ),
        call("2", name="edit_file", arguments='{"path":"read.py"}'),
        result("2"),
        call("3", name="write_file", arguments='{"path":"new.py"}'),
        type(SUMMARY)(
            compaction_id="c",
            reason="manual",
            mode="worker",
            summary="s",
            first_kept=None,
            compacted_from="x",
            tokens_before=1,
            tokens_after=1,
            details=FileDetails(read_files=("old.py",)),
        ),
        result("3"),
        said("x" * 9_999),
    )

    assert branch_details(path) == FileDetails(
        read_files=("side.py", "old.py"),
        modified_files=("mod.py", "read.py", "new.py"),
    )
