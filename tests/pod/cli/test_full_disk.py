"""Whatever finds no room: a clear word, nothing half-done, nothing lost."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from pod.entries import ItemEntry, RunEnd
from pod.log import RESERVE, read_log
from tests.constrained import unconstrained, with_small_files
from tests.pod.importing.imports import write_lines
from tests.pod.importing.pi_makers import answer, chained, header, text, user
from tests.pod.logs import chain, said, written
from worker.items import AssistantText

MANIFEST = """
[model]
provider = "scripted"
id = "echo:6"
context_window = 900000
[tools]
builtin = ["bash"]
[sandbox]
mode = "off"
[session]
dir = "../sessions"
"""
SMALL = RESERVE + 16_384
"""Bytes of the largest file: room for the reserve and some entries."""


class Line(Struct, frozen=True):
    """What the tests look at in an event."""

    type: str
    id: str | None = None
    outcome: str = ""
    reason: str = ""
    exit_code: int | None = None


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pod.toml").write_text(MANIFEST)
    return folder


def sessions(work: Path) -> Path:
    return work.parent / "sessions"


def large_session(work: Path) -> bytes:
    """Put a session of 200 KB into its folder; return its bytes."""
    turns = (
        (said("go on"), ItemEntry(item=AssistantText("word " * 400, response=f"r{n}")))
        for n in range(100)
    )
    log = written(chain(*(entry for turn in turns for entry in turn)))
    log = log.replace(b'"/work"', b'"%s"' % bytes(work))
    sessions(work).mkdir()
    (sessions(work) / "s1.jsonl").write_bytes(log)
    return log


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(line: str) -> bool:
    return line.startswith("pod: ") and line.endswith("File too large\n")


def test_a_session_that_finds_no_room_is_not_begun(work: Path) -> None:
    done = with_small_files(work, 100, "run", "go", "-q")

    assert (done.code, done.out) == (1, "")
    assert refused(done.err), done.err
    assert "cannot write" in done.err
    assert names(sessions(work)) == []


def test_a_run_whose_disk_fills_up_ends_with_disk_full_and_is_gone_on_with(
    work: Path,
) -> None:
    prompt = "word " * 12_000  # most of what a file may hold

    done = with_small_files(
        work, SMALL, "run", prompt, "-q", "--output-format", "stream-json"
    )
    lines = [msgspec.json.decode(line, type=Line) for line in done.out.splitlines()]
    (log,) = sessions(work).glob("*.jsonl")
    resumed = unconstrained(work, "run", "-q", "--resume", log.stem)

    assert done.code == 1, done.err
    assert [
        (line.outcome, line.reason, line.exit_code)
        for line in lines
        if line.type == "result"
    ] == [("failed", "disk_full", 1)]
    assert resumed.code == 0, resumed.err
    assert resumed.out == "Done after 6 calls.\n"
    entries = read_log(log).entries
    kept = {entry.id for entry in entries}
    assert {line.id for line in lines if line.id} <= kept
    assert [e.reason for e in entries if isinstance(e, RunEnd)] == ["disk_full", "done"]


def test_a_fork_that_finds_no_room_is_not_there(work: Path) -> None:
    before = large_session(work)

    done = with_small_files(work, SMALL, "session", "fork", "s1")

    assert (done.code, done.out) == (1, "")
    assert refused(done.err), done.err
    assert names(sessions(work)) == ["s1.jsonl"]
    assert (sessions(work) / "s1.jsonl").read_bytes() == before


def test_a_repair_that_finds_no_room_leaves_the_damaged_log(work: Path) -> None:
    large_session(work)
    path = sessions(work) / "s1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], b"\0\0\n", *lines[6:]]))
    before = path.read_bytes()

    done = with_small_files(work, SMALL, "session", "repair", "s1")
    again = unconstrained(work, "session", "repair", "s1")

    assert (done.code, done.out) == (1, "")
    assert refused(done.err), done.err
    assert again.code == 0
    assert names(sessions(work)) == ["s1.jsonl", "s1.jsonl.damaged"]
    assert path.with_name("s1.jsonl.damaged").read_bytes() == before


def test_an_import_that_finds_no_room_is_not_there(work: Path) -> None:
    said = [user("go"), *(answer(text("x" * 1_000)) for _ in range(200))]
    file = write_lines(work / "theirs.jsonl", [header(), *chained(said)])

    done = with_small_files(work, SMALL, "import", file.name)
    again = unconstrained(work, "import", file.name, "--json")

    assert (done.code, done.out) == (1, "")
    assert refused(done.err), done.err
    assert again.code == 0
    assert names(sessions(work)) == [f"{json.loads(again.out)['session']}.jsonl"]


@pytest.mark.parametrize("format", ["md", "json", "atif", "pi"])
def test_an_export_that_finds_no_room_leaves_what_was_there(
    format: str, work: Path
) -> None:
    before = large_session(work)
    (work / "out").write_bytes(b"what was there")

    done = with_small_files(
        work, SMALL, "export", "s1", "--format", format, "-o", "out", "--force"
    )

    assert (done.code, done.out) == (1, "")
    assert refused(done.err), done.err
    assert names(work) == ["out", "pod.toml"]
    assert (work / "out").read_bytes() == b"what was there"
    assert (sessions(work) / "s1.jsonl").read_bytes() == before


def test_a_compaction_by_hand_that_finds_no_room_leaves_the_session_as_it_was(
    work: Path,
) -> None:
    before = large_session(work)

    kept = ("-c", "compaction.retained_tokens=1000")

    done = with_small_files(work, SMALL, "compact", "s1", "--mode", "mechanical", *kept)
    shown = unconstrained(work, "session", "show", "s1")

    assert (done.code, done.out) == (1, ""), done.err
    assert "File too large" in done.err.splitlines()[-1]
    assert (sessions(work) / "s1.jsonl").read_bytes().startswith(before)
    assert shown.code == 0
