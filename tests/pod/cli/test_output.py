"""A stream has its one result at its end, however the run ended."""

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from pod.cli.options import Options, OutputFormat
from pod.cli.output import resume_command
from pod.cli.run import run_loaded
from pod.exits import Exit
from pod.load_manifest import load
from tests.fakes import Step, StepClient, said
from tests.tools.sandbox.tiers import some_mode
from worker.client import OpenClient
from worker.items import AssistantText


def client(*steps: Step) -> OpenClient:
    @asynccontextmanager
    async def opened() -> AsyncIterator[StepClient]:
        yield StepClient(*steps)

    return opened


async def run(
    work: Path,
    open_client: OpenClient,
    output_format: OutputFormat = "stream-json",
    *settings: str,
) -> int:
    loaded = load(
        None,
        (
            'model.provider="scripted"',
            'model.id="echo"',
            f'session.dir="{work.parent}/sessions"',
            f'sandbox.mode="{some_mode()}"',
            *settings,
        ),
        work,
    )
    options = Options(output_format=output_format, quiet=True)
    return await run_loaded(loaded, work, options, "go", open_client)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


class Line(msgspec.Struct, frozen=True):
    type: str
    reason: str = ""
    exit_code: int = -1
    seq: int = 0


def lines(capfd: pytest.CaptureFixture[str]) -> list[Line]:
    sys.stdout.flush()
    out, _ = capfd.readouterr()
    return [msgspec.json.decode(line, type=Line) for line in out.split("\n")[:-1]]


async def test_a_fault_of_ours_is_the_streams_last_line_too(
    work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fall_over() -> Sequence[AssistantText]:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        await run(work, client(fall_over))

    told = lines(capfd)
    assert [line.type for line in told].count("result") == 1
    assert (told[-1].type, told[-1].reason) == ("result", "internal_error")
    assert told[-1].exit_code == Exit.FAILED


def lose(log: Path) -> None:
    """Put a device that takes nothing in the place of the open *log*."""
    wanted = log.stat()
    full = os.open("/dev/full", os.O_WRONLY)
    for entry in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            if os.path.samestat(os.fstat(int(entry.name)), wanted):
                os.dup2(full, int(entry.name))
    os.close(full)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
async def test_a_result_that_could_not_be_written_is_told_all_the_same(
    work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def lose_the_log() -> Sequence[AssistantText]:
        (log,) = (work.parent / "sessions").glob("*.jsonl")
        lose(log)
        return [said("lost")]

    code = await run(work, client(lose_the_log))

    told = lines(capfd)
    assert [line.type for line in told].count("result") == 1
    assert (told[-1].type, told[-1].seq) == ("result", 0)
    assert told[-1].reason == "log_failed"  # the file that is open is another one
    assert (told[-1].exit_code, code) == (Exit.FAILED, Exit.FAILED)


def test_the_command_that_goes_on_has_what_was_set_but_limits() -> None:
    options = Options(
        manifest=Path("my pod.toml"),
        cd=Path("/work"),
        settings=(" limits.max_requests=1", "model.id=x", "limits.timeout=5"),
    )

    assert resume_command(options, "s1") == (
        "pod run --resume s1 --cd /work -m 'my pod.toml' -c model.id=x"
    )
    assert resume_command(Options(), "s1") == "pod run --resume s1"
