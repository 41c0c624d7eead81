"""Tasks that go on beside what a context does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def beside() -> AsyncIterator[trio.Nursery]:
    """Open a nursery whose context raises what was raised in it as it is.

    A plain nursery would put it into a group, though it was not raised by one of
    its tasks. What a task raises does come in a group.
    """
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except BaseException as error:  # noqa: BLE001  raised again below
            raised = error
    if raised is not None:
        raise raised
