"""The docs name what there is."""

import re
from pathlib import Path
from typing import get_args

from msgspec.structs import fields

from pod.cli.output import Partial
from pod.ending import Stop
from pod.entries import Known
from pod.errors import DiskFull, LogFailed
from pod.events import Init, PodLive, name_of
from pod.exits import Exit
from pod.recovery import Cause
from worker.client import FailureKind
from worker.endings import Unfinished
from worker.events import RequestStart, Retry, ToolProgress, Warning
from worker.limits import LimitName

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]

ENVELOPE = ("v", "seq", "id", "parent", "at", "session", "run")
"""Fields of all events, which the page tells once."""


def test_the_page_on_events_names_every_event_and_its_fields() -> None:
    page = (DOCS / "events.md").read_text(encoding="utf-8")
    kinds = [*get_args(Known), Init, RequestStart, Retry, ToolProgress, Warning]
    kinds += [*get_args(Partial), *get_args(PodLive)]

    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    told = {
        name: "|".join(row[2:])
        for row in rows
        for name in re.findall(r"`(\w+)`", row[1])
    }
    missing = [
        f"{name}.{field.encode_name}"
        for kind in kinds
        for name in [name_of(kind)]
        for field in fields(kind)
        if field.encode_name not in ENVELOPE
        and f"`{field.encode_name}`" not in told.get(name, "")
    ]

    assert [name_of(kind) for kind in kinds if name_of(kind) not in told] == []
    assert missing == []


def test_the_page_on_events_names_every_exit_code() -> None:
    page = (DOCS / "events.md").read_text(encoding="utf-8")

    named = set(re.findall(r"\d+", " ".join(re.findall(r"(?m)^\| ([\d, ]+) \|", page))))

    assert named == {str(int(code)) for code in Exit}


def test_the_page_on_events_names_every_reason_a_run_can_end_for() -> None:
    page = (DOCS / "events.md").read_text(encoding="utf-8")
    reasons = [
        *get_args(FailureKind),
        *get_args(LimitName),
        *get_args(Stop),
        *get_args(Unfinished),
        *get_args(Cause),
        DiskFull.reason,
        LogFailed.reason,
        "refusal",
        "internal_error",
    ]

    assert [reason for reason in reasons if f"`{reason}`" not in page] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
        if not target.startswith("https://") and not is_there(page, target)
    ]

    assert broken == []


def is_there(page: Path, target: str) -> bool:
    """Whether a link on *page* leads to a file, and to a heading in it."""
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    if not anchor:
        return file.exists()
    heads = re.findall(r"(?m)^#+ (.*)$", file.read_text(encoding="utf-8"))
    return anchor in {
        re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads
    }


def test_what_the_pages_say_to_run_is_there() -> None:
    missing = [
        f"{page.name}: {module}"
        for page in PAGES
        for module in re.findall(
            r"python (?:-P )?-m ((?:tests|worker|tools|pod)\.?[\w.]*\w)",
            page.read_text(encoding="utf-8"),
        )
        if not (ROOT / f"{module.replace('.', '/')}.py").exists()
        and not (ROOT / module.replace(".", "/") / "__main__.py").exists()
    ]

    assert missing == []


def test_files_that_the_pages_name_are_there() -> None:
    missing = [
        f"{page.name}: {file}"
        for page in PAGES
        if page.name != "reported-bugs.md"  # has its own test, from tests/ on
        for file in re.findall(
            r"`((?:tests|pod|worker|tools|prompts|scripts|docs)/[\w/.-]+\.\w+)`",
            page.read_text(encoding="utf-8"),
        )
        if not (ROOT / file).exists()
    ]

    assert missing == []


def test_each_bug_reported_of_others_is_held_by_a_test_that_there_is() -> None:
    page = (DOCS / "reported-bugs.md").read_text(encoding="utf-8")
    rows = [
        line.split(" | ") for line in page.splitlines() if re.match(r"\| r?\d", line)
    ]
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", page)

    missing = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(
            rf"(?m)^(async )?def {name}\(",
            (DOCS.parent / "tests" / file).read_text(encoding="utf-8"),
        )
    ]

    assert missing == []
    assert [row[0] for row in rows] == [
        *(f"| {number}" for number in range(1, 95)),
        *(f"| r{number}" for number in range(97, 121)),
    ]
    assert len(named) > 120
