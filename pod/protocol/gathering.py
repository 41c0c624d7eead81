"""Gives what a hub has gathered to its listeners, every few moments."""

import trio

from pod.protocol.hub import Hub

GATHER = 0.02
"""Seconds that events wait for more to come, at the least. One write of many lines
costs little more than one of a single line, and with fifty clients writes are what
counts."""
EACH = 0.001
"""Seconds that each listener adds to that: all of them together are written to some
thousand times a second at most."""


async def give_on(hub: Hub) -> None:
    """Flush *hub* until cancelled: the first event at once, then those that gathered.

    Where another task does so already, there is nothing to do.
    """
    if hub.tell is not None:
        return
    some = trio.Event()

    def tell() -> None:
        some.set()

    hub.tell = tell
    try:
        while True:
            if not hub.has_some:
                some = trio.Event()
                await some.wait()
            hub.flush()
            await trio.sleep(max(GATHER, len(hub) * EACH))
    finally:
        hub.tell = None
        hub.flush()
