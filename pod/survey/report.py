"""The report: its parts as Markdown, and reading back what it already says.

The report is the survey's memory. Its lines that begin with "#", "*" or "<!--"
are its own words; whatever comes out of a file stands behind "- " or "> ".
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from pod.survey.languages import open_work_in
from pod.survey.listing import CAPPED, Listed, Listing
from pod.survey.look import Seen
from pod.survey.markdown import code, escaped, plain, unescaped
from pod.survey.outline import about, outline
from pod.survey.task import Task

SIGNATURE = "<!-- written by pod demo -->"
"""In the third line of every report."""
MORE = "<!-- pod demo: more to come here -->"
DONE = "<!-- pod demo: the survey is finished -->"
UNFINISHED = "*The survey is not finished; its totals are written here at the end.*"

OWN_LINES = r"^(# |### |\*|<!--)"
"""Finds the lines that the report is read back from."""

MOST_TODOS = 20
MOST_NAMED = 10


class Facts(Struct, frozen=True):
    """What the report says of one file. *size* in bytes, None where unknown."""

    path: str
    size: int | None
    kind: str = ""
    lines: int = 0
    todos: int = 0
    problem: str = ""


class Report(Struct, frozen=True):
    """What a report says: the title, the facts by path, and whether it is finished."""

    title: str
    is_ours: bool
    facts: dict[str, Facts]
    is_finished: bool


def title_of(task: Task) -> str:
    """Return the report's first line."""
    name = task.folder.rstrip("/").rpartition("/")[2] or task.folder
    return f"# Survey of {plain(name)}"


def beginning(task: Task) -> str:
    """Return the report before anything was read."""
    return f"{title_of(task)}\n\n{SIGNATURE}\n\n{UNFINISHED}\n\n{MORE}\n"


def read_report(lines: Iterable[str]) -> Report:
    """Read a report back from its own lines, in order; others do not matter."""
    title, signed, finished = "", False, False
    facts: dict[str, Facts] = {}
    path: str | None = None
    for line in lines:
        if line.startswith("# "):
            title = title or line
        elif heading := _HEADING.fullmatch(line):
            path = unescaped(heading[1])
        elif path is not None and (found := _facts(path, line)):
            facts[path], path = found, None
        signed = signed or line == SIGNATURE
        finished = finished or line == DONE
    return Report(title, signed, facts, finished)


def section(file: Listed, seen: Seen, *, is_first: bool) -> str:
    """Return what is to be said of *file*; *is_first*: of those in its folder."""
    todos = [
        (number, work)
        for number, line in seen.lines
        if (work := open_work_in(line)) is not None
    ]
    facts = Facts(file.path, file.size, seen.kind, seen.total, len(todos), seen.problem)
    parts = [f"### `{escaped(file.path)}`", _facts_line(facts)]
    if is_first:
        folder = file.path.rpartition("/")[0]
        parts.insert(0, f"## `{escaped(folder)}/`" if folder else "## Top level")
    if said := about(seen.kind, seen.lines):
        parts.append(f"> {plain(said)}")
    items = outline(seen.kind, seen.lines)
    items += [f"- line {number}: {code(work)}" for number, work in todos[:MOST_TODOS]]
    if len(todos) > MOST_TODOS:
        items.append(f"- … and {len(todos) - MOST_TODOS} more that are open")
    if seen.is_partial:
        items.append("- Only a part of it was looked at.")
    if items:
        parts.append("\n".join(items))
    return "\n\n".join(parts)


def totals(task: Task, listing: Listing, facts: Sequence[Facts]) -> str:
    """Return the part that stands at the report's top when all is read."""
    read = [one for one in facts if not one.problem]
    parts = [overview(task, listing, facts)]
    if read:
        parts.append(_table(read))
    largest = sorted(read, key=lambda one: (-one.lines, one.path))[:5]
    if len(read) > 5:
        names = ", ".join(f"`{escaped(f.path)}` ({f.lines:,})" for f in largest)
        parts.append(f"**Longest files**, by lines: {names}.")
    with_todos = [one for one in read if one.todos]
    with_todos.sort(key=lambda one: (-one.todos, one.path))
    if with_todos:
        names = ", ".join(
            f"`{escaped(f.path)}` ({f.todos})" for f in with_todos[:MOST_NAMED]
        )
        more = len(with_todos) - MOST_NAMED
        also = f" and {more} more files" if more > 0 else ""
        parts.append(f"**Open TODOs** are in {names}{also}.")
    if missing := left_out(task, listing, facts):
        parts.append("**Left out:**\n\n" + "\n".join(f"- {line}" for line in missing))
    return "\n\n".join(parts)


