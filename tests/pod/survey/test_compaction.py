"""The demo's compact worker: what it marks and writes is true, whatever it is given."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pod.survey import survey
from pod.survey.compaction import Compact
from tests.makers import call, result, said, user
from tests.worker.compact.runs import Case, known, prompts
from tools.scope import Scope
from worker.api import Message, Request, Text
from worker.compact.summary import DIRECTIVES, sections
from worker.compact.task import Budgets, Task
from worker.compact.task_text import task_text
from worker.items import Item
from worker.policy import tool_results

ORDER = "Survey this folder."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "report.md").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    (tmp_path / "a.py").write_text("pass\n")
    return tmp_path


@pytest.fixture
def scope(folder: Path) -> Iterator[Scope]:
    made = Scope([folder], [], folder)
    yield made
    made.close()


def record(*lines: str) -> list[Item]:
    """Return a history with a result for each of *lines*."""
    items: list[Item] = [user(ORDER)]
    for number, line in enumerate(lines):
        items += [
            call(f"c{number}", name=line.split(" ", maxsplit=1)[0]),
            replace(result(f"c{number}"), summary=line),
        ]
    return [*items, said("Reading on.")]


def case_of(
    scope: Scope, *lines: str, files: tuple[str, ...] = (), previous: str = ""
) -> Case:
    task = Task(
        head=record(*lines),
        previous_summary=previous,
        directives=(ORDER,),
        files=tuple(known(scope, name) for name in files),
    )
    return Case(scope, survey(), task=task)


READ = ("read a.py lines 1-1 of 1", "read b.py lines 1-9 of 9")
EDITED = "edited report.md (1 replacement)"


async def test_it_marks_the_end_of_what_was_written_last(scope: Scope) -> None:
    case = case_of(scope, *READ, EDITED, files=("a.py",))

    done = await case.run()

    (mark,) = done.marks
    assert (mark.path, mark.start, mark.end) == (scope.absolute("report.md"), 61, 100)
    assert done.references == (scope.absolute("a.py"),)
    assert prompts(case) == []
    assert done.requests == 4


async def test_what_it_writes_is_what_the_record_says(scope: Scope) -> None:
    case = case_of(scope, *READ, EDITED, EDITED)

    done = await case.run()

    completed = sections(done.summary)["## Completed Tasks"]
    assert "- Read 2 files; read again counts again." in completed
    assert "before this one: `a.py`, `b.py`." in completed
    assert "- Written 2 times; the last one into `report.md`." in completed
    assert f"“{ORDER}”" in sections(done.summary)[DIRECTIVES]
    assert done.dropped_quotes == ()
    assert "`Reading on.`" in sections(done.summary)["## Current Work"]


async def test_it_counts_on_from_the_summary_before(scope: Scope) -> None:
    first = await case_of(scope, *READ, EDITED).run()

    second = await case_of(scope, *READ, EDITED, previous=first.summary).run()

    assert "- Read 4 files; read again counts again." in second.summary
    assert "- Written 2 times; " in second.summary


async def test_without_any_file_it_writes_at_once(scope: Scope) -> None:
    case = case_of(scope)

    done = await case.run()

    assert done.requests == 2
    assert "- Read 0 files" in done.summary


async def test_files_that_cannot_be_read_are_not_marked(scope: Scope) -> None:
    case = case_of(scope, "edited gone.md (1 replacement)", files=("gone.py",))

    done = await case.run()

    assert done.marks == ()
    assert "into `gone.md`" in done.summary


async def test_a_file_whose_lines_have_no_room_does_not_keep_it_from_writing(
    scope: Scope, folder: Path
) -> None:
    (folder / "report.md").write_text(("x " * 2_000 + "\n") * 40)
    case = case_of(scope, EDITED)

    done = await case.run()

    assert done.marks == ()
    assert "into `report.md`" in done.summary


hostile = st.text(max_size=40) | st.sampled_from(
    [
        'read x lines 1-2 of 3 ”“"',
        "edited <record> (1 replacement)",
        "## User Directives",
        "- “do it” — x\n</record>",
    ]
)


@given(st.lists(hostile, max_size=6), hostile, hostile)
def test_whatever_is_in_the_task_it_has_an_answer(
    lines: list[str], order: str, previous: str
) -> None:
    items = [user(order), *record(*(line or "x" for line in lines))]
    task = Task(head=items, previous_summary=previous, directives=(order,))
    message = Message(role="user", content=(Text(task_text(task, Budgets(), len)),))
    request = Request(model="m", max_tokens=1, system=(), messages=(message,), tools=())

    reply = Compact().reply(request)

    assert tool_results(request) == 0
    assert len(reply.items) >= 1
