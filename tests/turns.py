"""What a turn in a test runs with."""

from collections.abc import Callable, Sequence
from decimal import Decimal

from msgspec import Raw

from tests.fakes import MemorySpill
from tools.base import Call, Tool, ToolOutput
from worker.api import ToolSpec
from worker.calls import OutputLimits, Toolbox
from worker.client import Client
from worker.limits import Limits
from worker.model import Model
from worker.retry import RetryPolicy
from worker.turn import Setup
from worker.usage import Usage
from worker.wire import Cache

MODEL = Model(provider="scripted", id="m", window=100_000, max_tokens=1_000)


class Bytes:
    """Counts a token a byte."""

    def count(self, text: str) -> int:
        return len(text.encode())


async def done(call: Call) -> ToolOutput:
    """Do at once what the test does not look at."""
    return ToolOutput(summary="did it", content="all of it", referenced_files=("/a",))


def numbered() -> Callable[[], str]:
    """Return what gives the ids id1, id2, …."""
    count = 0

    def new_id() -> str:
        nonlocal count
        count += 1
        return f"id{count}"

    return new_id


def setup_for(
    client: Client,
    tools: Sequence[Tool],
    *,
    limits: Limits = Limits(),  # noqa: B008  frozen
    price: Callable[[str, Usage], Decimal | None] = lambda model, usage: Decimal(
        "0.01"
    ),
    model: Model = MODEL,
    new_id: Callable[[], str] | None = None,
) -> Setup:
    return Setup(
        client=client,
        model=model,
        system="You are a test.",
        specs=tuple(
            ToolSpec(
                name=tool.name,
                description=tool.description,
                input_schema=Raw(tool.parameters),
            )
            for tool in tools
        ),
        toolbox=Toolbox(
            tools={tool.name: tool for tool in tools},
            spill=MemorySpill(),
            output=OutputLimits(
                max_bytes=20_000, max_tokens=20_000, count=Bytes().count
            ),
        ),
        cache=Cache(),
        retry=RetryPolicy(),
        limits=limits,
        counter=Bytes(),
        price=price,
        new_id=new_id or numbered(),
        jitter=lambda: 0.5,
    )
