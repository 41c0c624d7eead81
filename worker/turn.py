"""What a turn runs with and on: its setup, its history, who is asked before a request."""

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Protocol

from msgspec import Struct

from worker.api import ToolSpec
from worker.calls import Toolbox
from worker.client import Client
from worker.endings import Blocked, Held, Yielded
from worker.items import FromModel, Item, ToolCall
from worker.limits import Limits
from worker.model import Model
from worker.permit import Decision
from worker.retry import RetryPolicy
from worker.tokens import Counter
from worker.usage import Usage
from worker.wire import Cache


class Answered(Struct, frozen=True):
    """The facts of one answered (or broken-off) request, for the journal."""

    response: str
    model: str
    stop_reason: str
    usage: Usage | None
    context_tokens: int | None
    estimate: int | None
    cost: Decimal | None
    request_id: str | None
    attempts: int
    seconds: float


class History(Protocol):
    """The items a request is made of. What is put in is on disk before it is seen."""

    @property
    def items(self) -> Sequence[Item]: ...

    def add(self, items: Sequence[Item]) -> None: ...

    def deliver(self) -> int:
        """Move input that waits into the history; say how much it was."""

    def discard(self, items: Sequence[FromModel]) -> None:
        """Keep *items* out of the history, but not out of the log."""

    def decided(self, call: ToolCall, decision: Decision) -> None: ...

    def start_tool(self, call: ToolCall) -> None: ...

    def answered(self, answered: Answered) -> None: ...

    async def commit(self) -> None: ...


class Setup(Struct, frozen=True):
    """What a turn runs with; the same from its first request to its last."""

    client: Client
    model: Model
    system: str
    specs: tuple[ToolSpec, ...]
    toolbox: Toolbox
    cache: Cache
    retry: RetryPolicy
    limits: Limits
    counter: Counter
    price: Callable[[str, Usage], Decimal | None]
    """(model, usage) to USD; None where the price is unknown. Blocks when it is
    called first, to load the prices."""
    new_id: Callable[[], str]
    jitter: Callable[[], float]
    """Uniform in [0, 1)."""


Gate = Callable[[], Awaitable[Yielded | Held | Blocked | None]]
"""Asked before each request, with the history as it would be sent; what it gives
ends the turn. It may put more into the history."""
