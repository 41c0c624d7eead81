"""A Pod over a session file whose context fills up, with scripted models."""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import ceil
from pathlib import Path
from random import Random

import trio
from msgspec.structs import replace

from pod.compaction.opening import files_of, open_watch
from pod.entries import (
    FORMAT,
    AnyEntry,
    Compaction,
    CompactionFailed,
    CompactionStart,
    Header,
    Known,
)
from pod.hooks.hooks import Hook, Hooks
from pod.manifest import CompactionTable, Manifest, PruneTable
from pod.pod import Bounds, Pod
from pod.session import Session
from tests.fakes import FakeTool, Heard
from tests.turns import setup_for
from tests.worker.compact import policies, summarisers
from tools.base import Call, Image, ToolOutput
from tools.scope import Scope
from worker.api import Request, Text, ToolResult
from worker.client import Client
from worker.limits import Limits
from worker.model import Model
from worker.policy import Decide, Policy, Reply, Route, call, say
from worker.retry import RetryPolicy
from worker.scripted import ScriptedClient
from worker.usage import Usage
from worker.wire import Cache

WINDOW = 60_000
MODEL = Model(provider="scripted", id="m", window=WINDOW, max_tokens=1_000)
TABLE = CompactionTable(
    order=("worker", "mechanical"),
    compact_threshold=20_000,
    retained_tokens=2_000,
    auto_read_budget=1_000,
    directive_budget=1_000,
    summary_cap=1_500,
    summary_target=1_000,
    reserve_tokens=2_000,
    overview_tokens=2_000,
)
"""Small, so that few results fill it. Low water is 14 000, the late limit 22 500."""


class Quarter:
    """Counts a token four bytes, as the scripted model's provider does."""

    def count(self, text: str) -> int:
        return ceil(len(text.encode("utf-8", "replace")) / 4)


def last_text(request: Request) -> str:
    """Return the text of the last tool result in *request*, "" without one."""
    found = ""
    for message in request.messages:
        for block in message.content:
            if isinstance(block, ToolResult):
                found = "".join(b.text for b in block.content if isinstance(b, Text))
    return found


def fetching(calls: int) -> Policy:
    """Call ``fetch`` until a result says that it was the last of *calls*.

    The tool counts, not the transcript: a compaction takes messages away.
    """

    def reply(request: Request) -> Reply:
        seen = re.match(r"result (\d+)", last_text(request))
        number = int(seen[1]) if seen else 0
        if number >= calls:
            return say(f"All {calls} are fetched.")
        return call((f"toolu_{number + 1}", "fetch", "{}"))

    return Decide(reply)


def answering() -> Policy:
    """Call ``fetch`` as often as the user's last message says (``3 calls``), then end."""

    def reply(request: Request) -> Reply:
        wanted, results = 0, 0
        for message in request.messages:
            for block in message.content:
                match block:
                    case Text(text=text) if message.role == "user":
                        found = re.match(r"(\d+) calls", text)
                        wanted, results = int(found[1]) if found else 0, 0
                    case ToolResult():
                        results += 1
                    case _:
                        pass
        if results >= wanted:
            return say("Done.")
        return call((f"toolu_{results}", "fetch", "{}"))

    return Decide(reply)


