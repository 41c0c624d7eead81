"""Hooks that are Python functions, async (trio) or not."""

from collections.abc import Callable
from functools import partial

import trio

from pod.hooks.hook import Ask, HookError
from pod.hooks.payloads import AnyPayload
from tools.python_function import returned_by


def ask_function(function: Callable[..., object]) -> Ask:
    """Return what asks *function*, which gets the payload and returns the answer.

    One that is not async runs in a thread. It cannot be stopped: when its time
    is up, or the run is cancelled, nobody waits for it any more, its answer
    counts for nothing, and it goes on until it ends by itself. Until then it is
    not called again, or threads would add up: being asked, it fails at once.
    """
    one = trio.CapacityLimiter(1)

    async def ask(payload: AnyPayload) -> object:
        if one.available_tokens == 0:
            raise HookError("its last call, which took too long, has not ended yet")
        return await returned_by(function, partial(function, payload), limiter=one)

    return ask
