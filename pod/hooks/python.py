"""Hooks that are Python functions, async (trio) or not."""

from collections.abc import Callable
from functools import partial

from pod.hooks.hook import Ask
from pod.hooks.payloads import AnyPayload
from tools.python_function import returned_by


def ask_function(function: Callable[..., object]) -> Ask:
    """Return what asks *function*, which gets the payload and returns the answer.

    One that is not async runs in a thread. It cannot be stopped: when its time
    is up, or the run is cancelled, nobody waits for it any more, its answer
    counts for nothing, and it goes on until it ends by itself.
    """

    async def ask(payload: AnyPayload) -> object:
        return await returned_by(function, partial(function, payload))

    return ask
