"""Calls that somebody has to allow: asks the clients, and waits for their answer."""

from typing import Protocol

import trio

from pod.events import PermissionRequest
from pod.permissions.permit import Approval
from pod.protocol.hub import Hub
from pod.protocol.messages import AnswerPermission

ALONE = 60.0
"""Seconds that a question waits while no client is connected at all."""


class NobodyThere(Exception):
    """No client is connected that could be asked."""


class Clients(Protocol):
    """Whoever could answer."""

    @property
    def has_clients(self) -> bool: ...
    @property
    def changed(self) -> trio.Event: ...


class Questions:
    """The questions that are open.

    Asked while clients are connected, one waits as long as it takes: the client
    that answers first decides. While there are none it waits ALONE seconds, and
    is a denial then.
    """

    def __init__(self, hub: Hub) -> None:
        self.clients: Clients | None = None
        """Set once there is a server."""
        self._hub = hub
        self._open: dict[str, _Question] = {}

    async def ask(self, request: PermissionRequest) -> Approval:
        """Ask, and wait. Raises NobodyThere."""
        question = self._open[request.call_id] = _Question()
        self._hub.live(request)
        try:
            while question.approval is None:
                if not await self._wait(question):
                    raise NobodyThere(f"no client was connected for {ALONE:g} seconds")
            return question.approval
        finally:
            del self._open[request.call_id]

    def answer(self, answer: AnswerPermission) -> bool:
        """Take in an answer; whether anybody waits for it."""
        question = self._open.get(answer.call_id)
        if question is None or question.approval is not None:
            return False
        question.approval = Approval(allow=answer.allow, message=answer.message)
        question.answered.set()
        return True

    async def _wait(self, question: "_Question") -> bool:
        """Wait until something changes; False where nobody came."""
        clients = self.clients
        is_alone = clients is None or not clients.has_clients
        with trio.move_on_after(ALONE if is_alone else float("inf")) as waiting:
            async with trio.open_nursery() as nursery:

                async def one(event: trio.Event) -> None:
                    await event.wait()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(one, question.answered)
                if clients is not None:
                    nursery.start_soon(one, clients.changed)
        return not waiting.cancelled_caught


class _Question:
    def __init__(self) -> None:
        self.answered = trio.Event()
        self.approval: Approval | None = None
