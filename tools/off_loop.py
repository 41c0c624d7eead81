"""Blocking work in a worker thread, and what to do where none can be started."""

from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def off_loop(
    act: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None
) -> T:
    """Call *act* in a worker thread; right here where no thread can be started.

    A command that starts processes without end takes the last thread, too. What
    ends it, and what writes down that it was, must not need one.
    """
    try:
        return await trio.to_thread.run_sync(act, limiter=limiter)
    except RuntimeError as error:
        if not is_no_thread(error):
            raise
    return act()


def is_no_thread(error: RuntimeError) -> bool:
    """Tell whether *error* is Python's word for it that the system has no thread left."""
    return str(error) == "can't start new thread"