class FillingPod:
    """A Pod whose tool ``fetch`` returns *size* tokens a call, *more* and *images*.

    *served* is the model as its provider has it, where that is not what the Pod
    takes it for. *summariser* answers who is asked by "summarize".
    """

    def __init__(
        self,
        path: Path,
        *,
        calls: int = 12,
        size: int | Callable[[int], int] = 4_000,
        worker: Policy | None = None,
        main: Policy | None = None,
        table: CompactionTable = TABLE,
        model: Model = MODEL,
        served: Model | None = None,
        prune: PruneTable = PruneTable(enabled=False),  # noqa: B008  frozen
        cache: Cache = Cache(),  # noqa: B008  frozen
        system: str = "You are a test.",
        limits: Limits = Limits(),  # noqa: B008  frozen
        price: Callable[[str, Usage], Decimal | None] = lambda model, usage: Decimal(
            "0.01"
        ),
        wrap: Callable[[Client], Client] = lambda client: client,
        more: str = "",
        images: tuple[Image, ...] = (),
        summariser: Policy | None = None,
        summarizers: Sequence[Model] = (),
        hooks: Sequence[Hook] = (),
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008  frozen
        open_session: Callable[[Path, Header], Session] | None = None,
    ) -> None:
        self.path = path
        self.calls = 0
        self._more, self._images = more, images
        self._size = size if callable(size) else lambda number: int(size)
        self.heard = Heard()
        self.told: list[Known] = []
        self.session = (open_session or open_or_create)(path, header())
        self.session.on_entry = self.told.append
        policy: Policy = Route(
            {policies.TOOL: worker or policies.lazy()}, main or fetching(calls)
        )
        if summariser is not None:
            policy = summarisers.Either(summariser, policy)
        self.policy = policy
        random = Random(len(self.session.tree))
        setup = setup_for(
            wrap(ScriptedClient(policy, served or model)),
            [FakeTool("fetch", self._fetch)],
            limits=limits,
            price=price,
            model=model,
            new_id=lambda: f"{random.getrandbits(32):08x}",
        )
        self.setup = replace(
            setup,
            system=system,
            cache=cache,
            retry=retry,
            counter=Quarter(),
            toolbox=replace(
                setup.toolbox,
                output=replace(
                    setup.toolbox.output,
                    max_bytes=400_000,
                    max_tokens=100_000,
                    count=Quarter().count,
                ),
            ),
        )
        self.hooks = Hooks(hooks, tell=self.heard)
        self.scope = Scope([path.parent], [], path.parent)
        self.files = files = files_of(self.session)
        self.watch = open_watch(
            Manifest(compaction=table, prune=prune),
            self.session,
            self.setup,
            scope=self.scope,
            worker_model=model,
            files=files,
            tell=self.heard,
            summarizers=summarizers,
            hooks=self.hooks,
        )
        self.pod = Pod(
            self.session,
            self.setup,
            bounds=Bounds(),
            listen=self.heard,
            settled=trio.lowlevel.checkpoint,
            watch=self.watch,
            files=files,
            hooks=self.hooks,
        )

    async def _fetch(self, call: Call) -> ToolOutput:
        self.calls += 1
        name = call.call_id.partition("_")[2]
        number = int(name) if name.isdecimal() else self.calls
        text = f"result {number}\n" + "data " * (self._size(number) * 4 // 5)
        return ToolOutput(
            summary=f"fetched {number}", content=text + self._more, images=self._images
        )

    def close(self) -> None:
        self.session.close()
        self.scope.close()

    @property
    def compactions(self) -> list[Compaction]:
        return [e for e in self.told if isinstance(e, Compaction)]

    @property
    def failures(self) -> list[CompactionFailed]:
        return [e for e in self.told if isinstance(e, CompactionFailed)]


Make = Callable[..., FillingPod]
"""Makes a Pod on the test's session, and lets go of the one before."""


def open_or_create(path: Path, header: Header) -> Session:
    return Session.open(path) if path.exists() else Session.create(path, header)


def header() -> Header:
    return Header(
        format=FORMAT, id="s", at="2026-01-01T00:00:00.000Z", cwd="/", system="Test."
    )


def unpaired(entries: list[AnyEntry] | list[Known]) -> list[str]:
    """Return the compactions that do not have exactly one terminal entry."""
    starts = [e.compaction_id for e in entries if isinstance(e, CompactionStart)]
    ends = [
        e.compaction_id for e in entries if isinstance(e, Compaction | CompactionFailed)
    ]
    return [
        id for id in {*starts, *ends} if starts.count(id) != 1 or ends.count(id) != 1
    ]
