"""A value that is not there yet."""

from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Promise(Generic[T]):
    """One task gives a value, or an error, once; others wait for it.

    Who waits may be cancelled: what was promised comes about all the same.
    """

    def __init__(self) -> None:
        self._is_given = trio.Event()
        self._values: list[T] = []
        self._error: Exception | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the value, or the error, is there."""
        return self._is_given.is_set()

    def keep(self, value: T) -> None:
        """Give the value; what was given first counts."""
        if not self.is_kept:
            self._values.append(value)
            self._is_given.set()

    def fail(self, error: Exception) -> None:
        """Give an error in its place."""
        if not self.is_kept:
            self._error = error
            self._is_given.set()

    async def wait(self) -> T:
        """Return the value as soon as it is there. Raises the error."""
        await self._is_given.wait()
        if self._error is not None:
            raise self._error
        return self._values[0]
