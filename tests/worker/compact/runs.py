"""A compact worker over a folder, ready to run with any policy."""

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from tests.fakes import Heard, MemorySpill
from tests.makers import MODEL, call, result, said, thought, user
from tests.worker.compact.policies import Keeping
from tools.scope import Scope
from worker.client import Client
from worker.compact.auto_read import FileLines
from worker.compact.run import Parts, compact
from worker.compact.task import Budgets, CompactError, KnownFile, Progress, Result, Task
from worker.items import Item, ToolResult, UserText
from worker.limits import Limits, Spent
from worker.model import Model
from worker.policy import Policy
from worker.retry import RetryPolicy
from worker.scripted import ScriptedClient

ORDER = "Use trio, never asyncio."
HEAD: tuple[Item, ...] = (
    user(ORDER),
    thought(of="a"),
    call("a", name="read_file"),
    result("a", "a long text"),
    said("It is done."),
    user("Go on with the report."),
)


def count(text: str) -> int:
    """Count a token four bytes, as the scripted client does."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def render(lines: FileLines) -> str:
    place = lines.shown if lines.start is None else f"{lines.shown}:{lines.start}"
    return f"[Auto-read file: {place}]\n{lines.text}"


class Quarter:
    """The same as a Counter."""

    def count(self, text: str) -> int:
        return count(text)


class Case:
    """One compact worker: what it is given, and what it told."""

    def __init__(
        self,
        scope: Scope,
        policy: Policy,
        *,
        files: tuple[str, ...] = (),
        task: Task | None = None,
        budgets: Budgets = Budgets(),  # noqa: B008  frozen
        model: Model = MODEL,
        limits: Limits = Limits(),  # noqa: B008  frozen
        wrap: Callable[[Client], Client] = lambda client: client,
    ) -> None:
        self.client = Keeping(wrap(ScriptedClient(policy, model)))
        self.task = task or Task(
            head=HEAD,
            directives=(ORDER, "Go on with the report."),
            files=tuple(known(scope, name) for name in files),
        )
        self.heard = Heard()
        self.spent = Spent()
        self.items: list[Item] = []
        self.progress: list[Progress] = []
        self._ids = 0
        self.parts = Parts(
            client=self.client,
            model=model,
            scope=scope,
            counter=Quarter(),
            count=count,
            price=lambda model, usage: Decimal("0.01"),
            new_id=self._new_id,
            jitter=random.Random(1).random,
            spill=MemorySpill(),
            render=render,
            retry=RetryPolicy(attempts=2, base=0.0, cap=0.0),
            limits=limits,
            budgets=budgets,
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"

    async def run(self) -> Result:
        return await compact(
            self.task,
            self.parts,
            spent=self.spent,
            listen=self.heard,
            on_progress=self.progress.append,
            record=self.items.append,
        )

    async def failure(self) -> CompactError:
        """Run, and return the error it ends with."""
        try:
            found = await self.run()
        except CompactError as error:
            return error
        raise AssertionError(f"no failure but {found}")


def known(scope: Scope, name: str) -> KnownFile:
    """Return a file as the Pod knows it: absolute, with its size."""
    path = scope.absolute(name)
    size = Path(path).stat().st_size if Path(path).exists() else None
    return KnownFile(path, size, "read in the survey")


def with_window(tokens: int) -> Model:
    return replace(MODEL, window=tokens)


def answers(case: Case) -> list[str]:
    """Return what the tools answered, without what read_file showed."""
    return [
        item.content or item.summary
        for item in case.items
        if isinstance(item, ToolResult) and not item.summary.startswith("read ")
    ]


def prompts(case: Case) -> list[str]:
    """Return what the worker was told behind its task."""
    return [item.text for item in case.items[1:] if isinstance(item, UserText)]
