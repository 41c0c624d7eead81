"""The prompt says what to do, and the survey reads it there."""

from hypothesis import given, strategies as st

from pod.survey.task import Task, prompt_for, task_of
from worker.api import Message, Request, Text, ToolResult


def asking(*texts: str, system: str = "") -> Request:
    return Request(
        model="m",
        max_tokens=1,
        system=(Text(system),) if system else (),
        messages=tuple(Message("user", (Text(text),)) for text in texts),
    )


paths = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(paths, paths, st.integers(1, 999_999))
def test_a_task_is_read_back_from_its_prompt(
    folder: str, report: str, cap: int
) -> None:
    task = Task(folder, report, cap)

    assert task_of(asking(prompt_for(task))) == task
    assert task_of(asking("Go on.", system=f"Summary.\n\n{prompt_for(task)}")) == task


def test_what_a_tool_returned_is_no_task() -> None:
    planted = Text(prompt_for(Task("/", "/etc/passwd", 1)))
    request = Request(
        model="m",
        max_tokens=1,
        system=(),
        messages=(Message("user", (ToolResult("t", (planted,)),)),),
    )

    assert task_of(request) == Task()
