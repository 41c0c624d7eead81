"""The key is in no log, event, export, child environment or message.

`tests/conftest.py` looks for it in all that the whole test run left behind.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.command import Done, pod
from tests.secret import KEY, leaks
from tests.tools.sandbox.tiers import need, some_mode
from worker.anthropic_client import AnthropicClient
from worker.api import Message, Request, Text
from worker.client import Delta, ProviderError
from worker.loopback.server import Server, serve
from worker.policy import Script, call, say

REQUEST = Request("m", 1, (), (Message("user", (Text("hi"),)),))

# What a command can find out about its own surroundings.
LOOK = (
    "env; cat /proc/self/environ; echo $ANTHROPIC_API_KEY; set; export -p;"
    " cat /proc/self/cmdline; ps -ef 2>/dev/null; true"
)
SCRIPT = Script(
    [
        call(
            ("c1", "bash", f'{{"command": "{LOOK}"}}'),
            ("c2", "read_file", f'{{"path": "/proc/{os.getpid()}/environ"}}'),
            ("c3", "read_file", '{"path": "/proc/self/environ"}'),
            ("c4", "grep", '{"pattern": "sk-ant", "path": "/proc/self"}'),
            ("c5", "look", "{}"),
        ),
        say("I looked everywhere."),
    ]
)


async def ask(server: Server, work: Path, *arguments: str, key: str = KEY) -> Done:
    return await pod(
        *arguments,
        "-c",
        f"model.base_url={server.base_url}",
        "-c",
        f"session.dir={work.parent}/sessions",
        cwd=work,
        env={"ANTHROPIC_API_KEY": key, "MY_OTHER_KEY": "x"},
    )


@pytest.mark.timeout(120)
async def test_a_run_that_looks_for_the_key_everywhere_finds_it_nowhere(
    tmp_path: Path,
) -> None:
    if some_mode() == "off":
        need("bwrap")  # without a sandbox root finds it
    work = tmp_path / "work"
    work.mkdir()
    (work / "pod.toml").write_text(
        '[permissions]\nread_roots = ["/"]\n[tools]\npython = ["look.py:look"]\n'
    )
    (work / "look.py").write_text(
        'def look() -> str:\n    """Look."""\n    return "nothing"\n'
    )
    shown: list[str] = []

    async with serve(SCRIPT, api_key=KEY) as server:
        done = await ask(server, work, "run", "go", "--output-format", "stream-json")
        shown += [done.out, done.err]
        assert done.code == 0, done.err
        (log,) = (tmp_path / "sessions").glob("*.jsonl")
        for command in (
            ("session", "show", log.stem),
            ("session", "show", log.stem, "--json"),
            ("compact", log.stem, "--mode", "mechanical"),
            ("check",),
        ):
            done = await ask(server, work, *command)
            shown += [done.out, done.err]
        wrong = await ask(server, work, "run", "go", key=KEY + "x")
        shown += [wrong.out, wrong.err]
        assert wrong.code == 5

    assert "I looked everywhere." in shown[0]
    assert [text for text in shown if KEY in text] == []
    assert list(leaks(tmp_path)) == []


@pytest.mark.parametrize(
    "body",
    [
        f'{{"error": {{"type": "x", "message": "incorrect key {KEY} given"}}}}',
        f"<html><body>Incorrect key {KEY}</body></html>",
        f'{{"error": {{"message": "{"x" * 585} {KEY}"}}}}',  # cut off inside it
        KEY,
    ],
)
@pytest.mark.parametrize("status", [401, 400, 500, 302])
async def test_a_server_that_repeats_the_key_is_not_repeated(
    body: str, status: int
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield body.encode()

    def answer(request: httpx2.Request) -> httpx2.Response:
        place = {"location": f"http://x/?key={KEY}"}
        return httpx2.Response(status, content=pieces(), headers=place)

    def ignore(delta: Delta) -> None:
        pass

    transport = httpx2.MockTransport(answer)
    async with AnthropicClient(api_key=KEY, transport=transport) as client:
        with pytest.raises(ProviderError) as caught:
            await client.ask(REQUEST, ignore)

    message = caught.value.failure.message
    assert KEY[:12] not in message
    assert "[key]" in message
