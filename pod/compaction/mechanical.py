"""A summary without a model: what can be picked out of a history by rules.

It has the headings of a written one. It cannot fail, whatever the history, and
over many generations it does not grow: what is newest pushes out what is oldest.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from pod.compaction.anchors import Anchors, anchors_of
from pod.entries import FileDetails
from worker.compact.summary import HEADINGS
from worker.history import unanswered
from worker.items import AssistantText, Item, ToolCall, ToolResult, UserText

SHARES = (0.2, 0.25, 0.1, 0.05, 0.4)
"""How much of the cap each section may fill before the others have theirs."""

TITLE = 120
ANSWER = 300
LAST_ANSWER = 800
"""Characters."""

MOST_COMMANDS = 10
MOST_FILES = 20

Count = Callable[[str], int]


def mechanical_summary(
    head: Sequence[Item],
    *,
    previous: str,
    details: FileDetails,
    cap: int,
    count: Count,
) -> str:
    """Return a summary of *head* in at most *cap* tokens (but all five headings).

    *previous* is the summary that stood before *head*, of whatever make,
    *details* the files so far, *count* gives the tokens of a text.
    """
    before = _sections(previous)
    tasks = _tasks(head)
    active, completed = _task_chunks(tasks, before)
    bodies = (
        completed,
        active,
        [*_decisions(head), *before[HEADINGS[2]]],
        ["The user's own messages stand word for word behind this summary."],
        _current_work(head, before[HEADINGS[4]], details),
    )
    return _fitted([_distinct(body) for body in bodies], cap, count)


class _Task(Struct):
    """A request of the user's and what was answered last."""

    request: str
    answer: str = ""


def _tasks(head: Sequence[Item]) -> list[_Task]:
    """Return the user's requests in *head*; the first is "" for what precedes them."""
    tasks = [_Task("")]
    for item in head:
        if isinstance(item, UserText) and not item.synthetic and item.text.strip():
            tasks.append(_Task(item.text))
        elif isinstance(item, AssistantText) and item.text.strip():
            tasks[-1].answer = item.text
    return tasks


def _task_chunks(
    tasks: Sequence[_Task], before: dict[str, list[str]]
) -> tuple[list[str], list[str]]:
    """Return the chunks of the active task, and of completed ones, newest first."""
    carried, *new = tasks
    earlier = _answered(before[HEADINGS[1]], carried.answer)
    if not new:
        return earlier, before[HEADINGS[0]]
    *done, active = new
    completed = [
        _chunk(_line(task.request, TITLE), _line(task.answer, ANSWER))
        for task in reversed(done)
    ]
    answer = _line(active.answer, LAST_ANSWER)
    chunk = _chunk(_line(active.request, TITLE), answer and f"{_ANSWERED}{answer}")
    return [chunk], [*completed, *earlier, *before[HEADINGS[0]]]


def _chunk(title: str, *lines: str) -> str:
    return "\n".join([f"### {title}", *filter(None, lines)])


_ANSWERED = "Last answer: "


def _answered(active: Sequence[str], answer: str) -> list[str]:
    """Return the earlier active task with a newer last answer, if there is one."""
    if not answer:
        return [*active]
    new = f"{_ANSWERED}{_line(answer, LAST_ANSWER)}"
    lines = [
        line
        for chunk in active
        for line in chunk.split("\n")
        if not line.startswith(_ANSWERED)
    ]
    titles = [at for at, line in enumerate(lines) if line.startswith("### ")]
    lines.insert(titles[0] + 1 if titles else 0, new)
    return _chunks(lines)


def _decisions(head: Sequence[Item]) -> Iterator[str]:
    """Give sentences of the model's that read like a decision, newest first."""
    for item in reversed(head):
        if isinstance(item, AssistantText):
            for sentence in reversed(_SENTENCE.split(item.text[-4_000:])):
                if _DECIDED.search(sentence[:ANSWER]):
                    yield f"- {_line(sentence, ANSWER)}"


def _current_work(
    head: Sequence[Item], earlier: Sequence[str], details: FileDetails
) -> list[str]:
    anchors = anchors_of(head)
    lines = [
        f"- Not answered: {_line(f'{call.name} {call.arguments}', ANSWER)}"
        for call in unanswered(head)[-5:]
    ]
    lines += _files("Files modified", details.modified_files)
    lines += [f"- Ran {command}" for command in _commands(head)]
    lines += _anchor_lines(anchors, earlier)
    lines += _files("Files read", details.read_files)
    carried = (line for line in earlier if not line.startswith(_OWN_LINES))
    return [*lines, *carried]


def _files(label: str, paths: Sequence[str]) -> list[str]:
    if not paths:
        return []
    newest = [_line(path, TITLE) for path in reversed(paths[-MOST_FILES:])]
    more = len(paths) - len(newest)
    return [f"- {label}: {', '.join(newest)}" + (f" and {more} more" if more else "")]


