"""Opening a session of 50 MB, beside reading its file."""

from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from pod.entries import (
    FORMAT,
    Compaction,
    Header,
    ItemEntry,
    Known,
    ToolStart,
    UsageEntry,
)
from pod.log import read_log
from pod.session import Session
from tests.benchmarks.made import turn
from tests.benchmarks.provider import USAGE
from tests.benchmarks.table import Cell, cpu_ms, show, times

BYTES = 50_000_000
BATCH = 500
"""Turns that are appended at once."""
PASSES = 5


def main() -> None:
    """Make two logs, with a compaction near the end and without, and open them."""
    rows: list[Sequence[Cell]] = []
    with TemporaryDirectory(prefix="pod-bench-") as name:
        for title, compacted in (("all of it", False), ("behind a compaction", True)):
            path = Path(name) / f"{compacted}.jsonl"
            _write(path, compacted=compacted)
            size = path.stat().st_size / 1e6
            taken = {
                "read the bytes": cpu_ms(path.read_bytes, PASSES),
                "read_log": cpu_ms(partial(read_log, path), PASSES),
                "Session.open": cpu_ms(partial(_open, path), PASSES),
            }
            base = taken["read the bytes"]
            rows += [
                [f"{way}, {title}", size, ms, size / ms * 1_000, times(ms, base)]
                for way, ms in taken.items()
            ]
    show("A long session", ["", "MB", "CPU ms", "MB/s", "x reading"], rows)


def _open(path: Path) -> None:
    Session.open(path).close()


def _write(path: Path, *, compacted: bool) -> None:
    header = Header(
        format=FORMAT, id="s", at="2026-01-01T00:00:00.000Z", cwd="/", system="."
    )
    with Session.create(path, header, durability="flush") as session:
        numbers = count()
        while path.stat().st_size < BYTES:
            session.append(*(e for _ in range(BATCH) for e in _entries(next(numbers))))
        if compacted:
            session.append(_compaction(session))


def _entries(number: int) -> list[Known]:
    said, call, result = (ItemEntry(item=item) for item in turn(number))
    used = UsageEntry(
        response=f"response_{number}",
        model="m",
        stop_reason="tool_use",
        usage=USAGE,
        context_tokens=USAGE.total,
    )
    return [
        said,
        call,
        used,
        ToolStart(call_id=f"toolu_{number:06}", name="read_file"),
        result,
    ]


def _compaction(session: Session) -> Compaction:
    first_kept = session.path_entries()[-5]
    assert session.leaf is not None
    return Compaction(
        compaction_id="c",
        reason="manual",
        mode="mechanical",
        summary="So far all went well.",
        first_kept=first_kept.id,
        compacted_from=session.leaf,
        tokens_before=1_000_000,
        tokens_after=1_000,
    )
