"""What a compact worker may read: the Pod's rules, and a thread that is held to it."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from pod.compaction.transcript import Confinement
from pod.permissions.permit import Permissions, for_compact_worker
from pod.permissions.rules import Rule, Rulebook
from tests.pod.compaction.pods import FillingPod, Make
from tests.worker.compact import policies
from tests.worker.compact.runs import Case
from tools.landlock import abi
from tools.scope import Scope
from worker.api import Request
from worker.items import ToolResult
from worker.permit import Denied, Stopped
from worker.policy import Policy, Reply

DENY = Rule("read", "secret*", "deny", "rule 1")
ASK = Rule("read_file", "private*", "ask", "rule 2")
STOP = Rule("read_file", "stop*", "stop", "rule 3")


@pytest.fixture
def scope(tmp_path: Path) -> Iterator[Scope]:
    scope = Scope([tmp_path], [], tmp_path)
    yield scope
    scope.close()


def reads_and_marks(*paths: str) -> Policy:
    """Read, then mark, then name each path, and write a summary."""

    def turn(tool: str) -> policies.Turn:
        def made(request: Request) -> Reply:
            return policies.calls(request, *((tool, {"path": path}) for path in paths))

        return made

    return policies.in_turns(
        turn("read_file"),
        turn("mark_read_required"),
        turn("add_reference"),
        lambda request: policies.write(request, policies.summary()),
        policies.done,
    )


async def test_what_the_rules_deny_is_neither_read_nor_marked_but_can_be_named(
    scope: Scope, tmp_path: Path
) -> None:
    names = ("secret.txt", "private.txt", "stop.txt", "plain.txt")
    for name in names:
        (tmp_path / name).write_text("text of it\n")
    rules = Permissions(Rulebook((DENY, ASK, STOP)), str(tmp_path), {})
    case = Case(scope, reads_and_marks(*names))
    case.parts = replace(case.parts, permit=for_compact_worker(rules))

    result = await case.run()

    assert [Path(mark.path).name for mark in result.marks] == []
    assert sorted(Path(path).name for path in result.references) == sorted(names)
    answers = [item for item in case.items if isinstance(item, ToolResult)]
    read, marked = answers[:4], answers[4:8]
    for answered in (read, marked):
        assert [item.is_error for item in answered] == [True, True, True, False]
        assert "a permission rule forbids it (rule 1)" in answered[0].summary
        assert "somebody has to allow it first (rule 2)" in answered[1].summary
        assert "a permission rule ends the run here (rule 3)" in answered[2].summary
    assert "text of it" in (read[3].content or "")
    assert not any("text of it" in (item.content or "") for item in read[:3])


async def test_a_hook_or_a_rule_that_stops_a_run_does_not_stop_it_from_in_here(
    scope: Scope, tmp_path: Path
) -> None:
    (tmp_path / "stop.txt").write_text("x")
    case = Case(scope, reads_and_marks("stop.txt"))

    async def permit(call: object) -> Denied | Stopped:
        return Stopped("no further", "hook")

    case.parts = replace(case.parts, permit=permit)

    error = await case.failure()

    assert error.code == "no_summary"
    assert any(
        isinstance(item, ToolResult) and item.summary.endswith("not run: no further")
        for item in case.items
    )


def first_line(made: FillingPod) -> Confinement:
    (path,) = made.session.files.glob("compact-*.jsonl")
    with path.open("rb") as file:
        return msgspec.json.decode(file.readline(), type=Confinement)


async def test_the_transcript_says_what_held_the_compact_worker(
    make: Make, tmp_path: Path
) -> None:
    made = make(worker=policies.careful(), calls=6)
    (tmp_path / "notes.md").write_text("notes\n")
    made.files.touch([str(tmp_path / "notes.md")])

    await made.pod.run("Fetch everything.")

    (entry,) = made.compactions
    assert entry.mode == "worker", entry.receipt.attempts
    assert [Path(file.path).name for file in entry.auto_read] == ["notes.md"]
    said = first_line(made)
    assert said.by == ("landlock" if abi() else "none")
    assert said.roots == (str(tmp_path),)


@pytest.mark.parametrize("kind", ["link", "link on the way", "fifo", "gone", "grown"])
async def test_what_takes_the_place_of_a_marked_file_is_not_read(
    make: Make, tmp_path: Path, kind: str
) -> None:
    """The mark is what the worker saw; what is put in the context is read later."""
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    secret.mkdir()
    (secret / "notes.md").write_text("SECRET\n")
    (tmp_path / "docs").mkdir()
    notes = tmp_path / "docs" / "notes.md"
    notes.write_text("notes\n")

    def replace_it(request: Request) -> Reply:
        match kind:
            case "link":
                notes.unlink(missing_ok=True)
                notes.symlink_to(secret / "notes.md")
            case "link on the way":
                if not notes.parent.is_symlink():
                    notes.parent.rename(tmp_path / "before")
                    notes.parent.symlink_to(secret)
            case "fifo":
                if notes.is_file():
                    notes.unlink()
                    os.mkfifo(notes)
            case "gone":
                notes.unlink(missing_ok=True)
            case _:
                notes.write_text("grown\n" * 10_000)
        return policies.write(request, policies.summary())

    worker = policies.in_turns(
        lambda request: policies.calls(
            request, ("mark_read_required", {"path": str(notes)})
        ),
        replace_it,
        policies.done,
    )
    made = make(worker=worker, calls=6)
    made.files.touch([str(notes)])

    end = await made.pod.run("Fetch everything.")

    (entry, *_) = made.compactions
    assert (end.outcome, entry.mode) == ("finished", "worker"), entry.receipt.attempts
    assert entry.auto_read == ()
    assert entry.receipt.vanished_marks == (str(notes),)
    assert made.session.path is not None
    assert b"SECRET" not in made.session.path.read_bytes()
