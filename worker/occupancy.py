"""How full the context is, and how much room an answer has."""

from collections.abc import Sequence
from math import ceil

import trio
from msgspec import Struct

from worker.api import ToolSpec
from worker.items import Item
from worker.model import Model
from worker.tokens import (
    Counter,
    at_most,
    count_item,
    count_tool,
    factor_for,
    item_bytes,
    tool_bytes,
)

LEAST_OUTPUT = 1024
"""Output tokens asked for even where the estimate leaves less: the estimate may be
wrong, and the provider's own figures decide."""

LEAST_RESULT = 1_000
"""Tokens a tool result may have however full the window is: enough to say what
happened and where the full text is."""


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
        self._measured = 0
        """Tokens of what the provider has counted."""
        self._sized = 0
        self._bytes = at_most(system) + sum(map(tool_bytes, specs))
        """Bytes of what no measurement covers, as far as item *_sized*."""
        self._counted = 0
        self._tokens: int | None = None
        """The same in o200k tokens, as far as item *_counted*."""

    def measured(self, context_tokens: int | None, length: int) -> None:
        """Take over that the provider counted *context_tokens* for *length* items."""
        if context_tokens is None:
            return
        self._measured = context_tokens
        self._sized = self._counted = length
        self._bytes = 0
        self._tokens = 0

    async def room(self, items: Sequence[Item]) -> Room:
        """Return what a request with *items* may ask for as output.

        Never more than the model's most. Where the estimate leaves less than
        LEAST_OUTPUT in the window, that much is asked for all the same.
        """
        wanted, window = self._model.max_tokens, self._model.window
        if window is None or self._bound(items) + wanted <= window:
            return Room(None, wanted)
        estimate = await self._estimate(items)
        return Room(estimate, min(wanted, max(LEAST_OUTPUT, window - estimate)))

    async def share(self, items: Sequence[Item], *, results: int, most: int) -> int:
        """Return the tokens that each of *results* tool results may have.

        That is *most*, or an equal part of what *items* and the next answer
        leave of the window, but no less than LEAST_RESULT (or *most*).
        """
        window = self._model.window
        if window is None:
            return most
        # A model may have half the window as its most output; it rarely uses it.
        room = window - min(self._model.max_tokens, window // 4)
        if self._bound(items) + results * most <= room:
            return most
        left = room - await self._estimate(items)
        return min(most, max(LEAST_RESULT, left // results))

    def _bound(self, items: Sequence[Item]) -> int:
        """Return tokens that *items* do not exceed, from their bytes alone."""
        self._bytes += sum(item_bytes(item) for item in items[self._sized :])
        self._sized = len(items)
        return self._measured + ceil(self._bytes * self._factor)

    async def _estimate(self, items: Sequence[Item]) -> int:
        return self._measured + ceil(await self._count(items) * self._factor)

    async def _count(self, items: Sequence[Item]) -> int:
        """Count what no measurement covers; in a thread, since much may be new."""
        length = len(items)

        def count() -> int:
            tokens = self._tokens
            if tokens is None:
                tokens = self._counter.count(self._system) + sum(
                    count_tool(spec, self._counter) for spec in self._specs
                )
            return tokens + sum(
                count_item(item, self._counter)
                for item in items[self._counted : length]
            )

        self._tokens = await trio.to_thread.run_sync(count)
        self._counted = length
        return self._tokens
