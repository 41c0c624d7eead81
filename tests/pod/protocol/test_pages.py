"""The programs on the pages, run as they stand against a real Pod."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.command import ROOT
from tests.pod.protocol.served_pods import serving
from tests.recorded import inherited

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")


DONE = re.compile(r"done: (\d{1,3}(?:,\d{3})+) to (\d{1,3}(?:,\d{3})*) tokens")

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    **inherited(),
    "PYTHONUNBUFFERED": "1",
}


@pytest.fixture(autouse=True)
def _runtime(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))


def program(page: str, language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    return str(found)


def test_the_programs_are_short() -> None:
    for text in (
        program(README, "python"),
        program(PAGE, "python"),
        program(PAGE, "js"),
    ):
        assert len([line for line in text.splitlines() if line.strip()]) <= 30


def check(printed: str) -> None:
    """Hold what a listener printed to three compactions or more."""
    lines = printed.splitlines()
    begun = lines.count("compacting (mid_turn)") + lines.count("compacting (post_run)")
    done = [DONE.fullmatch(line) for line in lines if line.startswith("done")]
    sizes = [(number(match[1]), number(match[2])) for match in done if match]
    assert begun == len(done) == len(sizes) >= 2
    assert all(before > 20_000 > after for before, after in sizes)
    others = [line for line in lines if not line.startswith(("done", "compacting"))]
    assert others in ([], ["limit: max_requests"])


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("page", [README, PAGE], ids=["README", "protocol.md"])
async def test_the_listener_in_python_sees_the_compactions(
    short: Path, page: str
) -> None:
    (short / "listen.py").write_text(program(page, "python"), encoding="utf-8")

    async with serving(short) as client:
        events = client.events(types=["result"])
        await events.begin()
        await client.prompt("go")
        await anext(events)
        process = await trio.lowlevel.open_process(
            [sys.executable, "-P", "listen.py", str(client.path)],
            cwd=short,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
        )
        assert process.stdout is not None
        async with process.stdout:
            printed = await process.stdout.receive_some()
            await client.shutdown()
            async for more in process.stdout:
                printed += more
        await process.wait()

    check(printed.decode())


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
async def test_the_program_in_javascript_drives_watches_and_stops(short: Path) -> None:
    (short / "watch.mjs").write_text(program(PAGE, "js"), encoding="utf-8")

    async with serving(short) as client:
        printed = await run(["node", "watch.mjs"], short, client.path, "go")

    check(printed)
    assert printed.splitlines()[-1] == "limit: max_requests"


async def run(command: list[str], folder: Path, *arguments: Path | str) -> str:
    done = await trio.run_process(
        [*command, *map(str, arguments)],
        cwd=folder,
        capture_stdout=True,
        env=ENVIRONMENT,
    )
    return done.stdout.decode()
