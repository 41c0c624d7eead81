"""Real Pods, served in this process to real sockets; a policy plays the model."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import trio

from pod.cli.options import Options
from pod.cli.serve import Where, serve_loaded
from pod.load_manifest import load
from pod.protocol.client import Client, Disconnected, NotThere, connect
from tests.tools.sandbox.tiers import some_bash
from worker.model import Model
from worker.policy import Echo, Policy
from worker.scripted import ScriptedClient

MODEL = Model(provider="scripted", id="echo", window=60_000, max_tokens=1_000)

MANIFEST = """
[pod]
name = "served"
[model]
provider = "scripted"
id = "echo"
max_tokens = 1000
context_window = 60000
[tools]
builtin = ["bash", "read_file"]
[permissions]
write_roots = []
[session]
dir = "sessions"
durability = "flush"
[limits]
max_requests = 22
[prune]
enabled = false
[compaction]
mode = "mechanical"
order = ["mechanical"]
compact_threshold = 20000
retained_tokens = 2000
auto_read_budget = 1000
directive_budget = 1000
summary_target = 1000
summary_cap = 1500
reserve_tokens = 2000
overview_tokens = 2000
default_references = 0
auto_continue = false
""" + some_bash()
"""Small, so that few outputs fill it."""

BIG = Echo("bash", times=1_000, arguments='{"command": "seq 1 2000"}')
"""Calls a command that prints 4 000 tokens or so, again and again."""


@asynccontextmanager
async def serving(
    folder: Path, policy: Policy = BIG, *, resume: str | None = None, more: str = ""
) -> AsyncIterator[Client]:
    """Serve a Pod in *folder*, whose path is short, while the context lasts.

    XDG_RUNTIME_DIR is to be a folder of the test's. Gives a client.
    """
    (folder / "pod.toml").write_text(MANIFEST + more, encoding="utf-8")
    path = folder / "served.sock"
    loaded = load(None, [], folder)
    options = Options(resume=resume, quiet=True)
    serve = partial(
        serve_loaded,
        loaded,
        folder,
        options,
        Where((path,)),
        lambda: ScriptedClient(policy, MODEL),
    )
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            while not await _is_there(path):
                await trio.lowlevel.checkpoint()
            async with connect(path) as client:
                yield client
                with suppress(Disconnected):  # the test has ended it
                    await client.shutdown(now=True)


async def _is_there(path: Path) -> bool:
    try:
        async with connect(path):
            return True
    except NotThere:
        return False
