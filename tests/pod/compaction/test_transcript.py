"""What a compact worker did is written down where there is room, and never in the way."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pod.compaction.transcript import open_transcript
from worker.items import UserText


@contextmanager
def small_files(most: int) -> Iterator[None]:
    """Let no file of this process grow beyond *most* bytes: EFBIG, as a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [10, 100_000], ids=["in the buffer", "beyond it"])
def test_a_full_disk_costs_the_transcript_alone(size: int, tmp_path: Path) -> None:
    with small_files(5), open_transcript(tmp_path, "c1", None) as write:
        write(UserText("x" * size))
        write(UserText("more"))

    assert (tmp_path / "compact-c1.jsonl").stat().st_size <= 5


def test_a_folder_that_takes_no_file_costs_the_transcript_alone(tmp_path: Path) -> None:
    (tmp_path / "files").write_bytes(b"no folder")

    with open_transcript(tmp_path / "files", "c1", None) as write:
        write(UserText("x"))

    assert (tmp_path / "files").read_bytes() == b"no folder"
