"""How full the context is, and how much room an answer has."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from math import ceil
from operator import is_

import trio
from msgspec import Struct

from worker.api import ToolSpec
from worker.calibration import Calibration, prompt_tokens
from worker.items import FromModel, Item
from worker.model import Model
from worker.tokens import (
    Counter,
    at_most,
    count_item,
    count_tool,
    item_bytes,
    tool_bytes,
)
from worker.usage import Usage

LEAST_OUTPUT = 1024
"""Output tokens asked for even where the estimate leaves less: the estimate may be
wrong, and the provider's own figures decide."""

LEAST_RESULT = 1_000
"""Tokens a tool result may have however full the window is: enough to say what
happened and where the full text is."""

INLINE_BYTES = 32_768
"""Counted without a thread: 0.3 ms at toktok's 90 MB/s, 2 ms at tiktoken's."""

SLACK = 64
"""How many counts of items that have gone are kept before they are cleared out."""


class Room(Struct, frozen=True):
    """What is known before a request.

    *estimate* is its prompt in tokens, None where nobody needed to count it;
    *max_tokens* what may be asked for as output.
    """

    estimate: int | None
    max_tokens: int


class Parts(Struct, frozen=True):
    """What a prompt is made of, in estimated tokens."""

    system: int
    tools: int
    items: int

    @property
    def total(self) -> int:
        return self.system + self.tools + self.items


