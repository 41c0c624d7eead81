"""How full the context is, and how much room an answer has."""

from collections.abc import Sequence
from math import ceil

import trio
from msgspec import Struct

from worker.api import ToolSpec
from worker.items import Item
from worker.model import Model
from worker.tokens import Counter, count_item, count_tool, factor_for, item_bytes

LEAST_OUTPUT = 1024
"""Output tokens asked for even where the estimate leaves less: the estimate may be
wrong, and the provider's own figures decide."""


class Room(Struct, frozen=True):
    """What is known before a request.

    *estimate* is its prompt in tokens, None where nobody needed to count it;
    *max_tokens* what may be asked for as output.
    """

    estimate: int | None
    max_tokens: int


class Occupancy:
    """Follows one history from request to request.

    What the provider measured is exact and free, so only what came after the
    last measurement is estimated, each item once. A token is at least a byte:
    while bytes alone fit the window, nothing is counted and no tokenizer loads.
    """

    def __init__(
        self,
        *,
        model: Model,
        system: str,
        specs: Sequence[ToolSpec],
        counter: Counter,
    ) -> None:
        self._model = model
        self._system = system
        self._specs = specs
        self._counter = counter
        self._factor = factor_for(model.id)
        self._start = 0
        """Index of the first item that no measurement covers."""
        self._measured: int | None = None
        """Tokens of everything before *_start*; None before the first measurement."""
        self._sized = 0
        self._bytes = len(system.encode(errors="replace")) + sum(
            len(s.name) + len(s.description.encode()) + len(bytes(s.input_schema))
            for s in specs
        )
        """Bytes of what no measurement covers, as far as item *_sized*."""
        self._counted = 0
        self._tokens: int | None = None
        """The same in o200k tokens, as far as item *_counted*."""

    def measured(self, context_tokens: int | None, length: int) -> None:
        """Take over that the provider counted *context_tokens* for *length* items."""
        if context_tokens is None:
            return
        self._measured = context_tokens
        self._start = self._sized = self._counted = length
        self._bytes = 0
        self._tokens = 0

    async def room(self, items: Sequence[Item]) -> Room:
        """Return what a request with *items* may ask for as output."""
        wanted, window = self._model.max_tokens, self._model.window
        if window is None:
            return Room(None, wanted)
        self._bytes += sum(item_bytes(item) for item in items[self._sized :])
        self._sized = len(items)
        known = self._measured or 0
        if known + ceil(self._bytes * self._factor) + wanted <= window:
            return Room(None, wanted)
        estimate = known + ceil(await self._count(items) * self._factor)
        return Room(estimate, max(LEAST_OUTPUT, min(wanted, window - estimate)))

    async def _count(self, items: Sequence[Item]) -> int:
        """Count what no measurement covers; in a thread, since much may be new."""

        def count() -> int:
            tokens = self._tokens
            if tokens is None:
                tokens = self._counter.count(self._system) + sum(
                    count_tool(spec, self._counter) for spec in self._specs
                )
            return tokens + sum(
                count_item(item, self._counter) for item in items[self._counted :]
            )

        self._tokens = await trio.to_thread.run_sync(count)
        self._counted = len(items)
        return self._tokens
