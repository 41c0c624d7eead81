"""Marks, references and what is left of the auto-read budget."""

import pytest
from hypothesis import given, strategies as st

from tools.base import ToolError
from worker.compact.budget import AutoReadBudget, Referenced
from worker.compact.task import Mark

HALF = "Budget half consumed. Consider calling write_summary soon."


def mark(
    path: str, tokens: int, start: int | None = None, end: int | None = None
) -> Mark:
    return Mark(path, start, end, tokens)


def test_a_mark_is_answered_with_what_is_left() -> None:
    budget = AutoReadBudget(8_000)

    assert (
        budget.mark(mark("/a", 3_800)) == "Marked. Budget: 4200/8000 tokens remaining"
    )


def test_a_mark_beyond_the_budget_is_refused_and_changes_nothing() -> None:
    budget = AutoReadBudget(8_000)
    budget.mark(mark("/a", 5_000, 1, 50))
    budget.mark(mark("/b", 2_000, 1, 50))

    with pytest.raises(ToolError) as caught:
        budget.mark(mark("/a", 6_001, 40, 90))

    assert str(caught.value) == (
        "Error: auto-read budget exhausted (8000 tokens)."
        " Remove an existing mark or use add_reference instead."
    )
    assert budget.marks == (mark("/a", 5_000, 1, 50), mark("/b", 2_000, 1, 50))


def test_the_budget_may_be_spent_to_the_last_token() -> None:
    budget = AutoReadBudget(8_000)

    assert budget.mark(mark("/a", 8_000)) == "Marked. Budget: 0/8000 tokens remaining"


@pytest.mark.parametrize(
    ("start", "end", "overlaps"),
    [
        (1, 9, False),
        (1, 10, True),
        (12, 15, True),
        (20, 30, True),
        (21, 30, False),
        (5, 40, True),
        (None, None, True),
        (15, None, True),
        (21, None, False),
    ],
)
def test_a_mark_takes_the_place_of_those_it_overlaps(
    start: int | None, end: int | None, overlaps: bool
) -> None:
    budget = AutoReadBudget(8_000)
    old, other = mark("/a", 3_000, 10, 20), mark("/b", 1_000)
    budget.mark(old)
    budget.mark(other)

    budget.mark(mark("/a", 4_000, start, end))

    new = mark("/a", 4_000, start, end)
    assert budget.marks == ((other, new) if overlaps else (old, other, new))


def test_a_mark_that_is_made_again_smaller_gives_tokens_back() -> None:
    budget = AutoReadBudget(8_000)
    budget.mark(mark("/a", 7_000))

    answer = budget.mark(mark("/a", 500, 1, 20))

    assert answer == "Marked. Budget: 7500/8000 tokens remaining"


def test_a_reference_on_a_marked_file_takes_its_marks_back() -> None:
    budget = AutoReadBudget(8_000)
    budget.mark(mark("/a", 3_000, 1, 10))
    budget.mark(mark("/a", 2_000, 20, 30))
    budget.mark(mark("/b", 1_000))

    assert budget.add_reference("/a") == Referenced(length=1, refunded=5_000)
    assert budget.marks == (mark("/b", 1_000),)
    assert budget.references == ("/a",)


def test_a_reference_is_named_once() -> None:
    budget = AutoReadBudget(8_000, ["/a", "/b"])

    assert budget.add_reference("/c") == Referenced(length=3, refunded=0)
    assert budget.add_reference("/a") == Referenced(length=3, refunded=0)
    assert budget.references == ("/a", "/b", "/c")


def test_default_references_stay_unless_marked() -> None:
    budget = AutoReadBudget(8_000, ["/a", "/b"])

    budget.mark(mark("/a", 10))

    assert budget.references == ("/b",)
    assert budget.known == ("/a", "/b")


def test_the_reminder_comes_once_with_the_result_after_the_one_that_spent_half() -> (
    None
):
    budget = AutoReadBudget(8_000)
    told: list[str | None] = []
    for tokens in (3_999, 1, 100, 100, 100):
        budget.mark(mark(f"/{len(told)}", tokens))
        told.append(budget.reminder())
    budget.add_reference("/0")
    budget.mark(mark("/again", 3_999))

    assert [*told, budget.reminder(), budget.reminder()] == [
        None,
        None,
        HALF,
        *[None] * 4,
    ]


Step = tuple[str, str, int | None, int | None, int]
_line = st.none() | st.integers(1, 6)
steps = st.lists(
    st.tuples(
        st.sampled_from(["mark", "add"]),
        st.sampled_from(["/a", "/b", "/c"]),
        _line,
        _line,
        st.integers(0, 60),
    ),
    max_size=12,
)


@given(steps)
def test_whatever_the_order_the_budget_holds_and_nothing_is_there_twice(
    made: list[Step],
) -> None:
    budget = AutoReadBudget(100, ["/c"])
    named = {"/c"}

    for kind, path, start, end, tokens in made:
        before = budget.marks
        if kind == "add":
            named.add(path)
            length = budget.add_reference(path).length
            assert length == len(budget.references)
            assert path in budget.references
            continue
        wanted = Mark(path, start, max(start or 1, end) if end else None, tokens)
        try:
            answer = budget.mark(wanted)
        except ToolError:
            assert budget.marks == before
        else:
            left = 100 - budget.spent
            assert answer == f"Marked. Budget: {left}/100 tokens remaining"
            assert budget.marks[-1] == wanted

    assert budget.spent == sum(m.tokens for m in budget.marks) <= 100
    marked = {m.path for m in budget.marks}
    assert set(budget.references) == named - marked
    for m in budget.marks:
        lines = _lines(m)
        others = [o for o in budget.marks if o is not m and o.path == m.path]
        assert all(not lines & _lines(other) for other in others)


def _lines(m: Mark) -> set[int]:
    return set(range(m.start or 1, (m.end or 10) + 1))
