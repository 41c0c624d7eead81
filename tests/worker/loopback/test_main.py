"""The server as a program of its own, as a user starts it."""

import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx2
import pytest
import trio

from tests.worker.loopback.requests import request
from worker.loopback.__main__ import main

ROOT = Path(__file__).resolve().parents[3]
HEADERS = {"x-api-key": "loopback", "anthropic-version": "2023-06-01"}


@asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[tuple[trio.Process, str]]:
    command = [sys.executable, "-m", "worker.loopback", *arguments]
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(
            partial(
                trio.run_process,
                command,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                check=False,
            )
        )
        assert process.stdout is not None
        port = int(await process.stdout.receive_some())
        yield process, f"http://127.0.0.1:{port}"
        await process.wait()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
async def test_it_says_its_port_serves_and_stops(stop: signal.Signals) -> None:
    with trio.fail_after(20):
        async with started("--policy", "say", "--faults", "1:529") as (process, url):
            async with httpx2.AsyncClient(base_url=url, headers=HEADERS) as client:
                first = await client.post("/v1/messages", content=request())
                second = await client.post("/v1/messages", content=request())
            process.send_signal(stop)

    assert (first.status_code, second.status_code) == (529, 200)
    assert second.json()["content"] == [{"type": "text", "text": "Hello."}]
    assert process.returncode == 0


def test_a_wrong_fault_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--faults", "3:explode"])

    assert raised.value.code == 2
    assert "fault 'explode': not a status" in capsys.readouterr().err


def test_a_taken_port_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        assert main(["--port", port]) == 1

    told = capsys.readouterr().err
    assert told.startswith(f"cannot listen on port {port}: ")
