"""Commands that are clients: how they run, and what they say when it goes wrong."""

from collections.abc import Awaitable, Callable

import trio

from pod.cli.streams import say
from pod.exits import Exit
from pod.protocol.client import ClientError
from pod.protocol.registry import NoSuchPod


def asked(command: Callable[[], Awaitable[int]]) -> int:
    """Run *command*; return its exit code, or the one for what went wrong.

    Raises SetupError.
    """
    try:
        return trio.run(command)
    except (NoSuchPod, ClientError) as error:
        # Not there, gone, refused: as with a session that is not there. What is
        # wrong in itself, the path of a socket say, is a SetupError or was found
        # before (exit code 2).
        say(f"pod: {error}")
        return Exit.FAILED
