"""Lines of files, as they are put in front of the model."""

import hashlib
from pathlib import Path

import pytest

from tools.base import ToolError
from tools.scope import Scope
from worker.compact.auto_read import FileLines, read_lines

TEXT = "one\ntwo\nthree\n"


def read(
    scope: Scope,
    start: int | None = None,
    end: int | None = None,
    *,
    path: str = "a.txt",
    max_bytes: int = 1_000,
) -> FileLines:
    return read_lines(scope, path, start, end, max_bytes=max_bytes, check=lambda: None)


@pytest.fixture
def file(folder: Path) -> Path:
    path = folder / "a.txt"
    path.write_text(TEXT)
    return path


def lines(
    scope: Scope,
    text: str,
    start: int | None = None,
    end: int | None = None,
    *,
    of: bytes = TEXT.encode(),
    is_cut: bool = False,
) -> FileLines:
    sha256 = hashlib.sha256(of).hexdigest()
    path = scope.absolute("a.txt")
    return FileLines(path, "a.txt", start, end, text, sha256, is_cut)


def test_a_whole_file_has_no_lines_in_its_name(scope: Scope, file: Path) -> None:
    assert read(scope) == lines(scope, "one\ntwo\nthree")
    assert read(scope, 1, 3) == lines(scope, "one\ntwo\nthree")
    assert read(scope, 1, 99) == lines(scope, "one\ntwo\nthree")


def test_a_range_says_which_lines_there_are(scope: Scope, file: Path) -> None:
    assert read(scope, 2, 2) == lines(scope, "two", 2, 2)
    assert read(scope, 2, 99) == lines(scope, "two\nthree", 2, 3)
    assert read(scope, 2) == lines(scope, "two\nthree", 2, 3)
    assert read(scope, 1, 2) == lines(scope, "one\ntwo", 1, 2)


def test_what_is_too_long_is_cut_and_says_so(scope: Scope, file: Path) -> None:
    assert read(scope, max_bytes=20).is_cut
    assert read(scope, 2, max_bytes=10) == lines(scope, "two", 2, 2, is_cut=True)
    file.write_text("x" * 100)
    assert read(scope, max_bytes=50).is_cut


def test_other_encodings_and_control_characters_are_made_readable(
    scope: Scope, file: Path
) -> None:
    data = "größer\r\nzwei\n".encode("utf-16")
    file.write_bytes(data)
    assert read(scope) == lines(scope, "größer\nzwei", of=data)

    data = b"a\x1b[31mred\x1b[0m\xff\n"
    file.write_bytes(data)
    assert read(scope) == lines(scope, "ared\ufffd", of=data)


@pytest.mark.parametrize(
    ("data", "start", "words"),
    [
        (
            b"",
            None,
            "a.txt is empty: there is nothing to mark. add_reference names it.",
        ),
        (b"\0\1\2", None, "a.txt is no text (binary, 3 bytes): it cannot be put"),
        (b"%PDF-1.4", None, "a.txt is no text (PDF, 8 bytes): it cannot be put"),
        (b"one\n", 2, "offset 2 is beyond the end: a.txt has 1 lines"),
    ],
)
def test_what_cannot_be_marked_says_what_to_do(
    scope: Scope, file: Path, data: bytes, start: int | None, words: str
) -> None:
    file.write_bytes(data)

    with pytest.raises(ToolError) as caught:
        read(scope, start)

    assert str(caught.value).startswith(words)


def test_files_that_are_missing_or_outside_are_refused(scope: Scope) -> None:
    with pytest.raises(ToolError, match="no such file"):
        read(scope, path="gone.txt")
    with pytest.raises(ToolError, match="outside of the folders you may read"):
        read(scope, path="/etc/passwd")
