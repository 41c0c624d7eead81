"""Runs far beyond the window finish in mode "summarize", whoever is asked."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from pod.entries import CompactionCode
from pod.exits import Exit
from pod.manifest import PruneTable
from tests.longrun import LongRun, Options
from tests.pod.compaction.pods import TABLE
from tests.worker.compact import summarisers
from worker.api import Request
from worker.client import Client, Delta, Response

SUMMARIZE = replace(
    TABLE,
    mode="summarize",
    order=("mechanical",),
    keep_recent_tokens=4_000,
    short_summary=True,
)
SHORT = Options(
    calls=60,
    window=60_000,
    compact_threshold=20_000,
    largest=6_000,
    compaction=SUMMARIZE,
    prune=PruneTable(enabled=False),
    retries=10,
    steer=10,
)
QUIET = replace(SHORT, steer=0)
"""Nobody says anything on the way: new input lets who is left alone be asked again."""

FAILURES: dict[str, CompactionCode] = {
    "truncating": "invalid_summary",
    "thinker": "no_summary",
    "empty": "no_summary",
    "chatty": "invalid_summary",
    "calling": "no_summary",
    "oversize": "too_large",
    "rate_limited": "api",
    "server_error": "api",
    "disconnected": "api",
}
"""What becomes of the summarisers that bring no summary (docs/compaction.md)."""

PROVIDERS = ("rate_limited", "server_error", "disconnected")
DOCS = Path(__file__).resolve().parents[3] / "docs" / "compaction.md"


def attempts(name: str, compactions: int) -> dict[str, int]:
    """Return how the rungs end over a whole run."""
    if name not in FAILURES:
        return {"summarize: used": compactions}
    failed = f"summarize: {FAILURES[name]}"
    if name in PROVIDERS:
        return {failed: compactions, "mechanical: used": compactions}
    return {
        failed: 3,
        "summarize: breaker_open": compactions - 3,
        "mechanical: used": compactions,
    }


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("name", summarisers.ALL)
async def test_a_run_finishes_whoever_is_asked(
    name: str, thinking: bool, tmp_path: Path
) -> None:
    options = QUIET if name in FAILURES else SHORT
    run = LongRun(replace(options, summariser=name, thinking=thinking), tmp_path)

    report = await run.run()

    assert report.wrong == []
    assert (report.exit_code, report.message) == (Exit.DONE, "")
    assert (report.calls, report.compactions) == (60, report.starts)
    assert report.compactions >= 4
    assert report.attempts == attempts(name, report.compactions)


@pytest.mark.parametrize("name", FAILURES)
async def test_without_another_rung_a_failure_ends_the_run_and_changes_nothing(
    name: str, tmp_path: Path
) -> None:
    alone = replace(SUMMARIZE, order=("summarize",))
    run = LongRun(replace(SHORT, summariser=name, compaction=alone), tmp_path)

    report = await run.run()

    assert report.wrong == []  # the history is what it was
    assert report.failed == {FAILURES[name]: 1}
    assert (report.exit_code, report.reason) == (Exit.CONTEXT, "context_full")
    assert report.message.startswith("Auto-compaction failed: ")


class Slow:
    """A client that never answers who asks for a summary."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        if summarisers.is_summary_request(request):
            await trio.sleep_forever()
        return await self._client.ask(request, on_delta)

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


async def test_all_attempts_and_models_together_have_one_deadline(
    tmp_path: Path,
) -> None:
    """omp#2913: 17 minutes of timeouts before the fallback."""
    table = replace(SUMMARIZE, summarize_timeout=0.02, models=("a", "b", "c"))

    report = await LongRun(replace(QUIET, compaction=table), tmp_path, wrap=Slow).run()

    assert (report.wrong, report.exit_code) == ([], Exit.DONE)
    assert report.attempts == {
        "summarize: timeout": 3,
        "summarize: breaker_open": report.compactions - 3,
        "mechanical: used": report.compactions,
    }


async def test_a_worker_that_fails_is_followed_by_a_model_that_is_asked_once(
    tmp_path: Path,
) -> None:
    """The default order: worker, summarize, mechanical."""
    table = replace(TABLE, order=("worker", "summarize", "mechanical"))
    run = LongRun(replace(QUIET, worker="empty", compaction=table), tmp_path)

    report = await run.run()

    assert (report.wrong, report.exit_code) == ([], Exit.DONE)
    assert report.attempts == {
        "worker: no_summary": 3,
        "worker: breaker_open": report.compactions - 3,
        "summarize: used": report.compactions,
    }


def test_the_docs_say_what_becomes_of_each_summariser() -> None:
    page = DOCS.read_text(encoding="utf-8")
    table = page.split("| summariser | outcome |")[1].split("\n\n")[0]
    rows = [row.split("|")[1:4] for row in table.splitlines() if row.startswith("| ")]

    for name in summarisers.ALL:
        [(outcome, counts)] = [r[1:] for r in rows if name in re.split(r"\W+", r[0])]
        if name in FAILURES:
            assert f"`{FAILURES[name]}`" in outcome
            assert counts.strip() == ("no" if name in PROVIDERS else "yes")
        else:
            assert "its summary is used" in outcome
