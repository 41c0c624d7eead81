"""Hooks that answer what a test wants."""

from collections.abc import Awaitable, Callable

import trio

from pod.events import HookFailed, PodLive
from pod.hooks.hook import Hook, OnFailure
from pod.hooks.payloads import AnyPayload, HookEvent
from worker.events import Live


class Answering:
    """Asked as a hook: keeps what it is told, and gives its answers in order.

    The last one is given again. An exception is raised, a function is awaited.
    """

    def __init__(self, *answers: object) -> None:
        self.told: list[AnyPayload] = []
        self._answers = list(answers) or [None]

    async def __call__(self, payload: AnyPayload) -> object:
        await trio.lowlevel.checkpoint()
        self.told.append(payload)
        answer = self._answers[min(len(self.told), len(self._answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def hook(
    event: HookEvent,
    ask: Callable[[AnyPayload], Awaitable[object]] | object = None,
    *,
    name: str = "h",
    timeout: float = 60,
    on_failure: OnFailure | None = None,
    tools: tuple[str, ...] = (),
) -> Hook:
    """Return a hook; *ask* may be what is asked, or the answer itself."""
    return Hook(
        event=event,
        name=name,
        ask=ask if callable(ask) else Answering(ask),
        timeout=timeout,
        on_failure=on_failure,
        tools=tools,
    )


class Failures:
    """Hears of hooks that failed."""

    def __init__(self) -> None:
        self.heard: list[HookFailed] = []

    def __call__(self, event: Live | PodLive) -> None:
        if isinstance(event, HookFailed):
            self.heard.append(event)


async def hangs(payload: AnyPayload) -> object:
    """Never answer."""
    await trio.sleep_forever()
    raise AssertionError


class Hanging:
    """Never answers; *asked* is set once it is asked."""

    def __init__(self) -> None:
        self.asked = trio.Event()

    async def __call__(self, payload: AnyPayload) -> object:
        self.asked.set()
        await trio.sleep_forever()
        raise AssertionError
