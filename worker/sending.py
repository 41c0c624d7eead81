"""The request that is under way, and how it is broken off."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Sending:
    """Breaks off a request, its answer or the wait for a retry; never a tool.

    Nothing of an answer that is not whole is in the history, so the same request
    can be sent again. While *is_off* none goes out.
    """

    def __init__(self) -> None:
        self.is_off = False
        self._scope: trio.CancelScope | None = None

    def break_off(self) -> None:
        """Break off the request that is under way, and those that come."""
        self.is_off = True
        if self._scope is not None:
            self._scope.cancel()

    def allow(self) -> None:
        """Let requests out again."""
        self.is_off = False

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Hold one request; leaves quietly where it is broken off."""
        with trio.CancelScope() as scope:
            self._scope = scope
            if self.is_off:
                scope.cancel()
            try:
                yield
            finally:
                self._scope = None
