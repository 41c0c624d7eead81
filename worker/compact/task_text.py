"""The one message a compact worker begins with."""

from collections.abc import Callable, Sequence

from prompts import fill
from tools.text import one_line
from worker.compact.escape import escape
from worker.compact.overview import overview
from worker.compact.task import Budgets, KnownFile, Task

BYTES_PER_TOKEN = 4
"""For a first idea of what a file costs; nothing is decided by it."""

NONE = "(none)"


def task_text(task: Task, budgets: Budgets, count: Callable[[str], int]) -> str:
    """Return the message that gives a compact worker its *task*.

    The record has at most ``budgets.overview`` tokens; everything else is
    there in full. What is put between tags cannot end them.
    """
    return fill(
        "compact_task",
        overview=overview(task.head, budgets.overview, count) or NONE,
        previous_summary=escape(task.previous_summary.strip()) or NONE,
        directives=_list(task.directives),
        files="\n".join(_file(file) for file in task.files) or NONE,
        instructions=escape(task.instructions.strip()) or NONE,
        context=_list(task.context),
        auto_read=str(budgets.auto_read),
        summary_target=str(budgets.summary_target),
        summary_cap=str(budgets.summary_cap),
        max_input=str(budgets.max_input_tokens),
    )


def _list(texts: Sequence[str]) -> str:
    """Return one list entry a text, its further lines indented."""
    lines = ("\n  ".join(text.strip().splitlines()) for text in texts)
    return escape("\n".join(f"- {line}" for line in lines)) or NONE


def _file(file: KnownFile) -> str:
    if file.size is None:
        size = "gone"
    else:
        size = f"{file.size} bytes, about {-(-file.size // BYTES_PER_TOKEN)} tokens"
    return escape(f"- {one_line(file.path)} ({size}; {one_line(file.use)})")
