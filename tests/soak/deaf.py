"""Listeners that never read, over a real server, beside one that hears everything."""

import socket as sockets
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
import trio
from msgspec import Struct

from pod.entries import Known
from pod.live import LivePod
from pod.protocol.hub import Listener, Wanted, hub_over, to_all
from pod.protocol.mailbox import Mailbox
from pod.protocol.server import Server
from tests.pod.protocol.stand_in import greeting
from tests.soak.story import StoryPod

SUBSCRIBE = b'{"id":1,"method":"subscribe","params":{"from_seq":0,"partial":true}}\n'
SMALL_MAILBOX = 20_000
"""Bytes. The product's would take a session a hundred times as long to fill."""


class Numbered(Struct):
    """An event, as far as it is counted: live ones have no number."""

    seq: int = 0


class Audience:
    """Who listens to a Pod that races: one who hears all, the others read nothing."""

    def __init__(self, pod: StoryPod) -> None:
        self.dropped: list[str] = []
        """What a person was told of listeners that were dropped."""
        self._hub = hub_over(pod.session, pod.setup.model.id, warn=self.dropped.append)
        self._pod = pod
        self._all = Listener("who hears all", Mailbox(most=1 << 40))
        self._deaf: list[tuple[Mailbox, int]] = []
        self._clients: list[sockets.socket] = []
        self._is_there = False
        self._socket = pod.path.with_suffix(".sock")

    async def serve(
        self,
        live: LivePod,
        log: Path,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Let clients in until cancelled; before anything happens to the Pod."""
        session = self._pod.session
        session.on_entry = to_all(session.on_entry, self._hub.entry)
        self._pod.heard.also = self._hub.live
        self._hub.join(self._all)
        self._hub.hear(self._all, Wanted())
        self._is_there = True
        server = Server(
            live, self._hub, greet=greeting, log=log, say=self.dropped.append
        )
        try:
            with trio.socket.socket(sockets.AF_UNIX) as socket:
                await socket.bind(str(self._socket))
                socket.listen()
                await server.run([socket], task_status=task_status)
        finally:
            for client in self._clients:
                client.close()

    def add_deaf(self, random: Random) -> None:
        """Add a client that asks for all there is, and one whose mailbox is small.

        Neither ever takes anything.
        """
        client = sockets.socket(sockets.AF_UNIX)
        self._clients.append(client)
        client.connect(str(self._socket))
        client.sendall(SUBSCRIBE)
        most = random.randint(1, SMALL_MAILBOX)
        mailbox = Mailbox(most=most)
        listener = Listener(f"deaf {len(self._deaf)}", mailbox)
        self._deaf.append((mailbox, most))
        self._hub.join(listener)
        self._hub.hear(listener, Wanted(partial=True))

    def wrong(self, told: Sequence[Known]) -> list[str]:
        """Return what is wrong with what came to whom, after *told*."""
        if not self._is_there:
            return []
        self._hub.flush()
        lines: list[bytes] = []
        while piece := self._all.mailbox.take():
            lines += piece.splitlines()
            self._all.mailbox.sent()
        seqs = [msgspec.json.decode(line, type=Numbered).seq for line in lines]
        heard = [seq for seq in seqs if seq]
        problems = []
        if heard != [entry.seq for entry in told]:
            problems.append(f"who hears all heard {heard} of {len(told)} entries")
        for number, (mailbox, most) in enumerate(self._deaf):
            warned = [
                text for text in self.dropped if text.startswith(f"deaf {number}")
            ]
            if len(warned) != mailbox.is_closed:
                problems.append(f"deaf {number} was dropped {len(warned)} times")
            if mailbox.is_full and not mailbox.is_closed:
                problems.append(
                    f"{mailbox.waiting} bytes wait for deaf {number}, {most} may"
                )
        return problems
