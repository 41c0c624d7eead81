"""Where sessions are kept may be closed, read-only, gone, or full of other things."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pod.codec import encode
from pod.log import read_log
from tests.constrained import as_anybody
from tests.pod.logs import HEADER, talk, written

MANIFEST = """
[model]
provider = "scripted"
id = "echo:1"
[tools]
builtin = ["bash"]
[sandbox]
mode = "off"
[session]
dir = "{folder}"
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def sessions(tmp_path: Path, work: Path) -> Iterator[Path]:
    folder = tmp_path / "sessions"
    (work / "pod.toml").write_text(MANIFEST.format(folder=folder))
    yield folder
    if folder.is_dir():
        folder.chmod(0o700)


def log_of(sessions: Path, work: Path, *, more: bytes = b"") -> Path:
    """Put a session of *work*'s into the folder."""
    sessions.mkdir()
    path = sessions / "s1.jsonl"
    path.write_bytes(written(talk(2)).replace(b'"/work"', b'"%s"' % bytes(work)) + more)
    return path


def _closed(folder: Path) -> str:
    folder.mkdir(mode=0o000)
    return "Permission denied"


def _read_only(folder: Path) -> str:
    folder.mkdir(mode=0o500)
    return "Permission denied"


def _a_file(folder: Path) -> str:
    folder.write_bytes(b"mine")
    return "Not a directory"


def _a_dangling_link(folder: Path) -> str:
    folder.symlink_to("nowhere")
    return "Not a directory"


@pytest.mark.parametrize(
    "make",
    [_closed, _read_only, _a_file, _a_dangling_link],
    ids=lambda make: make.__name__,
)
def test_a_place_that_takes_no_session_is_told_in_one_line_and_stays_as_it_is(
    make: Callable[[Path], str], work: Path, sessions: Path
) -> None:
    why = make(sessions)

    done = as_anybody(work, "run", "hi", "--output-format", "stream-json")

    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert line.startswith(("pod: cannot create", "pod: cannot open"))
    assert str(sessions) in line
    assert line.endswith(why)
    assert sessions.is_symlink() or not sessions.is_dir() or not _names(sessions)


@pytest.mark.parametrize("command", [("list",), ("show", "s1"), ("fork", "s1")])
@pytest.mark.parametrize("make", [_closed, _a_file], ids=lambda make: make.__name__)
def test_a_place_that_cannot_be_looked_into_is_no_empty_one(
    make: Callable[[Path], str], command: tuple[str, ...], work: Path, sessions: Path
) -> None:
    why = make(sessions)

    done = as_anybody(work, "session", *command)

    assert (done.code, done.out) == (1, "")
    assert done.err == f"pod: cannot list the sessions in {sessions}: {why}\n"


def test_a_place_that_is_not_there_yet_has_no_sessions_and_is_made(
    work: Path, sessions: Path
) -> None:
    listed = as_anybody(work, "session", "list")
    done = as_anybody(work, "run", "hi", "-q")

    assert (listed.code, listed.out) == (0, "")
    assert (done.code, done.out) == (0, "Done after 1 call.\n")
    assert sessions.stat().st_mode & 0o777 == 0o700


def test_a_log_that_may_only_be_read_is_shown_and_forked_and_not_gone_on_with(
    work: Path, sessions: Path
) -> None:
    path = log_of(sessions, work)
    before = path.read_bytes()
    path.chmod(0o400)

    gone_on = as_anybody(work, "run", "more", "-q", "--resume", "s1")
    shown = as_anybody(work, "session", "show", "s1")
    forked = as_anybody(work, "session", "fork", "s1")

    assert (gone_on.code, gone_on.out) == (1, "")
    assert gone_on.err == f"pod: cannot open {path}: Permission denied\n"
    assert shown.code == 0
    assert "m2" in shown.out
    assert forked.code == 0, forked.err
    assert len(read_log(sessions / f"{forked.out.strip()}.jsonl").entries) == 2
    assert path.read_bytes() == before


def test_a_log_that_may_not_be_read_hides_no_other(work: Path, sessions: Path) -> None:
    path = log_of(sessions, work)
    (sessions / "s2.jsonl").write_bytes(path.read_bytes())
    path.chmod(0o000)

    listed = as_anybody(work, "session", "list", "--all")
    gone_on = as_anybody(work, "run", "more", "-q", "--continue")

    assert listed.code == 0
    assert f"broken: cannot open {path}: Permission denied" in listed.out
    assert gone_on.code == 0, gone_on.err
    assert len(read_log(sessions / "s2.jsonl").entries) > 2


@pytest.mark.parametrize(
    ("command", "more"),
    [
        (("run", "x", "-q", "--resume", "s1"), b""),
        (("run", "x", "-q", "--resume", "s1"), b'{"type":"item","seq":3'),
        (("session", "fork", "s1"), b""),
        (("session", "repair", "s1"), b"\0\0\0\n" + encode(talk(4)[3])),
    ],
    ids=["run", "run behind a torn end", "fork", "repair"],
)
def test_in_a_folder_that_may_only_be_read_nothing_is_begun_and_nothing_changes(
    command: tuple[str, ...], more: bytes, work: Path, sessions: Path
) -> None:
    path = log_of(sessions, work, more=more)
    before = path.read_bytes()
    sessions.chmod(0o500)

    done = as_anybody(work, *command)

    assert (done.code, done.out) == (1, "")
    line = done.err.splitlines()[-1]
    assert line.startswith("pod: cannot ")
    assert line.endswith(": Permission denied")
    assert "Traceback" not in done.err
    assert path.read_bytes() == before
    assert _names(sessions) == ["s1.jsonl"]


def test_other_things_in_the_folder_are_left_alone_and_hide_no_session(
    work: Path, sessions: Path
) -> None:
    log_of(sessions, work)
    (sessions / "a folder.jsonl").mkdir()
    os.mkfifo(sessions / "fifo.jsonl")
    with socket.socket(socket.AF_UNIX) as listening:
        there = os.open(sessions, os.O_RDONLY)
        try:
            listening.bind(f"/proc/self/fd/{there}/socket.jsonl")
        finally:
            os.close(there)
    (sessions / "loop.jsonl").symlink_to("loop.jsonl")
    (sessions / "dangling.jsonl").symlink_to("nowhere")
    (sessions / "two\nlines.jsonl").write_bytes(b"x")
    (sessions / "empty.jsonl").touch()
    (sessions / "binary.jsonl").write_bytes(bytes(range(256)) * 20)
    (sessions / "notes.txt").write_bytes(b"mine")
    (sessions / ".half.jsonl").write_bytes(encode(HEADER)[:20])
    with (sessions / "sparse.jsonl").open("wb") as sparse:
        sparse.truncate(1 << 40)
    names = _names(sessions)

    listed = as_anybody(work, "session", "list", "--all")
    gone_on = as_anybody(work, "run", "more", "-q", "--continue")
    (sessions / "sparse.jsonl").unlink()  # the tests' search for the key would read it
    names.remove("sparse.jsonl")

    assert listed.code == 0, listed.err
    lines = sorted(line.split()[0] for line in listed.out.splitlines())
    assert lines == ["binary", "empty", "s1", "sparse"]
    assert "Traceback" not in listed.err
    assert (gone_on.code, gone_on.out) == (0, "Done after 1 call.\n"), gone_on.err
    assert sorted({*_names(sessions)} - {*names}) == []


def _names(folder: Path) -> list[str]:
    folder.chmod(0o700)
    return sorted(path.name for path in folder.iterdir())
