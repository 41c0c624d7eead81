"""A Pod that stays, for tests: driven while a context lasts."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from pod.between_runs import Doors
from pod.live import LivePod
from pod.pod import Pod
from tests.fakes import Heard
from worker.items import FromModel, Item


@asynccontextmanager
async def living(
    pod: Pod,
    heard: Heard,
    *,
    auto_continue: bool = True,
    doors: Doors = Doors(),  # noqa: B008  frozen
) -> AsyncIterator[LivePod]:
    """Serve *pod* while the context lasts; shut it down then."""
    live = LivePod(pod, listen=heard, auto_continue=auto_continue, doors=doors)
    async with trio.open_nursery() as nursery:
        await nursery.start(live.serve)
        yield live
        await live.shutdown()


async def reaching(condition: Callable[[], bool]) -> None:
    """Wait until *condition* holds."""
    with trio.fail_after(20):
        while not condition():
            await trio.lowlevel.checkpoint()


async def until(live: LivePod, state: str) -> None:
    """Wait until *live* stands like this."""
    await reaching(lambda: live.state == state)


class Gate:
    """Holds a prepared answer back until it is opened."""

    def __init__(self, items: Sequence[FromModel]) -> None:
        self._items = items
        self.is_reached = False
        self.is_open = trio.Event()

    async def __call__(self) -> Sequence[FromModel]:
        self.is_reached = True
        await self.is_open.wait()
        return self._items

    def open(self) -> None:
        self.is_open.set()


def texts(items: Sequence[Item]) -> list[str]:
    """Return what was said, user and model alike, in order."""
    return [text for item in items if (text := getattr(item, "text", ""))]
