"""A command that fills the disk ends the run, and takes nothing that was said with it."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from pod.cli.options import Options
from pod.cli.run import run_loaded
from pod.entries import ItemEntry, RunEnd
from pod.exits import Exit
from pod.load_manifest import load
from pod.log import read_log
from tests.tools.sandbox.tiers import some_mode
from worker.client import Client
from worker.items import ToolResult
from worker.model import Model
from worker.policy import Script, call, say
from worker.scripted import ScriptedClient

MODEL = Model(provider="scripted", id="echo", window=None, max_tokens=32_000)
FILL = '{"command": "cat /dev/zero > fill; ls -s fill; echo at the end"}'


class Result(Struct):
    outcome: str
    reason: str


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of four megabytes, for the work and the sessions."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4M", "pod-test", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount a tmpfs: {error}")
    (folder / "work").mkdir()
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def run(disk: Path, script: Script, prompt: str, resume: str | None) -> int:
    settings = (
        'model.provider="scripted"',
        'model.id="echo"',
        f'session.dir="{disk}/sessions"',
        f'sandbox.mode="{some_mode()}"',
    )

    @asynccontextmanager
    async def client() -> AsyncIterator[Client]:
        yield ScriptedClient(script, MODEL)

    loaded = load(None, settings, disk / "work")
    options = Options(output_format="json", quiet=True, resume=resume)
    return await run_loaded(loaded, disk / "work", options, prompt, client)


async def test_it_ends_with_disk_full_and_goes_on_where_there_is_room(
    disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = Script([call(("c1", "bash", FILL)), say("not reached " * 20_000)])

    code = await run(disk, script, "fill it", None)

    result = msgspec.json.decode(capfd.readouterr().out, type=Result)
    (path,) = (disk / "sessions").glob("*.jsonl")
    log = read_log(path)
    results = [
        entry.item.content
        for entry in log.entries
        if isinstance(entry, ItemEntry) and isinstance(entry.item, ToolResult)
    ]
    assert (code, result) == (Exit.FAILED, Result("failed", "disk_full"))
    assert (log.torn, log.damage) == (None, ())
    assert "No space left on device" in (results[0] or "")

    (disk / "work" / "fill").unlink()
    again = await run(disk, Script([say("there is room")]), "go on", path.stem)

    ends = [e.reason for e in read_log(path).entries if isinstance(e, RunEnd)]
    assert (again, ends) == (Exit.DONE, ["disk_full", "done"])
