"""Lets clients drive one Pod: accepts them, does what they ask, and closes."""

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import trio

from pod.errors import Refused, SessionError, SetupError
from pod.events import Closing
from pod.protocol.answers import answer, refusal
from pod.protocol.connection import Connection, Reply
from pod.protocol.driven import Driven
from pod.protocol.gathering import give_on
from pod.protocol.hub import Hub
from pod.protocol.link import Link, SocketLink
from pod.protocol.messages import (
    AnswerPermission,
    BadRequest,
    ErrorCode,
    FollowUp,
    Prompt,
    Request,
    RequestId,
    Resume,
)
from pod.protocol.peer import is_allowed
from pod.protocol.perform import Action, perform
from pod.protocol.snapshot import PodState, Snapshot

MOST_CLIENTS = 256
"""Connections at once; one more is told so and closed."""
REPLAYS = 2
"""Threads that read the log for clients; the tools have theirs."""


class Server:
    """One Pod's server.

    *greet* makes the first line of a connection, *log* is the session's (None: it
    is not kept), *permit* passes an answer to a question of the permissions on
    and tells whether anybody asked. *say* tells a person of what should not
    happen.
    """

    def __init__(
        self,
        pod: Driven,
        hub: Hub,
        *,
        greet: Callable[[PodState], Snapshot],
        log: Path | None,
        say: Callable[[str], None],
        permit: Callable[[AnswerPermission], bool] = lambda answer: False,
    ) -> None:
        self.hub = hub
        self.log = log
        self.readers = trio.CapacityLimiter(REPLAYS)
        self._pod = pod
        self._greet = greet
        self._say = say
        self._permit = permit
        self._connections: set[Connection] = set()
        self._accepted = 0
        self.changed = trio.Event()
        """Set when clients come or go."""
        self._work: trio.Nursery | None = None
        self._ending = trio.Event()
        self._is_urgent = trio.Event()

    @property
    def has_clients(self) -> bool:
        return bool(self._connections)

    def snapshot(self) -> Snapshot:
        return self._greet(self.hub.following.now())

    def permit(self, answer: AnswerPermission) -> None:
        if not self._permit(answer):
            raise BadRequest(
                "not_found", f"nobody waits for an answer about {answer.call_id!r}"
            )

    def shut_down(self, *, now: bool) -> None:
        """End the Pod when its run is over, or *now*; twice is fine."""
        self._ending.set()
        if now:
            self._is_urgent.set()

    async def begin(self, request: Request, action: Action, reply: Reply) -> None:
        """Begin *action* before whatever this client asks next.

        It goes on without the client that asked for it.
        """
        if self._work is None:
            raise BadRequest("shutting_down", "the Pod is ending")
        if self._ending.is_set() and isinstance(action, Prompt | FollowUp | Resume):
            raise BadRequest("shutting_down", "the Pod ends with what it is doing")
        await self._work.start(self._perform, request.id, action, reply)

    async def run(
        self,
        sockets: Sequence[trio.socket.SocketType],
        owner: Connection | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until the Pod is to end; then end it, and close all connections."""
        async with trio.open_nursery() as connections:
            try:
                async with trio.open_nursery() as work:
                    self._work = work
                    work.start_soon(give_on, self.hub)
                    for socket in sockets:
                        work.start_soon(self._accept, socket, connections)
                    if owner is not None:
                        self._add(owner, connections)
                    task_status.started()
                    await self._ending.wait()
                    await self._wait_settled()
                    await self._pod.shutdown()
                    self._work = None
                    work.cancel_scope.cancel()
            finally:
                self._work = None
                last = self.hub.text(Closing("shutdown"))
                for connection in self._connections:
                    connection.close(last)

    async def _wait_settled(self) -> None:
        """Wait until the Pod has nothing to do, or until it is urgent."""
        async with trio.open_nursery() as nursery:

            async def wait_urgent() -> None:
                await self._is_urgent.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait_urgent)
            await self._pod.settled()
            nursery.cancel_scope.cancel()

    async def _accept(
        self, socket: trio.socket.SocketType, connections: trio.Nursery
    ) -> None:
        is_told = False
        while True:
            try:
                client, _ = await socket.accept()
            except OSError as error:
                if not is_told:  # once until it goes well: it is tried again and again
                    self._say(f"a client could not be accepted: {error.strerror}")
                    is_told = True
                await trio.sleep(0.1)  # out of descriptors, say: others may be closed
                continue
            is_told = False
            self._accepted += 1
            refused = self._refused(client)
            link = SocketLink(client)
            if refused is not None:
                await self._turn_away(link, *refused)
                continue
            connection = Connection(self, link, f"client {self._accepted}")
            self._add(connection, connections)

    def _refused(self, client: trio.socket.SocketType) -> tuple[ErrorCode, str] | None:
        if not is_allowed(client):
            return "forbidden", "this Pod belongs to another user"
        if len(self._connections) >= MOST_CLIENTS:
            return "too_many_requests", f"{MOST_CLIENTS} clients are connected"
        return None

    async def _turn_away(self, link: Link, code: ErrorCode, why: str) -> None:
        with trio.move_on_after(1):
            await link.send(refusal(None, code, why))
        link.close()

    def _add(self, connection: Connection, connections: trio.Nursery) -> None:
        self._connections.add(connection)
        self._tell()
        connections.start_soon(self._serve, connection)

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.run()
        # A bug, as in _perform: it ends this connection alone.
        except Exception as error:  # noqa: BLE001
            self._tell_of(error)
        finally:
            self._connections.discard(connection)
            self._tell()

    def _tell_of(self, bug: Exception) -> None:
        self._say("".join(traceback.format_exception(bug)))

    def _tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def _perform(
        self,
        id: RequestId,
        action: Action,
        reply: Reply,
        *,
        task_status: trio.TaskStatus[None],
    ) -> None:
        # Who waits for the start goes on at the first checkpoint in there.
        task_status.started()
        refuse = partial(refusal, id)
        try:
            line = answer(id, await perform(action, self._pod))
        except BadRequest as error:
            line = refuse(error.code, str(error))
        except Refused as error:
            line = refuse(error.code, str(error))
        except SetupError as error:
            line = refuse("invalid_request", str(error))
        except SessionError as error:
            line = refuse("failed", str(error))
        except trio.Cancelled:
            reply(refuse("shutting_down", "the Pod has ended"))
            raise
        # A bug: it answers its request and is told in full, and neither the Pod nor
        # its other clients end with it. Cancelled is no Exception, alone or in a group.
        except Exception as error:  # noqa: BLE001
            self._tell_of(error)
            line = refuse("internal", f"{type(error).__name__}: {error}")
        reply(line)
