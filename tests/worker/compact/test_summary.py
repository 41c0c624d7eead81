"""What a summary must be."""

import pytest

from tests.worker.compact.policies import summary
from worker.compact.summary import HEADINGS, judge, sections

GOOD = summary("Use trio.")


def problems(text: str) -> tuple[str, ...]:
    return judge(text, cap=4_000, count=len).problems


def test_a_summary_with_the_five_sections_is_valid() -> None:
    judged = judge(GOOD, cap=len(GOOD), count=len)

    assert judged.is_valid
    assert (judged.tokens, judged.cap) == (len(GOOD), len(GOOD))


def test_one_over_its_cap_is_too_large_and_has_no_other_problem() -> None:
    judged = judge(GOOD, cap=len(GOOD) - 1, count=len)

    assert (judged.is_valid, judged.is_too_large, judged.problems) == (False, True, ())


@pytest.mark.parametrize("text", ["", " \n\t\n", "\u3000"])
def test_an_empty_one_is_said_to_be(text: str) -> None:
    assert problems(text) == ("it is empty",)


@pytest.mark.parametrize("heading", HEADINGS)
def test_each_heading_must_be_there(heading: str) -> None:
    text = GOOD.replace(heading, heading.removeprefix("## "))

    assert problems(text) == (f"these headings are missing: {heading}",)


def test_headings_in_another_order_are_a_problem() -> None:
    text = GOOD.replace("## Key Decisions", "## X").replace(
        "## Active Task", "## Key Decisions"
    )
    text = text.replace("## X", "## Active Task")

    assert len(problems(text)) == 1
    assert problems(text)[0].startswith("the headings are out of order")


def test_a_heading_that_stands_twice_is_a_problem() -> None:
    assert problems(f"{GOOD}\n## Active Task\n- again\n") == (
        "these headings stand more than once: ## Active Task",
    )


def test_one_that_was_cut_off_has_lost_its_end() -> None:
    assert problems(GOOD[: GOOD.index("Writing the report.")]) == (
        "nothing stands below ## Current Work; was it cut off?",
    )


def test_a_colon_or_blanks_behind_a_heading_do_no_harm() -> None:
    text = GOOD.replace("## Active Task\n", "## Active Task:  \r\n")

    assert problems(text) == ()


def test_sections_are_what_stands_below_the_headings() -> None:
    found = sections(GOOD)

    assert tuple(found) == HEADINGS
    assert found["## Current Work"] == "Writing the report."
    assert found["## User Directives"] == "- “Use trio.” — still holds\n"