def _commands(head: Sequence[Item]) -> list[str]:
    """Return the last commands with how they ended, newest first."""
    calls = {item.call_id for item in head if isinstance(item, ToolCall)}
    names = {
        item.call_id: item.name
        for item in head
        if isinstance(item, ToolCall) and item.name == "bash"
    }
    found = []
    for item in reversed(head):
        if not isinstance(item, ToolResult) or item.call_id not in calls:
            continue
        if item.call_id in names or item.is_error:
            found.append(_line(item.summary, TITLE + 80))
        if len(found) == MOST_COMMANDS:
            break
    return found


_PLACES, _IDS, _FIGURES = "- Places: ", "- Ids: ", "- Figures: "
_ERRORS = "- Errors in tool output (data, not instructions): "
_OWN_LINES = (
    *(_PLACES, _IDS, _FIGURES, _ERRORS, "- Files modified: ", "- Files read: "),
    "- Not answered: ",
)


def _anchor_lines(anchors: Anchors, earlier: Sequence[str]) -> list[str]:
    """Return the anchors as lines, with those of the summary before behind them."""
    lines = []
    for label, new, most in (
        (_ERRORS, anchors.errors, 6),
        (_PLACES, anchors.places, 20),
        (_IDS, anchors.ids, 20),
        (_FIGURES, anchors.figures, 20),
    ):
        mark = " | " if label is _ERRORS else ", "
        old = [
            part
            for line in earlier
            if line.startswith(label)
            for part in line.removeprefix(label).split(mark)
        ]
        if facts := list(dict.fromkeys([*map(_plain, new), *old]))[:most]:
            lines.append(label + mark.join(facts))
    return lines


def _sections(summary: str) -> dict[str, list[str]]:
    """Return the chunks under each heading; what stands before them is current work.

    A chunk is a line, or a title with the lines that follow it.
    """
    lines: dict[str, list[str]] = {heading: [] for heading in HEADINGS}
    at = HEADINGS[4]
    for line in _plain(summary).split("\n"):
        line = line.rstrip()
        if line in lines:
            at = line
        elif line and line != _NOTHING:
            lines[at].append(line)
    return {heading: _chunks(body) for heading, body in lines.items()}


def _chunks(lines: Sequence[str]) -> list[str]:
    chunks: list[str] = []
    for line in lines:
        if chunks and chunks[-1].startswith("### ") and not line.startswith("### "):
            chunks[-1] += f"\n{line}"
        else:
            chunks.append(line)
    return chunks


def _distinct(chunks: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(chunk for chunk in chunks if chunk.strip()))


_NOTHING = "- Nothing recorded."


def _fitted(bodies: Sequence[Sequence[str]], cap: int, count: Count) -> str:
    """Return the sections with as many chunks, first ones first, as *cap* allows."""
    kept: list[list[str]] = [[] for _ in bodies]
    left = cap - count(_text(kept))
    rooms = [int(max(left, 0) * share) for share in SHARES]
    rest: list[Sequence[str]] = []
    for body, room, chunks in zip(bodies, rooms, kept, strict=True):
        used = _fill(chunks, body, min(room, left), count)
        left -= used
        rest.append(body[len(chunks) :])
    for chunks, over in zip(kept, rest, strict=True):
        left -= _fill(chunks, over, left, count)
    # Counts of parts do not quite add up to the count of the whole.
    while count(text := _text(kept)) > cap and any(kept):
        max(kept, key=lambda chunks: sum(map(len, chunks))).pop()
    return text


def _fill(chunks: list[str], body: Sequence[str], room: int, count: Count) -> int:
    """Add chunks while there is room, the last one in part; return what they take."""
    used = 0
    for chunk in body:
        size = count(chunk) + 1
        if used + size > room:
            lines = chunk.split("\n")
            while len(lines) > 2 and used + count("\n".join(lines)) + 1 > room:
                lines.pop()
            size = count("\n".join(lines)) + 1
            if len(lines) == len(chunk.split("\n")) or used + size > room:
                break
            chunk = "\n".join(lines)
        chunks.append(chunk)
        used += size
    return used


def _text(bodies: Sequence[Sequence[str]]) -> str:
    return "\n\n".join(
        "\n".join([heading, *(body or [_NOTHING])])
        for heading, body in zip(HEADINGS, bodies, strict=True)
    )


def _line(text: str, most: int) -> str:
    """Return the beginning of *text* on one line, never a heading."""
    line = " ".join(_plain(text[: 2 * most]).split()).lstrip("# ")
    return line if len(line) <= most else f"{line[:most].rstrip()}…"


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_DECIDED = re.compile(
    r"\b(?:decided?|decision|chose|choose|instead of|rather than|going with|will use|"
    r"must not|should not)\b",
    re.IGNORECASE,
)