def overview(task: Task, listing: Listing, facts: Sequence[Facts]) -> str:
    """Return how much there is and how much of it was read, in a sentence or two."""
    read = [one for one in facts if not one.problem]
    size = "" if listing.bytes is None else f" ({listing.bytes:,} bytes)"
    if not listing.total:
        return "There are no files in this folder."
    lines, todos = sum(f.lines for f in read), sum(f.todos for f in read)
    some = "all" if len(read) == listing.total else f"{len(read):,}"
    more = "more than " if listing.is_cut else ""
    return (
        f"The folder has {more}{_count(listing.total, 'file')}{size}; {some} of them were "
        f"read: {_count(lines, 'line')}, {_count(todos, 'open TODO')}."
    )


def left_out(
    task: Task, listing: Listing, facts: Sequence[Facts], *, names: bool = True
) -> list[str]:
    """Return what was not read and why, a line each; with some *names*."""
    shown = [
        f"{_count(count, 'file')} beyond the cap of {task.cap} (some of every kind "
        "were read)"
        if why == CAPPED
        else f"{_count(count, 'file')}: {why}"
        for why, count in listing.left
    ]
    by_problem: dict[str, list[str]] = {}
    for one in facts:
        if one.problem:
            by_problem.setdefault(one.problem, []).append(f"`{escaped(one.path)}`")
    for problem, paths in sorted(by_problem.items()):
        more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
        some = f" ({', '.join(paths[:MOST_NAMED])}{more})" if names else ""
        shown.append(f"{_count(len(paths), 'file')}: {plain(problem)}{some}")
    return shown


def _table(read: Sequence[Facts]) -> str:
    files, lines, sizes, todos = (
        Counter[str](),
        Counter[str](),
        Counter[str](),
        Counter[str](),
    )
    for one in read:
        files[one.kind] += 1
        lines[one.kind] += one.lines
        sizes[one.kind] += one.size or 0
        todos[one.kind] += one.todos
    kinds = sorted(files, key=lambda kind: (-lines[kind], kind))
    rows = [
        f"| {kind} | {files[kind]:,} | {lines[kind]:,} | {sizes[kind]:,} | {todos[kind]:,} |"
        for kind in kinds
    ]
    rows.append(
        f"| **all** | {files.total():,} | {lines.total():,} | {sizes.total():,} "
        f"| {todos.total():,} |"
    )
    head = [
        "| Kind | Files | Lines | Bytes | Open TODOs |",
        "|---|--:|--:|--:|--:|",
    ]
    return "\n".join(head + rows)


_HEADING = re.compile(r"### `(.*)`")
_FACTS = re.compile(
    r"\*(?P<kind>[^·*]+) · (?P<lines>[\d,]+) lines?(?: · (?P<size>[\d,]+) bytes?)?"
    r"(?: · (?P<todos>[\d,]+) open TODOs?)?\*"
)
_NOT_READ = re.compile(r"\*Not read(?: · (?P<size>[\d,]+) bytes?)?: (?P<why>.*)\*")
_ESCAPED = re.compile(r"\\(.)")


def _facts_line(facts: Facts) -> str:
    size = "" if facts.size is None else f" · {_count(facts.size, 'byte')}"
    if facts.problem:
        return f"*Not read{size}: {plain(facts.problem)}*"
    todos = f" · {_count(facts.todos, 'open TODO')}" if facts.todos else ""
    return f"*{facts.kind} · {_count(facts.lines, 'line')}{size}{todos}*"


def _facts(path: str, line: str) -> Facts | None:
    if found := _FACTS.fullmatch(line):
        return Facts(
            path,
            _number(found["size"]),
            found["kind"],
            _number(found["lines"]) or 0,
            _number(found["todos"]) or 0,
        )
    if found := _NOT_READ.fullmatch(line):
        why = _ESCAPED.sub(r"\1", found["why"])
        return Facts(path, _number(found["size"]), problem=why)
    return None


def _number(digits: str | None) -> int | None:
    return int(digits.replace(",", "")) if digits else None


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
