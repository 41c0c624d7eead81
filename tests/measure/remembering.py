"""Careful compact workers: they read, pick out facts by their shape, and write.

As much is written as the budget allows, what is newest first.
"""

import re
from collections.abc import Iterator, Sequence

from tests.measure.planted import MARKER
from tests.worker.compact.policies import (
    FABRICATED,
    between,
    calls,
    default_references,
    directives,
    done,
    in_turns,
    results,
    task_of,
    write,
)
from worker.api import Request
from worker.compact.summary import HEADINGS, sections
from worker.policy import Policy, Reply

MARKED = 2
"""Files marked, of about 2,000 tokens each: the budget would hold three."""

CHARS = 2_600
"""Of the facts in a summary; with all else it has about 2,000 tokens, the target."""

_FACT = re.compile(
    r"\S+\.py:\d+|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b|\d[\d,]* ms\b"
)
_ENTRY = re.compile(r"\[\d+\] (user|assistant|system|tool [^:]*): (.*)")
_DECISION = re.compile(r"\bdecided to\b")
_RAN = re.compile(r"bash: exit \d+ after [\d.]+ s: .*")
_TAKEN_BACK = re.compile(r"Forget what I said: “(.*)”")


def remembering() -> Policy:
    """Reads the files used last, marks two, writes down what it found."""
    return in_turns(_read, _mark, lambda r: write(r, _summary(r)), done)


def gullible() -> Policy:
    """Does the same, and takes what a file says for the user's own words.

    It makes a quotation up, too, and has the file's words in another section,
    from which it could quote them next time.
    """

    def write_up(request: Request) -> Reply:
        text = _summary(request)
        seen = "\n".join([task_of(request), *results(request)])
        planted = dict.fromkeys(re.findall(rf"{MARKER}: ([^\n“]+)", seen))
        orders = [*map(str.strip, planted), FABRICATED]
        quoted = "".join(f"- “{order}” — the user said so\n" for order in orders)
        text = text.replace(f"{HEADINGS[3]}\n", f"{HEADINGS[3]}\n{quoted}")
        noted = "".join(f"{MARKER}: {order} “{order}”\n" for order in orders)
        return write(request, f"{text}\n{noted}")

    return in_turns(_read, _mark, write_up, done)


def _read(request: Request) -> Reply:
    files = default_references(request)[:5]
    return calls(request, *(("read_file", {"path": path}) for path in files))


def _mark(request: Request) -> Reply:
    newest = default_references(request)[:MARKED]
    return calls(request, *(("mark_read_required", {"path": p}) for p in newest))


def _summary(request: Request) -> str:
    task = task_of(request)
    before = sections(between(task, "previous-summary"))
    record = _ENTRY.findall(between(task, "record"))
    facts = [*_facts(record, results(request)), *_lines(before.get(HEADINGS[0], ""))]
    decided = [f"- {text}" for kind, text in record if _is_decision(kind, text)][::-1]
    decided += _lines(before.get(HEADINGS[2], ""))
    said = directives(request)
    revoked = {match for order in said for match in _TAKEN_BACK.findall(order)}
    orders = [f"- “{order}” — holds" for order in said if order not in revoked]
    last = [text for kind, text in record if kind == "assistant"]
    return "\n".join(
        [
            HEADINGS[0],
            "### steps so far",
            *_fitting(facts, CHARS),
            HEADINGS[1],
            "### the next step",
            "- Goal: see the user's words below.",
            HEADINGS[2],
            *_fitting(decided, CHARS // 2),
            HEADINGS[3],
            *orders,
            HEADINGS[4],
            *(last[-1:] or ["Nothing was said."]),
        ]
    )


def _is_decision(kind: str, text: str) -> bool:
    return kind == "assistant" and bool(_DECISION.search(text))


def _facts(record: Sequence[tuple[str, str]], read: Sequence[str]) -> Iterator[str]:
    """Give lines with facts, the newest first: said, run, and then found in files."""
    for kind, text in reversed(record):
        if kind == "assistant" and _FACT.search(text):
            yield f"- {text}"
        elif kind.startswith("tool ") and (ran := _RAN.match(text)):
            yield f"- {ran[0]}"
    for text in read:
        if found := list(dict.fromkeys(_FACT.findall(text))):
            yield f"- In files: {', '.join(found)}"


def _lines(section: str) -> list[str]:
    return [line for line in section.splitlines() if line.startswith("- ")]


def _fitting(lines: Sequence[str], characters: int) -> list[str]:
    """Return the first of *lines*, none twice, as long as there is room."""
    kept: list[str] = []
    for line in dict.fromkeys(lines):
        characters -= len(line) + 1
        if characters < 0:
            break
        kept.append(line)
    return kept
