"""What the transcript shows of the report: what was written, what was read back."""

import re
import shlex

import msgspec
from msgspec import Struct, structs

from pod.survey.report import OWN_LINES, Report, read_report
from pod.survey.task import Task
from pod.survey.transcript import Call, Made, Result, Transcript, arguments, is_lost


class Absent(Struct, frozen=True):
    """There is no report yet."""


class _Edit(Struct, frozen=True):
    new_text: str


class _Written(Struct, frozen=True):
    path: str = ""
    content: str = ""
    edits: tuple[_Edit, ...] = ()


def look_back_call(seen: Transcript, task: Task) -> Call:
    """Return the call that finds what the report says so far.

    By bash, for which a report that is not there yet is no error; by grep
    where there is no bash.
    """
    by_bash = _by_bash(task)
    result = seen.result_of(by_bash)
    return _by_grep(task) if result is not None and result.is_error else by_bash


def report_in(seen: Transcript, task: Task) -> Report | Absent | None:
    """Return the report as the calls in view leave it; None where that is open."""
    state: Report | Absent | None = None
    look_back = (_by_bash(task), _by_grep(task))
    for made in seen.made:
        if made.call in look_back:
            state = _looked_back(made.result)
        elif made.call.name in ("write_file", "edit_file"):
            written = _written(made.call)
            if written is not None and written.path == task.report:
                state = _after(state, made, written)
    return state


def _by_bash(task: Task) -> Call:
    report = shlex.quote(task.report)
    command = (
        "# Finds what the report says so far.\n"
        f"if [ -e {report} ]; then LC_ALL=C grep -anE {shlex.quote(OWN_LINES)} -- {report}\n"
        f"else echo {shlex.quote(_NOT_THERE)}; fi"
    )
    return Call("bash", arguments(command=command))


def _by_grep(task: Task) -> Call:
    return Call(
        "grep", arguments(path=task.report, pattern=OWN_LINES, max_matches=1000)
    )


def _looked_back(result: Result | None) -> Report | Absent | None:
    if is_lost(result) or result is None:
        return None
    if result.is_error:
        is_missing = result.text.startswith("no such file")
        return Absent() if is_missing else None
    lines = result.text.split("\n")
    if _NOT_THERE in lines:
        return Absent()
    found = [_MATCH.fullmatch(line) for line in lines]
    return read_report(match[1] for match in found if match)


def _after(
    state: Report | Absent | None, made: Made, written: _Written
) -> Report | Absent | None:
    """Return what the report says after a write; open where it may have failed."""
    if made.result is None or made.result.is_error:
        return None
    if made.call.name == "write_file":
        return read_report(written.content.split("\n"))
    if not isinstance(state, Report):
        return None
    lines = [line for edit in written.edits for line in edit.new_text.split("\n")]
    added = read_report(lines)
    return structs.replace(
        state,
        facts=state.facts | added.facts,
        is_finished=state.is_finished or added.is_finished,
    )


def _written(call: Call) -> _Written | None:
    try:
        return msgspec.json.decode(call.arguments, type=_Written)
    except msgspec.DecodeError:
        return None


_NOT_THERE = "There is no report yet."
_MATCH = re.compile(r"\d+:(.*)", re.DOTALL)
