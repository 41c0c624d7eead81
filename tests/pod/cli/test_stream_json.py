"""The event stream of a real run over HTTP, whatever the provider does."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from pod.cli.options import Options
from pod.cli.run import run_loaded
from pod.exits import Exit
from pod.load_manifest import load
from tests.command import pod
from tests.tools.sandbox.tiers import some_mode
from worker.loopback.faults import (
    EMPTY,
    GARBAGE,
    HTML_INSTEAD,
    Cut,
    Drop,
    ErrorEvent,
    Fault,
    Faults,
    Hang,
    Redirect,
    Status,
    Truncate,
    overflow,
    overloaded,
    rate_limit,
)
from worker.loopback.server import Server, serve
from worker.policy import Echo, Script, say

ECHO = Echo("bash", times=2, arguments='{"command": "echo hi"}')


class Line(Struct, frozen=True):
    """What every event has."""

    v: int
    at: str
    session: str
    run: str | None
    type: str
    seq: int | None = None


class ResultLine(Struct, frozen=True):
    outcome: str
    reason: str
    exit_code: int
    message: str = ""
    text: str = ""


class RetryLine(Struct, frozen=True):
    kind: str
    attempt: int
    wait: float


def manifest(folder: Path, base_url: str, *more: str) -> Sequence[str]:
    return (
        'model.id="claude-sonnet-5-5"',
        f'model.base_url="{base_url}"',
        'tools.builtin=["bash"]',
        f'session.dir="{folder}/sessions"',
        "retry.base=0.01",
        f'sandbox.mode="{some_mode()}"',
        *more,
    )


async def run(
    server: Server,
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    *settings: str,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[int, list[str], str]:
    """Run a prompt against *server*; return exit code, lines of stdout, stderr."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "loopback")
    work = folder / "work"
    work.mkdir(exist_ok=True)
    loaded = load(None, manifest(folder, server.base_url, *settings), work)
    capfd.readouterr()

    code = await run_loaded(
        loaded, work, Options(output_format="stream-json", quiet=True), "go", None
    )

    sys.stdout.flush()
    out, err = capfd.readouterr()
    return code, out.splitlines(), err


def check_stream(lines: list[str], code: int) -> ResultLine:
    """Hold a stream to what is promised of every one; return its result."""
    events = [msgspec.json.decode(line, type=Line) for line in lines]
    results = [i for i, event in enumerate(events) if event.type == "result"]
    numbers = [event.seq for event in events if event.seq is not None]
    assert events[0].type == "init"
    assert results == [len(events) - 1]
    assert all(event.v == 1 and event.session for event in events)
    assert all(event.run for event in events[1:])
    assert numbers == sorted(set(numbers))
    result = msgspec.json.decode(lines[-1], type=ResultLine)
    assert result.exit_code == code
    return result


def retries(lines: list[str]) -> list[RetryLine]:
    return [
        msgspec.json.decode(line, type=RetryLine)
        for line in lines
        if msgspec.json.decode(line, type=Line).type == "retry"
    ]


