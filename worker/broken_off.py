"""What is told of an answer that a cancel breaks off."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from worker.client import BrokenOff
from worker.stream import Fold


@contextmanager
def telling_usage(fold: Fold, on_delta: Callable[[BrokenOff], None]) -> Iterator[None]:
    """Tell *on_delta* what *fold* knows of the usage, while a cancel goes by."""
    try:
        yield
    except trio.Cancelled:
        if (broken := fold.broken_off()) is not None:
            on_delta(broken)
        raise
