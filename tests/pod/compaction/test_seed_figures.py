"""The seed's table of figures: each row says one thing that was asked for.

The details of each are in the tests of the modules; this page is for comparing
it with the specification, line by line.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pod.compaction.framing import auto_read_text, leading_items, references_text
from pod.compaction.job import failure_text
from pod.compaction.opening import settings_of
from pod.compaction.prune import PruneLimits
from pod.compaction.settings import Settings
from pod.compaction.thresholds import Thresholds, derive
from pod.entries import AutoRead, Compaction, Directive, Reference
from pod.manifest import Manifest
from pod.view import pruned
from prompts import load
from tests.makers import call, history, result, said, thought, user
from tests.worker.compact import policies
from tests.worker.compact.runs import Case, answers, prompts
from tools.base import ToolError
from tools.scope import Scope
from worker.compact.budget import AutoReadBudget
from worker.compact.guard import InputGuard
from worker.compact.overview import overview
from worker.compact.summary import HEADINGS
from worker.compact.task import Budgets, Mark


@pytest.fixture
def scope(tmp_path: Path) -> Iterator[Scope]:
    for name in "abc":
        (tmp_path / name).write_text("line\n" * 100)
    made = Scope([tmp_path], [], tmp_path)
    yield made
    made.close()


def marked(tokens: int, path: str = "/a") -> Mark:
    return Mark(path, None, None, tokens)


# Thresholds


@pytest.mark.parametrize(
    ("compact_threshold", "turn_threshold"), [(80_000, 90_000), (160_000, 180_000)]
)
def test_the_turn_threshold_is_nine_eighths_of_the_compact_threshold(
    compact_threshold: int, turn_threshold: int
) -> None:
    derived = derive(
        compact_threshold=compact_threshold,
        turn_threshold=None,
        window=None,
        reserve_tokens=16_384,
        max_tokens=32_000,
        low_water=0.7,
    )

    assert derived == Thresholds(
        post_run=compact_threshold,
        turn=turn_threshold,
        low_water=compact_threshold * 7 // 10,
    )


# Defaults


def test_the_defaults_are_those_of_the_table() -> None:
    assert settings_of(Manifest()) == Settings(
        enabled=True,
        order=("worker", "summarize", "mechanical"),
        retained_tokens=8_000,
        directive_budget=4_000,
        min_gain=0.1,
        default_references=5,
        max_failures=3,
        cooldown=600.0,
        worker=Budgets(
            auto_read=8_000,
            overview=8_000,
            max_input_tokens=50_000,
            max_requests=20,
            seconds=300.0,
            summary_target=2_000,
            summary_cap=4_000,
        ),
        prune=PruneLimits(protect_tokens=40_000, min_savings=20_000),
        keep_recent_tokens=20_000,
        reserve_tokens=16_384,
        seconds=300.0,
        short_summary=False,
        remote_endpoint=None,
    )


# The budget of mark_read_required


def test_a_mark_is_answered_with_what_is_left_of_the_budget() -> None:
    budget = AutoReadBudget(8_000)

    answer = budget.mark(marked(3_800))

    assert answer == "Marked. Budget: 4200/8000 tokens remaining"


def test_beyond_the_budget_the_answer_is_an_error_and_the_marks_stay() -> None:
    budget = AutoReadBudget(8_000)
    budget.mark(marked(3_800))

    with pytest.raises(ToolError) as error:
        budget.mark(marked(4_201, "/b"))

    assert str(error.value) == (
        "Error: auto-read budget exhausted (8000 tokens)."
        " Remove an existing mark or use add_reference instead."
    )
    assert budget.marks == (marked(3_800),)


async def test_an_exhausted_budget_does_not_end_the_compact_worker(
    scope: Scope,
) -> None:
    case = Case(
        scope, policies.greedy(), files=("a", "b", "c"), budgets=Budgets(auto_read=300)
    )

    done = await case.run()

    assert [answer.split(".")[0] for answer in answers(case)[:3]] == [
        "Marked",
        "Marked",
        "Error: auto-read budget exhausted (300 tokens)",
    ]
    assert len(done.marks) == 2
    assert done.summary == policies.summary()


def test_half_the_budget_is_said_once_with_the_next_result() -> None:
    budget = AutoReadBudget(8_000)

    told: list[str | None] = []
    for tokens in (3_999, 1, 100, 100):
        budget.mark(marked(tokens, f"/{len(told)}"))
        told.append(budget.reminder())

    half = "Budget half consumed. Consider calling write_summary soon."
    assert told == [None, None, half, None]


def test_marking_again_takes_the_place_of_the_mark_before() -> None:
    budget = AutoReadBudget(8_000)
    budget.mark(marked(5_000))

    answer = budget.mark(marked(6_000))

    assert answer == "Marked. Budget: 2000/8000 tokens remaining"
    assert budget.marks == (marked(6_000),)


def test_a_reference_on_a_marked_file_gives_its_tokens_back() -> None:
    budget = AutoReadBudget(8_000)
    budget.mark(marked(5_000))

    done = budget.add_reference("/a")

    assert (done.refunded, budget.spent, budget.references) == (5_000, 0, ("/a",))


# The compact worker


async def test_it_has_four_tools(scope: Scope) -> None:
    case = Case(scope, policies.careful(), files=("a",))

    await case.run()

    assert [tool.name for tool in case.client.requests[0].tools] == [
        "read_file",
        "mark_read_required",
        "add_reference",
        "write_summary",
    ]


async def test_of_several_summaries_the_last_one_counts(scope: Scope) -> None:
    first, second = policies.summary(work="First."), policies.summary(work="Second.")
    case = Case(scope, policies.rewriting(first, second))

    done = await case.run()

    assert done.summary == second


async def test_without_a_summary_it_is_asked_for_one_twice_at_most(
    scope: Scope,
) -> None:
    case = Case(scope, policies.stuck(), files=("a",))

    failure = await case.failure()

    missing = load("compact_missing_summary").partition("{")[0]
    assert failure.code == "no_summary"
    assert [text.startswith(missing) for text in prompts(case)] == [True, True]


async def test_without_a_mark_it_is_asked_for_one_twice_then_none_is_accepted(
    scope: Scope,
) -> None:
    case = Case(scope, policies.lazy(), files=("a",))

    done = await case.run()

    assert prompts(case) == [load("compact_missing_marks")] * 2
    assert done.marks == ()
    assert done.references == (scope.absolute("a"),)


def test_its_input_is_capped_with_a_warning_and_a_reserve_for_the_summary() -> None:
    guard = InputGuard(50_000)
    told = []
    for tokens in (41_999, 1, 3_999, 1, 4_000, 1):
        guard.add(tokens)
        told.append((guard.warning() is not None, guard.is_closing, guard.is_over))

    assert told == [
        (False, False, False),
        (True, False, False),  # 42 000: 8 000 are left
        (False, False, False),
        (False, True, False),  # 46 000: only write_summary works
        (False, True, False),  # 50 000
        (False, True, True),
    ]


async def test_a_summary_written_before_the_cap_is_used(scope: Scope) -> None:
    case = Case(
        scope,
        policies.endless_reader(writes_first=True),
        files=("a", "b", "c"),
        budgets=Budgets(max_input_tokens=6_000),
    )

    done = await case.run()

    assert done.summary == policies.summary()
    assert done.input_tokens <= 6_000


def test_its_record_has_results_as_summaries_calls_as_names_and_no_reasoning() -> None:
    items = history(
        user("Do it."),
        thought("secret thoughts"),
        call("a", name="bash", arguments='{"command": "secret arguments"}'),
        result("a", "secret content"),
        said("Done."),
    )

    record = overview(items, 8_000, len)

    assert "secret" not in record
    assert record.splitlines()[1:] == [
        "[1] user: Do it.",
        "[2] tool bash: ran a",
        "[3] assistant: Done.",
    ]


# What the model sees afterwards


def test_the_context_begins_with_summary_directives_files_and_references() -> None:
    compaction = Compaction(
        compaction_id="k",
        reason="mid_turn",
        mode="worker",
        summary="It went well.",
        first_kept=None,
        compacted_from="e",
        tokens_before=0,
        tokens_after=0,
        directives=(Directive("Do it."),),
        auto_read=(AutoRead("src/main.rs", "fn main() {\n", "0", 5, 42, 142),),
        references=(Reference("src/config.rs", "read during task setup"),),
    )

    heads = [item.text.split("\n")[0] for item in leading_items(compaction)]

    assert [head[:24] for head in heads] == [
        "[Summary of the session ",
        "[User directives — the u",
        "[Auto-read file: src/mai",
        "[Referenced files — read",
    ]


@pytest.mark.parametrize(
    ("start", "end", "head"),
    [
        (42, 142, "[Auto-read file: src/main.rs:42-142]"),
        (None, None, "[Auto-read file: src/main.rs]"),
    ],
)
def test_an_auto_read_file_is_named_with_its_lines(
    start: int | None, end: int | None, head: str
) -> None:
    text = auto_read_text("src/main.rs", "fn main() {\n}\n", start=start, end=end)

    assert text.split("\n")[0] == head
    assert "\nfn main() {\n}\n" in text


def test_references_are_listed_with_how_they_were_used() -> None:
    references = (
        Reference("src/config.rs", "read during task setup"),
        Reference("tests/integration_test.rs", "read during test implementation"),
    )

    assert references_text(references) == (
        "[Referenced files — read before compaction, contents not included]\n"
        "- src/config.rs (read during task setup)\n"
        "- tests/integration_test.rs (read during test implementation)\n"
        "Use read_file to access current contents if needed."
    )


def test_a_pruned_result_says_how_much_it_had() -> None:
    shown = pruned(result("a", "long"), 31_000)

    assert shown == result("a", "[Output truncated - 31000 tokens]")


def test_a_summary_has_five_headings() -> None:
    assert HEADINGS == (
        "## Completed Tasks",
        "## Active Task",
        "## Key Decisions",
        "## User Directives",
        "## Current Work",
    )


# Failures


def test_a_failure_is_told_in_the_words_of_the_seed() -> None:
    assert failure_text("overflow", "x") == "Context overflow recovery failed: x"
    assert failure_text("mid_turn", "x") == "Auto-compaction failed: x"
    assert failure_text("post_run", "x") == "Auto-compaction failed: x"