class Occupancy:
    """Follows one history from request to request, for one model.

    What the provider measured is exact and free. Only what differs from the
    view it measured is estimated, each item counted once, in o200k tokens by
    *calibration*'s factor, which learns from each measurement. A token is at
    least a byte: while bytes alone fit, the first request waits for no tokenizer.
    """

    def __init__(
        self,
        *,
        model: Model,
        system: str,
        specs: Sequence[ToolSpec],
        counter: Counter,
        calibration: Calibration | None = None,
    ) -> None:
        self._model = model
        self.window = model.window
        """Tokens of prompt and output; lowered when the provider tells of less."""
        self._system = system
        self._specs = tuple(specs)
        self._counter = counter
        self.calibration = calibration or Calibration(model.id)
        self._measured: int | None = None
        """Tokens of *_view* and of what goes with it; None where not measured."""
        self._view: list[Item] = []
        self._counts: dict[Item, int] = {}
        """o200k tokens of items, each counted once; equal items share."""
        self._stale = False
        self._overhead: tuple[int, int] | None = None
        """o200k tokens of the system prompt and of the tools."""
        self._overhead_bytes = at_most(system) + sum(map(tool_bytes, specs))

    @property
    def last(self) -> int | None:
        """What the context held after the last answer; None where unknown."""
        return self._measured

    @property
    def has_counted(self) -> bool:
        """Whether the tokenizer has been needed already, and is loaded."""
        return self._overhead is not None

    def measured(
        self,
        context_tokens: int | None,
        items: Sequence[Item],
        *,
        usage: Usage | None = None,
    ) -> None:
        """Take over that the provider counted *context_tokens* for *items*.

        The last of *items* are the answer. With *usage*, which says how much
        of it the prompt had, the factor learns from what was new in the
        prompt. None for *context_tokens* (the provider said nothing): the
        measurement before stands.
        """
        if context_tokens is None:
            return
        self._learn(prompt_tokens(context_tokens, usage), items)
        self._measured = context_tokens
        self._view = list(items)

    def _learn(self, prompt: int | None, items: Sequence[Item]) -> None:
        if self._measured is None or prompt is None:
            return
        request = items[: len(items) - _answer_length(items)]
        new = request[len(self._view) :]
        if _starts_with(request, self._view) and all(i in self._counts for i in new):
            estimate = sum(self._counts[item] for item in new)
            self.calibration.learn(estimate, prompt - self._measured)

    def reset(self) -> None:
        """Forget the measurement: the items are others now, after a compaction.

        What was counted is kept for the items that stay, and so is the factor.
        """
        self._measured = None
        self._view = []
        self._stale = True

    async def estimate(self, items: Sequence[Item]) -> int:
        """Return the tokens of a prompt with *items*."""
        old, new = self._changes(items)
        await self._count([*old, *new])
        tokens = sum(self._counts[i] for i in new) - sum(self._counts[i] for i in old)
        if self._measured is None:
            tokens += sum(await self._count_overhead())
        self._clear_out(items)
        return max((self._measured or 0) + self._scaled(tokens), 0)

    async def over(self, items: Sequence[Item], limit: int) -> int | None:
        """Return the tokens of a prompt with *items* if they exceed *limit*.

        None if not; where bytes prove that, nothing is counted.
        """
        if self._at_most(items) <= limit:
            return None
        estimate = await self.estimate(items)
        return estimate if estimate > limit else None

    async def room(self, items: Sequence[Item]) -> Room:
        """Return what a request with *items* may ask for as output.

        Once anything has been counted there is an estimate in it; before, only
        where bytes alone cannot prove that everything fits.
        """
        wanted, window = self._model.max_tokens, self.window
        if not self.has_counted and (
            window is None or self._at_most(items) + wanted <= window
        ):
            return Room(None, wanted)
        estimate = await self.estimate(items)
        if window is None:
            return Room(estimate, wanted)
        return Room(estimate, min(wanted, max(LEAST_OUTPUT, window - estimate)))

    async def share(self, items: Sequence[Item], *, results: int, most: int) -> int:
        """Return the tokens that each of *results* tool results may have.

        That is *most*, or an equal part of what *items* and the next answer
        leave of the window, but no less than LEAST_RESULT (or *most*).
        """
        window = self.window
        if window is None:
            return most
        # A model may have half the window as its most output; it rarely uses it.
        room = window - min(self._model.max_tokens, window // 4)
        if self._at_most(items) + results * most <= room:
            return most
        left = room - await self.estimate(items)
        return min(most, max(LEAST_RESULT, left // results))

    async def sizes(self, items: Sequence[Item]) -> tuple[int, ...]:
        """Return the tokens of each item by itself."""
        await self._count(items)
        return tuple(self._scaled(self._counts[item]) for item in items)

    async def parts(self, items: Sequence[Item]) -> Parts:
        """Return what a prompt with *items* is made of, all of it estimated."""
        await self._count(items)
        system, tools = await self._count_overhead()
        return Parts(
            system=self._scaled(system),
            tools=self._scaled(tools),
            items=self._scaled(sum(self._counts[item] for item in items)),
        )

    async def ratio(self) -> float:
        """Return how many tokens the provider counts where one is estimated.

        Over all that the last measurement was of; 1.0 without one.
        """
        if self._measured is None:
            return 1.0
        estimate = (await self.parts(self._view)).total
        return self._measured / estimate if estimate else 1.0

    def _changes(self, items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
        """Return what was in the measured view and is not, and the other way round."""
        if _starts_with(items, self._view):
            return (), items[len(self._view) :]
        same = len(list(takewhile(bool, map(is_, items, self._view))))
        return self._view[same:], items[same:]

    def _at_most(self, items: Sequence[Item]) -> int:
        """Return a bound on the estimate that needs no tokenizer."""
        _, new = self._changes(items)
        size = sum(map(item_bytes, new))
        if self._measured is None:
            size += self._overhead_bytes
        return (self._measured or 0) + self._scaled(size)

    def _scaled(self, tokens: int) -> int:
        return ceil(tokens * self.calibration.factor)

    async def _count(self, items: Iterable[Item]) -> None:
        """Count those of *items* that have not been; in a thread where it is much."""
        new = list({item for item in items if item not in self._counts})

        def count() -> list[int]:
            # Figures alone: an idle thread keeps its last result in memory.
            return [count_item(item, self._counter) for item in new]

        if self.has_counted and sum(map(item_bytes, new)) <= INLINE_BYTES:
            counts = count()
        else:
            await self._count_overhead()
            counts = await trio.to_thread.run_sync(count, abandon_on_cancel=True)
        self._counts.update(zip(new, counts, strict=True))

    async def _count_overhead(self) -> tuple[int, int]:
        """Count system prompt and tools; the first time loads the tokenizer."""

        def count() -> tuple[int, int]:
            tools = sum(count_tool(spec, self._counter) for spec in self._specs)
            return self._counter.count(self._system), tools

        if self._overhead is None:
            self._overhead = await trio.to_thread.run_sync(
                count, abandon_on_cancel=True
            )
        return self._overhead

    def _clear_out(self, items: Sequence[Item]) -> None:
        """Let go of items that have left the history."""
        if self._stale or len(self._counts) > len(items) + len(self._view) + SLACK:
            counts = self._counts
            kept = [item for item in (*self._view, *items) if item in counts]
            self._counts = {item: counts[item] for item in kept}
            self._stale = False


def _starts_with(items: Sequence[Item], start: Sequence[Item]) -> bool:
    return list(items[: len(start)]) == start


def _answer_length(items: Sequence[Item]) -> int:
    """Return how many items at the end are one response."""
    if not items or not isinstance(items[-1], FromModel):
        return 0
    response = items[-1].response
    return len(
        list(
            takewhile(
                lambda item: isinstance(item, FromModel) and item.response == response,
                reversed(items),
            )
        )
    )
