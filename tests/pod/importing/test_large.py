"""Large files: time that grows with them, memory that does not hold their text."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pod.importing.source import lines
from tests.command import ROOT
from tests.pod.importing.imports import brief, shown, take
from tests.pod.importing.pi_makers import (
    answer,
    call,
    header,
    placed,
    result,
    text,
    user,
)

WORDS = "The quick brown fox jumps over the lazy dog, and then it writes a test. "


def write_session(file: Path, megabytes: float) -> int:
    """Write a session of pi's of about this size; return its bytes."""
    size, number, parent = 0, 0, None
    with file.open("w", encoding="utf-8") as out:
        size += out.write(json.dumps(header()) + "\n")
        while size < megabytes * 1_000_000:
            id = f"c{number}"
            for line in (
                user(f"Look at {number}. " + WORDS * 2),
                answer(text(WORDS * 4), call(id, path=f"f{number}.py")),
                result(id, WORDS * 40),
                answer(text(WORDS * 8)),
            ):
                number += 1
                entry = placed(f"e{number}", parent, line)
                parent = f"e{number}"
                size += out.write(json.dumps(entry) + "\n")
    return size


def seconds_of(folder: Path, megabytes: float) -> float:
    file = folder / f"{megabytes}.jsonl"
    write_session(file, megabytes)
    started = time.process_time()
    take(file, folder)
    return time.process_time() - started


MEMORY = """
import resource, sys
from pathlib import Path
from pod.importing.importer import import_file
from pod.store import Store
import_file(
    Path(sys.argv[1]), Store(Path(sys.argv[2])), cwd="/", system="s", pod="p"
)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def kilobytes_of(folder: Path, megabytes: float) -> int:
    """Return the most memory that importing a file of this size took."""
    file = folder / f"{megabytes}.jsonl"
    write_session(file, megabytes)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(file), str(folder / "sessions")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = int(done.stdout)
    return found // 1024 if sys.platform == "darwin" else found


def test_the_memory_does_not_hold_the_text(tmp_path: Path) -> None:
    small = kilobytes_of(tmp_path, 0.5)
    large = kilobytes_of(tmp_path, 10)

    assert large - small < 10_000 / 2  # of ten megabytes more, less than half


@pytest.mark.slow
def test_fifty_megabytes_take_ten_times_what_five_do(tmp_path: Path) -> None:
    five = min(seconds_of(tmp_path, 5) for _ in range(3))
    fifty = min(seconds_of(tmp_path, 50) for _ in range(2))

    assert fifty < 14 * five, f"5 MB: {five:.2f} s, 50 MB: {fifty:.2f} s"


@pytest.mark.slow
def test_fifty_megabytes_take_little_more_memory_than_five(tmp_path: Path) -> None:
    small = kilobytes_of(tmp_path, 5)
    large = kilobytes_of(tmp_path, 50)

    assert large - small < 20_000, f"5 MB: {small} KB, 50 MB: {large} KB"


def test_a_line_longer_than_any_record_is_passed_over_and_named(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    with file.open("w") as out:
        out.write(json.dumps(header()) + "\n")
        out.write('{"type":"message","id":"x","message":"')
        for _ in range(65):
            out.write("x" * 2**20)
        out.write('"}\n' + json.dumps(placed("a", None, user("go"))) + "\n")

    done = take(file, tmp_path)

    assert [brief(item) for item in shown(done)] == ["user go"]
    assert done.tally.losses == {"lines of more than 64 MiB: passed over": 1}


def test_of_a_line_that_is_too_long_nothing_is_held(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"a\n" + b"b" * 3_000_000 + b"\nc")

    with file.open("rb") as opened:
        found = [*lines(opened.fileno(), longest=10)]

    assert [line.data for line in found] == [b"a", None, b"c"]
    assert [line.length for line in found] == [1, 3_000_000, 1]


def test_lines_are_the_files_whatever_their_length(tmp_path: Path) -> None:
    file = tmp_path / "x"
    parts = [b"a", b"", b"b" * 3_000_000, b"c"]
    file.write_bytes(b"\n".join(parts))

    with file.open("rb") as opened:
        found = [*lines(opened.fileno())]

    assert [line.data for line in found] == parts
    assert [line.ended for line in found] == [True, True, True, False]
    assert [line.offset for line in found] == [0, 2, 3, 3_000_004]
