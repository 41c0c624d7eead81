"""Runs far beyond the window finish, whoever writes their summaries (tests/longrun.py)."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import trio
from msgspec import Struct
from msgspec.structs import replace

from pod.cli import main
from pod.context import context
from pod.entries import Compaction, CompactionCode
from pod.exits import Exit
from pod.manifest import PruneTable
from tests.longrun import FIRST_ORDER, PLANTED, LongRun, Options
from tests.pod.compaction.pods import TABLE
from tests.worker.compact import policies
from worker.api import Request
from worker.client import Client, Delta, Response

SHORT = Options(
    calls=60,
    window=60_000,
    compact_threshold=20_000,
    largest=6_000,
    compaction=TABLE,
    prune=PruneTable(enabled=False),
    retries=10,
    steer=10,
)
QUIET = replace(SHORT, steer=0)
"""Nobody says anything on the way: new input lets who is left alone be asked again."""
"""Four compactions in a quarter of a second."""

FAILURES: dict[str, CompactionCode] = {
    "truncating": "invalid_summary",
    "empty": "no_summary",
    "silent": "no_summary",
    "unstructured": "invalid_summary",
    "oversize": "too_large",
    "stuck": "no_summary",
    "endless_reader": "input_limit",
    "rate_limited": "api",
    "server_error": "api",
    "disconnected": "api",
}
"""What becomes of the workers that bring no summary (docs/compaction.md)."""

DOCS = Path(__file__).resolve().parents[3] / "docs" / "compaction.md"

PROVIDERS = ("rate_limited", "server_error", "disconnected")
"""Those whose failures are the provider's: the breaker does not count them."""


@pytest.mark.parametrize("options", [[], ["--no-prune", "--thinking"]])
async def test_a_tenth_of_the_long_run_keeps_its_promises(options: list[str]) -> None:
    """The whole of it: python -m tests.longrun."""
    command = [sys.executable, "-m", "tests.longrun", "--calls", "200", *options]

    done = await trio.run_process(command, capture_stdout=True, check=False)

    report = msgspec.json.decode(done.stdout, type=_Printed)
    assert report.wrong == []
    assert (done.returncode, report.exit_code, report.calls) == (0, Exit.DONE, 200)
    assert report.result_tokens > 900_000
    assert report.largest_request <= 128_000
    assert report.compactions + report.prunes >= 10
    assert report.compactions >= (10 if options else 3)
    assert report.retries == report.made_to_fail > 0
    assert report.rss_end <= 1.5 * report.rss_first


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [[], ["--no-prune", "--thinking"]])
async def test_the_long_run_keeps_its_promises(options: list[str]) -> None:
    command = [sys.executable, "-m", "tests.longrun", *options]

    done = await trio.run_process(command, capture_stdout=True, check=False)

    report = msgspec.json.decode(done.stdout, type=_Printed)
    assert (report.wrong, done.returncode, report.calls) == ([], 0, 2_000)
    assert report.result_tokens > 9_000_000
    assert report.compactions >= (100 if options else 30)


class _Printed(Struct):
    """What the command prints, as far as it is looked at."""

    exit_code: int
    calls: int
    result_tokens: int
    largest_request: int
    compactions: int
    prunes: int
    retries: int
    made_to_fail: int
    rss_first: int
    rss_end: int
    wrong: list[str]


@pytest.mark.parametrize("worker", policies.ALL)
async def test_a_run_finishes_whoever_writes_its_summaries(
    worker: str, tmp_path: Path
) -> None:
    options = QUIET if worker in FAILURES else SHORT
    run = LongRun(replace(options, worker=worker), tmp_path)

    report = await run.run()

    assert report.wrong == []
    assert (report.exit_code, report.message) == (Exit.DONE, "")
    assert (report.calls, report.compactions) == (60, report.starts)
    assert report.retries == report.made_to_fail + report.worker_retries
    assert report.attempts == expected_attempts(worker, report.compactions)


def test_the_docs_say_what_becomes_of_each_worker() -> None:
    page = DOCS.read_text(encoding="utf-8")
    table = page.split("| worker | outcome |")[1].split("\n\n")[0]
    rows = [row.split("|")[1:4] for row in table.splitlines() if row.startswith("| ")]

    for worker in policies.ALL:
        [(outcome, counts)] = [r[1:] for r in rows if worker in re.split(r"\W+", r[0])]
        if worker in FAILURES:
            assert f"`{FAILURES[worker]}`" in outcome
            assert counts.strip() == ("no" if worker in PROVIDERS else "yes")
        else:
            assert "its summary is used" in outcome


