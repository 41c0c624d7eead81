"""What changes a session's history between requests excludes each other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import trio

from pod.errors import Busy

Work = Literal["compaction", "navigation", "model switch"]


class Maintenance:
    """A session's maintenance lock.

    Who comes second is refused, and told what is under way: a person who asked
    for something else did not ask for it to happen behind that.
    """

    def __init__(self) -> None:
        self.work: Work | None = None
        """What is under way."""
        self.abort = trio.CancelScope()
        """Ends what is under way by itself, where it can be."""
        self.changed: Callable[[], None] = _tell_nobody
        """Called when that changes."""

    def refuse(self) -> None:
        """Raise Busy where something is under way."""
        if self.work is not None:
            raise Busy(f"a {self.work} is under way; ask again when it is over")

    @contextmanager
    def doing(self, work: Work) -> Iterator[None]:
        """Hold the lock. Raises Busy."""
        self.refuse()
        self._set(work)
        try:
            yield
        finally:
            self._set(None)

    def _set(self, work: Work | None) -> None:
        self.work = work
        self.changed()


def _tell_nobody() -> None:
    pass
