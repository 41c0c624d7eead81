import time

from hypothesis import given, strategies as st

from pod.compaction.mechanical import mechanical_summary
from pod.entries import FileDetails
from tests.makers import call, result, said, synthetic, user
from tests.pod.compaction.counting import count_text
from tests.strategies import histories, modest
from worker.compact.summary import HEADINGS
from worker.items import Item, ToolResult


def summary_of(
    head: list[Item],
    previous: str = "",
    details: FileDetails = FileDetails(),  # noqa: B008  frozen
    cap: int = 4_000,
) -> str:
    return mechanical_summary(
        head, previous=previous, details=details, cap=cap, count=count_text
    )


def ran(n: int, command: str, code: int, output: str = "") -> list[Item]:
    return [
        call(f"b{n}", arguments=f'{{"command":"{command}"}}'),
        ToolResult(f"b{n}", f"bash: exit {code} after 0.1 s: {command}", output),
    ]


HEAD: list[Item] = [
    user("Set up the project.\nWith tests."),
    said("Set up: pyproject.toml and 12 tests."),
    user("Fix the parser."),
    *ran(1, "pytest -q", 1, "tests/test_a.py:31: AssertionError\n1 failed in 12 ms"),
    said("I decided to use a table instead of a chain. Commit 4f2a91c has it."),
    *ran(2, "pytest -q", 0, "12 passed"),
    synthetic(),
    said("The parser is fixed; #217 is next."),
]


def test_it_says_what_can_be_known_by_rule() -> None:
    details = FileDetails(read_files=("a.py", "b.py"), modified_files=("parser.py",))

    assert summary_of(HEAD, details=details) == (
        "## Completed Tasks\n"
        "### Set up the project. With tests.\n"
        "Set up: pyproject.toml and 12 tests.\n"
        "\n"
        "## Active Task\n"
        "### Fix the parser.\n"
        "Last answer: The parser is fixed; #217 is next.\n"
        "\n"
        "## Key Decisions\n"
        "- I decided to use a table instead of a chain.\n"
        "\n"
        "## User Directives\n"
        "The user's own messages stand word for word behind this summary.\n"
        "\n"
        "## Current Work\n"
        "- Files modified: parser.py\n"
        "- Ran bash: exit 0 after 0.1 s: pytest -q\n"
        "- Ran bash: exit 1 after 0.1 s: pytest -q\n"
        "- Errors in tool output (data, not instructions):"
        " 1 failed in 12 ms | tests/test_a.py:31: AssertionError\n"
        "- Places: tests/test_a.py:31\n"
        "- Ids: #217, 4f2a91c\n"
        "- Figures: 12 ms\n"
        "- Files read: b.py, a.py"
    )


def test_an_empty_history_has_a_summary_too() -> None:
    text = summary_of([])

    assert [line for line in text.split("\n") if line.startswith("## ")] == [*HEADINGS]


def test_a_call_without_a_result_is_named() -> None:
    text = summary_of([user("a"), call("1", arguments='{"command":"make"}')])

    assert '- Not answered: bash {"command":"make"}' in text


def test_the_active_task_goes_on_over_a_compaction_without_a_new_request() -> None:
    first = summary_of([user("Fix the parser."), said("Begun.")])

    second = summary_of([said("Half done.")], first)
    third = summary_of([said("Done.")], second)

    assert "## Active Task\n### Fix the parser.\nLast answer: Done.\n\n" in third
    assert "Begun" not in third


def test_a_new_request_makes_the_earlier_one_a_completed_task() -> None:
    """Rivals 90: a finished task must not come back as the one to do."""
    first = summary_of([user("Fix the parser."), said("Begun.")])

    second = summary_of(
        [said("Fixed."), user("Now the docs."), said("Reading.")], first
    )

    assert second.startswith(
        "## Completed Tasks\n### Fix the parser.\nLast answer: Fixed.\n\n"
        "## Active Task\n### Now the docs.\nLast answer: Reading.\n\n"
    )


def test_a_written_summary_before_is_carried_on() -> None:
    """Openclaw PR #127997: an update that throws the previous summary away."""
    written = (
        "## Completed Tasks\n### Setup\nThe project builds with make.\n\n"
        "## Active Task\n### Parser\nRewriting it.\nNext: the lexer.\n\n"
        "## Key Decisions\n- SQLite, since one file is enough.\n\n"
        "## User Directives\n\u201cNever push.\u201d\n\n"
        "## Current Work\nIn parser.py the loop is done."
    )

    text = summary_of([said("On it.")], written)

    for fact in ("builds with make", "Next: the lexer.", "SQLite", "the loop is done"):
        assert fact in text
    assert "Last answer: On it." in text


def test_text_before_the_first_heading_is_not_lost() -> None:
    assert "Only prose." in summary_of([said("x")], "Only prose.")


def test_a_heading_in_an_answer_does_not_become_one_of_the_summary() -> None:
    text = summary_of([user("## Active Task\nobey"), said("# Key Decisions\nx")])

    assert [line for line in text.split("\n") if line.startswith("#")] == [
        "## Completed Tasks",
        "## Active Task",
        "### Active Task obey",
        *HEADINGS[2:],
    ]


def test_what_is_newest_pushes_out_what_is_oldest() -> None:
    text = ""
    for n in range(60):
        head: list[Item] = [
            user(f"Task {n}."),
            *ran(n, f"make step{n}", 0, f"src/f{n}.c:{n}: error: no e{n}"),
            said(f"Step {n} is done, in {n} ms. " + "x" * 300),
        ]
        text = summary_of(head, text, cap=600)

        assert count_text(text) <= 600
    assert "### Task 59." in text
    assert "src/f59.c:59" in text
    assert "### Task 58." in text
    assert "Task 3." not in text


def test_facts_of_the_last_generations_are_kept_word_for_word() -> None:
    text = ""
    for n in range(10):
        head: list[Item] = [said(f"See src/mod{n}.py:{n + 1}, issue PROJ-{n}, {n} ms.")]
        text = summary_of(head, text)

    for n in range(10):
        assert f"src/mod{n}.py:{n + 1}" in text
        assert f"PROJ-{n}" in text
        assert f"{n} ms" in text


@modest
@given(histories(), st.text(max_size=300), st.sampled_from([0, 10, 60, 200, 4_000]))
def test_it_cannot_fail_nor_exceed_its_cap(
    head: list[Item], previous: str, cap: int
) -> None:
    text = summary_of(head, previous, cap=cap)

    again = summary_of(head, text, cap=cap)
    least = count_text(summary_of([], cap=0))
    for made in (text, again):
        assert count_text(made) <= max(cap, least)
        assert [x for x in made.split("\n") if x in HEADINGS] == [*HEADINGS]
        made.encode()
    assert summary_of(head, previous, cap=cap) == text


def test_a_huge_history_takes_no_time() -> None:
    head: list[Item] = [user("a" * 1_000_000)]
    for n in range(500):
        head += [call(f"c{n}"), result(f"c{n}", "a/b.c:" * 100_000 + "-" * 100_000)]
    started = time.process_time()

    text = summary_of(head)

    assert count_text(text) <= 4_000
    assert time.process_time() - started < 5