async def test_a_good_run_ends_with_its_one_result(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(ECHO) as server:
        code, lines, err = await run(server, tmp_path, capfd, monkeypatch=monkeypatch)

    result = check_stream(lines, code)
    assert (result.outcome, result.reason, code) == ("finished", "done", Exit.DONE)
    assert result.text == "Done after 2 calls."
    assert retries(lines) == []
    assert err == ""


WEATHERED: dict[str, tuple[dict[int, Fault], list[str]]] = {
    "429 with retry-after": ({2: rate_limit(seconds=0.05)}, ["rate_limit"]),
    "429 with retry-after-ms": ({1: rate_limit(milliseconds=20)}, ["rate_limit"]),
    "a burst of 529": (
        {n: overloaded() for n in (1, 2, 3, 5)},
        ["overloaded", "overloaded", "overloaded", "overloaded"],
    ),
    "500": ({1: Status(500)}, ["server"]),
    "an error inside the stream": ({2: ErrorEvent()}, ["overloaded"]),
    "a truncated stream": ({1: Truncate(), 3: Truncate()}, ["truncated", "truncated"]),
    "a cut connection": ({2: Cut()}, ["connection"]),
    "a dropped connection": ({1: Drop()}, ["connection"]),
    "an empty answer": ({1: EMPTY}, ["not_a_stream"]),
    "a page instead of a stream": ({1: HTML_INSTEAD}, ["not_a_stream"]),
    "garbage in the stream": ({1: GARBAGE}, ["garbled"]),
    "silence": ({1: Hang()}, ["timeout"]),
}


@pytest.mark.parametrize("weather", WEATHERED)
async def test_a_run_weathers_what_passes(
    weather: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults, kinds = WEATHERED[weather]

    async with serve(ECHO, faults=Faults(at=faults)) as server:
        code, lines, _ = await run(
            server,
            tmp_path,
            capfd,
            "retry.idle_timeout=0.3",
            monkeypatch=monkeypatch,
        )

    result = check_stream(lines, code)
    assert (result.outcome, code) == ("finished", Exit.DONE), result
    assert result.text == "Done after 2 calls."
    assert [retry.kind for retry in retries(lines)] == kinds


FATAL: dict[str, tuple[Fault, str, Exit]] = {
    "prompt too long": (overflow(), "overflow", Exit.CONTEXT),
    "bad key": (Status(401), "auth", Exit.AUTH),
    "no money": (Status(402), "billing", Exit.AUTH),
    "forbidden": (Status(403), "auth", Exit.AUTH),
    "no such model": (Status(404), "not_found", Exit.FAILED),
    "bad request": (Status(400, "no"), "invalid", Exit.FAILED),
    "asked to wait for hours": (
        rate_limit(seconds=7200),
        "rate_limit",
        Exit.UNAVAILABLE,
    ),
    "redirect": (Redirect("http://127.0.0.1:9/"), "invalid", Exit.FAILED),
}


@pytest.mark.parametrize("fate", FATAL)
async def test_what_does_not_pass_ends_the_run_with_its_code_and_reason(
    fate: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault, reason, exit_code = FATAL[fate]

    async with serve(ECHO, faults=Faults(choose=lambda n, request: fault)) as server:
        code, lines, err = await run(
            server, tmp_path, capfd, "retry.attempts=2", monkeypatch=monkeypatch
        )

    result = check_stream(lines, code)
    assert (result.outcome, result.reason, code) == ("failed", reason, exit_code)
    assert result.message
    assert result.message in err
    assert "Traceback" not in err


async def test_a_provider_that_stays_down_is_unavailable(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    down = Faults(choose=lambda n, request: overloaded())

    async with serve(ECHO, faults=down) as server:
        code, lines, _ = await run(
            server, tmp_path, capfd, "retry.attempts=3", monkeypatch=monkeypatch
        )

    result = check_stream(lines, code)
    assert (result.reason, code) == ("overloaded", Exit.UNAVAILABLE)
    assert len(retries(lines)) == 2


async def test_a_limit_gives_what_there_is_and_code_3(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(ECHO) as server:
        code, lines, _ = await run(
            server, tmp_path, capfd, "limits.max_requests=1", monkeypatch=monkeypatch
        )

    result = check_stream(lines, code)
    assert (result.outcome, result.reason, code) == (
        "limit",
        "max_requests",
        Exit.LIMIT,
    )


async def test_the_same_stream_comes_out_of_a_real_process(tmp_path: Path) -> None:
    async with serve(ECHO, faults=Faults(at={2: overloaded()})) as server:
        settings = [
            part
            for setting in manifest(tmp_path, server.base_url)
            for part in ("-c", setting)
        ]
        work = tmp_path / "work"
        work.mkdir()
        done = await pod(
            "run",
            "go",
            "--output-format",
            "stream-json",
            *settings,
            cwd=work,
            env={"ANTHROPIC_API_KEY": "loopback"},
        )

    result = check_stream(done.out.splitlines(), done.code)
    assert result.text == "Done after 2 calls."
    assert "overloaded" in done.err


async def test_json_is_the_result_line_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "loopback")

    async with serve(Script([], then=say("Hello."))) as server:
        work = tmp_path / "work"
        work.mkdir()
        loaded = load(None, manifest(tmp_path, server.base_url), work)
        code = await run_loaded(
            loaded, work, Options(output_format="json", quiet=True), "go", None
        )

    out, _ = capfd.readouterr()
    result = msgspec.json.decode(out, type=ResultLine)
    assert (code, result.text, out.count("\n")) == (Exit.DONE, "Hello.", 1)
