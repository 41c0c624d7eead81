"""Transcripts of whole conversations, kept as files: ``golden/*.jsonl``.

``python -m tests.pod.protocol.golden`` writes them anew; a change in one is a
change of the protocol, and belongs into its page and the changelog.
"""

import re
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from pod.entries import RunEnd, ToolStart
from pod.protocol.client import Client
from tests.pod.protocol.served_pods import serving
from worker.policy import Echo, Policy, Script, call, say

FOLDER = Path(__file__).parent / "golden"
SYSTEM = '[prompt]\nsystem = "You are a test."\n'
"""The built-in prompt names the folder, whose tokens differ from run to run."""

Conversation = Callable[[Client], Awaitable[None]]


async def talk(client: Client) -> None:
    """Run a prompt with two calls to its end."""
    await client.prompt("List the files.")
    await _until_result(client)


async def compact(client: Client) -> None:
    """Run until the context was compacted and a limit is reached; compact by hand."""
    await client.prompt("Count.")
    await _until_result(client)
    await client.compact("Keep the figures.")


async def stop(client: Client) -> None:
    """Interrupt a run in its tool, then run another one."""
    events = client.events(from_seq=0, types=["tool_start"])
    await client.prompt("Wait.")
    async for event in events:
        if isinstance(event, ToolStart):
            break
    await client.interrupt()
    await client.prompt("And now?")
    await _until_result(client, runs=2)


READING = Echo("read_file", times=1_000, arguments='{"path": "numbers.txt"}')
NUMBERS = "".join(f"{number}\n" for number in range(1_500))
"""Some 4 000 tokens. A command would do, but how long it took is in its result."""

CONVERSATIONS: dict[str, tuple[Conversation, Policy]] = {
    "talk": (talk, Echo("bash", times=2, arguments='{"command": "echo hi"}')),
    "compact": (compact, READING),
    "stop": (
        stop,
        Script([call(("c1", "bash", '{"command": "sleep 600"}')), say("Done.")]),
    ),
}


async def transcript(name: str, folder: Path) -> str:
    """Hold a conversation; return its durable events, what varies made the same."""
    converse, policy = CONVERSATIONS[name]
    await trio.Path(folder / "numbers.txt").write_text(NUMBERS, encoding="utf-8")
    async with serving(folder, policy, more=SYSTEM) as client:
        await converse(client)
        events = client.events(from_seq=0)
        await events.begin()
        await client.shutdown()
        lines = [
            events.line + b"\n" async for event in events if getattr(event, "seq", None)
        ]
    return same(b"".join(lines).decode(), str(folder))


async def _until_result(client: Client, runs: int = 1) -> None:
    async for event in client.events(from_seq=0, types=["result"]):
        runs -= isinstance(event, RunEnd)
        if not runs:
            return


VARIES = (
    (re.compile(r'"at":"[^"]+"'), '"at":"AT"'),
    (re.compile(r'"session":"[^"]+"'), '"session":"SESSION"'),
    (re.compile(r'"seconds":[0-9.e-]+'), '"seconds":0.0'),
    (re.compile(r"after \d+\.\d s"), "after 0.0 s"),
    # The folder's name is in what tools and models are told, and its tokens differ.
    (
        re.compile(
            r'"(estimate|tokens_before|tokens_after|summary_tokens|kept_tokens'
            r'|summarised_tokens|context_tokens|input|cache_read|cache_write)":\d+'
        ),
        r'"\1":0',
    ),
)
_LONG = re.compile(r'"(?:[^"\\]|\\.){600,}"')
"""A text so long that nobody would read it in a diff."""
_ID = re.compile(r"\b(?:[0-9a-f]{8}|[0-9a-f]{12})\b")


def same(text: str, folder: str) -> str:
    """Return *text* with times, folders and ids as they are in every run."""
    for pattern, word in VARIES:
        text = pattern.sub(word, text)
    text = _LONG.sub(lambda found: f'"{len(found[0])} characters"', text)
    ids: dict[str, str] = {}
    text = text.replace(folder, "/FOLDER")
    return _ID.sub(lambda found: ids.setdefault(found[0], f"id{len(ids) + 1}"), text)


async def _write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in CONVERSATIONS:
        with tempfile.TemporaryDirectory(prefix="pod-t-", dir="/tmp") as folder:
            text = await transcript(name, Path(folder))
        (FOLDER / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    trio.run(_write)