def expected_attempts(worker: str, compactions: int) -> dict[str, int]:
    """Return how the rungs end over a whole run."""
    if worker not in FAILURES:
        return {"worker: used": compactions}
    failed = f"worker: {FAILURES[worker]}"
    if worker in PROVIDERS:
        return {failed: compactions, "mechanical: used": compactions}
    return {
        failed: 3,
        "worker: breaker_open": compactions - 3,
        "mechanical: used": compactions,
    }


class Slow:
    """A client that never answers compact workers."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        if any(tool.name == policies.TOOL for tool in request.tools):
            await trio.sleep_forever()
        return await self._client.ask(request, on_delta)

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


async def test_a_worker_that_is_too_slow_is_ended_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    options = replace(QUIET, compaction=replace(TABLE, worker_timeout=0.02))

    report = await LongRun(options, tmp_path, wrap=Slow).run()

    assert (report.wrong, report.exit_code) == ([], Exit.DONE)
    assert report.attempts == {
        "worker: timeout": 3,
        "worker: breaker_open": report.compactions - 3,
        "mechanical: used": report.compactions,
    }


@pytest.mark.parametrize("worker", FAILURES)
async def test_without_another_rung_a_failure_ends_the_run_and_another_worker_goes_on(
    worker: str, tmp_path: Path
) -> None:
    alone = replace(TABLE, order=("worker",))
    failing = LongRun(replace(SHORT, worker=worker, compaction=alone), tmp_path)

    report = await failing.run()

    assert report.wrong == []  # the history is what it was
    assert report.failed == {FAILURES[worker]: 1}
    assert (report.exit_code, report.reason) == (Exit.CONTEXT, "context_full")
    assert report.message.startswith("Auto-compaction failed: ")

    again = await LongRun(replace(SHORT, compaction=alone), tmp_path).run(None)

    assert again.wrong == []
    if worker in PROVIDERS:
        assert (again.exit_code, again.reason) == (Exit.DONE, "done")
    else:  # the same input is not sent again: neither before the run nor in it
        assert again.skipped == {"same_input": 2}
        assert (again.exit_code, again.worker_requests) == (Exit.CONTEXT, 0)
        assert "has failed on this very input" in again.message


def test_each_compaction_is_explained_afterwards(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = trio.run(LongRun(replace(QUIET, worker="empty"), tmp_path).run)
    show = ["session", "show", "session", "-c", f'session.dir="{tmp_path}"']

    code = main(show)
    lines = capfd.readouterr().out.splitlines()
    receipts = []
    for number in range(1, report.compactions + 1):
        code += main([*show, "--compaction", str(number)])
        receipts.append(capfd.readouterr().out)

    assert code == Exit.DONE
    told = [line for line in lines if re.search(r"  compaction \d+ \(mid_turn\)", line)]
    assert len(told) == report.compactions
    for number, receipt in enumerate(receipts, start=1):
        assert receipt.startswith(f"compaction {number} of {report.compactions}")
        assert "mechanical: used" in receipt
        assert ("no_summary" if number <= 3 else "breaker_open") in receipt


async def test_words_put_into_the_users_mouth_are_in_no_summary(tmp_path: Path) -> None:
    for worker, words in (
        ("fabricating", policies.FABRICATED),
        ("follower", PLANTED),
    ):
        folder = tmp_path / worker
        folder.mkdir()
        run = LongRun(replace(SHORT, worker=worker), folder)

        await run.run()

        with run.open() as session:
            found = [e for e in session.path_entries() if isinstance(e, Compaction)]
        assert found
        assert all(set(e.receipt.dropped_quotes) == {words} for e in found)
        assert not any(words in e.summary for e in found)
        assert not any(words in d.text for e in found for d in e.directives)
        assert all(e.directives[0].text == FIRST_ORDER for e in found)


async def test_a_turn_that_reasons_all_along_goes_on_over_compactions(
    tmp_path: Path,
) -> None:
    """One tool loop with signed reasoning: there is no place the API would cut it."""
    options = replace(SHORT, thinking=True, steer=0)

    report = await LongRun(options, tmp_path).run()

    assert (report.wrong, report.exit_code, report.calls) == ([], Exit.DONE, 60)
    assert report.compactions >= 3


async def test_pruning_alone_makes_room_where_it_can(tmp_path: Path) -> None:
    prune = PruneTable(protect_tokens=6_000, min_savings=6_000)

    report = await LongRun(replace(SHORT, prune=prune), tmp_path).run()

    assert (report.wrong, report.exit_code) == ([], Exit.DONE)
    assert report.prunes > 0


async def test_the_log_alone_gives_the_same_context_after_every_compaction(
    tmp_path: Path,
) -> None:
    run = LongRun(replace(SHORT, thinking=True), tmp_path)
    await run.run()

    with run.open() as session:
        path = session.path_entries()
        items = list(session.items)

    assert context(path) == items
