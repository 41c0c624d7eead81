from pathlib import Path
from typing import IO

import pytest
from hypothesis import given, settings, strategies as st

from tools import capture
from tools.capture import Capture
from tools.spill import SpillFolder


class NoSpill:
    def open(self, name: str) -> tuple[Path, IO[bytes]]:
        raise OSError(28, "No space left on device")


class FullDisk:
    """A file on the device that is always full."""

    def open(self, name: str) -> tuple[Path, IO[bytes]]:
        path = Path("/dev/full")
        return path, path.open("wb")


async def captured(chunks: list[bytes], into: Capture) -> tuple[bytes, bytes]:
    for chunk in chunks:
        await into.add(chunk)
    await into.close()
    return into.ends()


async def test_what_fits_is_kept_whole_without_a_file(tmp_path: Path) -> None:
    kept = Capture(10, SpillFolder(tmp_path / "spill"), "out")

    ends = await captured([b"01234", b"56789"], kept)

    assert (ends, kept.path, kept.total) == ((b"0123456789", b""), None, 10)
    assert not (tmp_path / "spill").exists()


async def test_what_does_not_fit_keeps_both_ends_and_goes_to_a_file(
    tmp_path: Path,
) -> None:
    kept = Capture(10, SpillFolder(tmp_path), "out")

    ends = await captured([b"0123456789", b"a", b"bcdefghij"], kept)

    assert ends == (b"01234", b"fghij")
    assert (kept.total, kept.kept, kept.trouble) == (20, 20, "")
    assert kept.path is not None
    assert kept.path.read_bytes() == b"0123456789abcdefghij"


@settings(max_examples=30, deadline=None)
@given(
    chunks=st.lists(st.binary(max_size=40), max_size=20),
    cap=st.integers(min_value=2, max_value=60),
)
async def test_however_it_is_cut_the_ends_and_the_file_are_right(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], cap: int
) -> None:
    whole = b"".join(chunks)
    kept = Capture(cap, SpillFolder(tmp_path_factory.mktemp("spill")), "out")

    head, tail = await captured(chunks, kept)

    if len(whole) <= cap:
        assert (head, tail, kept.path) == (whole, b"", None)
    else:
        assert (head, tail) == (whole[: cap // 2], whole[-(cap // 2) :])
        assert kept.path is not None
        assert kept.path.read_bytes() == whole


@pytest.mark.parametrize("spill", [NoSpill(), FullDisk()])
async def test_a_full_disk_costs_the_file_but_not_the_ends(
    spill: NoSpill | FullDisk,
) -> None:
    kept = Capture(10, spill, "out")

    ends = await captured([b"0123456789abc", b"x" * 1_000_000, b"the end"], kept)

    assert ends == (b"01234", b"e end")
    assert kept.trouble == "writing failed: No space left on device"


async def test_a_disk_that_fills_up_at_the_last_moment_is_noticed() -> None:
    kept = Capture(10, FullDisk(), "out")

    await captured([b"0123456789abc"], kept)  # little enough to wait in a buffer

    assert kept.trouble == "writing failed: No space left on device"


async def test_an_endless_output_does_not_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "SPILL_LIMIT", 100)
    kept = Capture(10, SpillFolder(tmp_path), "out")

    ends = await captured([b"x" * 90, b"y" * 1_000_000, b"the end"], kept)

    assert kept.path is not None
    assert kept.path.read_bytes() == b"x" * 90 + b"y" * 10
    assert ends == (b"xxxxx", b"e end")
    assert (kept.kept, kept.trouble) == (100, "it holds the first 100 bytes")
