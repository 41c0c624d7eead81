"""Runs calls that were made at the same time one after the other, in call order."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class CallOrder:
    """Whose turn it is.

    Calls of one answer start in any order. Here they share budgets, so which
    of them is refused, and what each is told, must not be left to chance.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, trio.Event] = {}

    def expect(self, call_id: str) -> None:
        """Put a call, which will be run, at the end of the line."""
        self._waiting[call_id] = trio.Event()
        self._next()

    @asynccontextmanager
    async def turn(self, call_id: str) -> AsyncIterator[None]:
        """Wait until the calls before *call_id* have ended."""
        try:
            await self._waiting[call_id].wait()
            yield
        finally:
            del self._waiting[call_id]
            self._next()

    def _next(self) -> None:
        for event in self._waiting.values():
            event.set()
            break
