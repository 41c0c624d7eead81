"""The continuation policy (design.md §6.1, last column), as one table."""

from itertools import product
from typing import get_args

import pytest

from pod.compaction.continuation import Compacted, Then, after
from pod.entries import Reason

# reason, made room, in a run, stays, input waits, auto_continue, continued already
# (None: whichever), and what comes next.
Row = tuple[
    Reason,
    bool | None,
    bool | None,
    bool | None,
    bool | None,
    bool | None,
    bool | None,
    Then,
]
TABLE: list[Row] = [
    ("mid_turn", True, None, None, None, None, None, "go_on"),
    ("mid_turn", False, None, None, None, None, None, "end_run"),
    ("overflow", True, None, None, None, None, None, "go_on"),
    ("overflow", False, None, None, None, None, None, "end_run"),
    ("manual", None, True, None, None, None, None, "go_on"),
    ("manual", None, False, True, True, None, None, "deliver"),
    ("manual", None, False, True, False, None, None, "wait"),
    ("manual", None, False, False, None, None, None, "wait"),
    ("model_switch", None, True, None, None, None, None, "go_on"),
    ("model_switch", None, False, True, True, None, None, "deliver"),
    ("model_switch", None, False, True, False, None, None, "wait"),
    ("model_switch", None, False, False, None, None, None, "wait"),
    # In a process that does not stay it comes at the start of the next run.
    ("post_run", None, True, None, None, None, None, "go_on"),
    ("post_run", None, False, False, None, None, None, "wait"),
    ("post_run", None, False, True, True, None, None, "deliver"),
    ("post_run", True, False, True, False, True, False, "continue"),
    ("post_run", True, False, True, False, True, True, "wait"),
    ("post_run", True, False, True, False, False, None, "wait"),
    ("post_run", False, False, True, False, None, None, "wait"),
]
CASES = list(product(get_args(Reason), *([(False, True)] * 6)))


def expected(case: tuple[object, ...]) -> list[Then]:
    return [
        row[7]
        for row in TABLE
        if all(cell in (None, given) for cell, given in zip(row[:7], case, strict=True))
    ]


def compacted(case: tuple[object, ...], *, is_fenced: bool = False) -> Compacted:
    reason, made_room, in_run, stays, has_input, auto, continued = case
    return Compacted(
        reason,  # type: ignore[arg-type]  # of a product of its values
        made_room=bool(made_room),
        in_run=bool(in_run),
        stays=bool(stays),
        has_input=bool(has_input),
        auto_continue=bool(auto),
        has_continued=bool(continued),
        is_fenced=is_fenced,
    )


@pytest.mark.parametrize("reason", get_args(Reason))
def test_what_happens_after_a_compaction_is_one_table(reason: Reason) -> None:
    mine = [case for case in CASES if case[0] == reason]

    assert len(mine) == 64
    assert [[after(compacted(case))] for case in mine] == [*map(expected, mine)]


def test_nothing_begins_behind_an_interrupt() -> None:
    fenced = {(bool(case[2]), after(compacted(case, is_fenced=True))) for case in CASES}

    assert fenced == {(True, "end_run"), (False, "wait")}


def test_the_user_is_never_spoken_for_in_the_middle_of_a_run() -> None:
    in_runs = {after(compacted(case)) for case in CASES if case[2]}

    assert in_runs == {"go_on", "end_run"}
