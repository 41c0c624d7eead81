"""One thing that was looked at, and what is to be done about it."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from pod.exits import Exit

Level = Literal["ok", "note", "warning", "error"]
Value = str | int | bool | None

WIDTH = 100
"""Characters of a line for people."""


class Finding(Struct, frozen=True):
    """What was found out about *name*.

    *value* is it for programs, *text* for people, one line; *fix* is what to do,
    a command where there is one. With an error a run would not start, or could
    not do anything; *exit* is then its code.
    """

    name: str
    level: Level
    text: str
    value: Value = None
    fix: str = ""
    exit: int = Exit.DONE


def ok(name: str, text: str, value: Value = None) -> Finding:
    return Finding(name, "ok", text, value)


def note(name: str, text: str, value: Value = None, *, fix: str = "") -> Finding:
    return Finding(name, "note", text, value, fix)


def warning(name: str, text: str, value: Value = None, *, fix: str = "") -> Finding:
    return Finding(name, "warning", text, value, fix)


def error(
    name: str,
    text: str,
    value: Value = None,
    *,
    fix: str = "",
    exit: int = Exit.FAILED,
) -> Finding:
    return Finding(name, "error", text, value, fix, exit)


def exit_of(findings: Iterable[Finding]) -> int:
    """Return the exit code: that of the first error, 0 without one."""
    return next((f.exit for f in findings if f.level == "error"), Exit.DONE)


def for_people(findings: Sequence[Finding]) -> str:
    """Return the findings as aligned lines, what to do below each, and the verdict."""
    return "\n".join([*_lines(findings), "", _verdict(findings), ""])


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    names = max((len(finding.name) for finding in findings), default=0)
    margin = " " * (len("warning") + 2 + names + 2)
    for finding in findings:
        head = f"{finding.level:7}  {finding.name:{names}}  "
        yield from textwrap.wrap(
            finding.text,
            WIDTH,
            initial_indent=head,
            subsequent_indent=margin,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [head.rstrip()]
        if finding.fix:  # a command stays in one line
            yield f"{margin}-> {finding.fix}"


def _verdict(findings: Sequence[Finding]) -> str:
    errors = sum(finding.level == "error" for finding in findings)
    warnings = sum(finding.level == "warning" for finding in findings)
    doubts = f", {warnings} to look at" if warnings else ""
    if errors:
        return f"A run would not start: {errors} to mend{doubts}."
    return f"A run would start{doubts}."
