"""Commands that are clients: how they run, and what they say when it goes wrong."""

from collections.abc import Awaitable, Callable

import trio

from pod.cli.streams import say
from pod.errors import SetupError
from pod.exits import Exit
from pod.protocol.client import ClientError
from pod.protocol.registry import NoSuchPod


def asked(command: Callable[[], Awaitable[int]]) -> int:
    """Run *command*; return its exit code, or the one for what went wrong."""
    try:
        return trio.run(command)
    except (NoSuchPod, ClientError, SetupError) as error:
        # Not there, gone, refused: as with a session that is not there. Arguments
        # that are wrong in themselves were found before (exit code 2).
        say(f"pod: {error}")
        return Exit.FAILED
