"""A provider that answers at once and notes when: ``python -m ….provider TURNS``.

Raw sockets and canned answers, in a process of its own, so that what is
measured is the client: the loopback server judges each request, which takes
longer than making it. TURNS requests are answered with a call of read_file,
the next one with the end. Then it prints what it noted, as JSON, and ends.
"""

import socket
import sys
import threading
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from worker.client import Response
from worker.items import AssistantText, FromModel, ToolCall
from worker.replay import events_of
from worker.usage import Usage

FILE = "part.txt"
"""What every call reads; relative to where the client works."""
USAGE = Usage(input=1_000, output=50)


class Noted(Struct, frozen=True, array_like=True):
    """One request: when it had come whole, when its answer was out, its body's bytes.

    Seconds of the machine's monotonic clock, which all processes share.
    """

    received: float
    sent: float
    size: int


class Provider:
    """Any number of connections, one list of what was noted."""

    def __init__(self, turns: int) -> None:
        self.noted: list[Noted] = []
        self.done = threading.Event()
        self._turns = turns

    def serve(self, listener: socket.socket) -> None:
        """Take connections for ever, each in a thread of its own."""
        while True:
            connection, _ = listener.accept()
            talk = threading.Thread(target=self._talk, args=(connection,), daemon=True)
            talk.start()

    def _talk(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as stream:
            while (size := _body_size(stream.readline)) is not None:
                stream.read(size)
                received = time.monotonic()
                connection.sendall(answer(len(self.noted), self._turns))
                self.noted.append(Noted(received, time.monotonic(), size))
                if len(self.noted) > self._turns:
                    self.done.set()


def _body_size(readline: Callable[[], bytes]) -> int | None:
    """Read a request's head; None at the end of the connection."""
    size = 0
    while line := readline():
        if line == b"\r\n":
            return size
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            size = int(value)
    return None


def answer(number: int, turns: int) -> bytes:
    """Return the whole answer to the request of that number, head and stream."""
    said = AssistantText(f"I look at part {number} next.", "")
    arguments = f'{{"path":"{FILE}"}}'
    call = ToolCall(f"toolu_{number:06}", "read_file", arguments, "")
    items: tuple[FromModel, ...] = (said, call) if number < turns else (said,)
    response = Response(
        message_id=f"msg_{number:06}",
        model="claude-sonnet-5-5",
        items=items,
        stop_reason="tool_use" if number < turns else "end_turn",
        usage=USAGE,
        context_tokens=USAGE.total,
    )
    stream = b"".join(events_of(response, chunk=24))
    head = (
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        f"request-id: req_{number}\r\ncontent-length: {len(stream)}\r\n\r\n"
    )
    return head.encode() + stream


def main() -> None:
    """Serve until the last answer is out."""
    provider = Provider(int(sys.argv[1]))
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=provider.serve, args=(listener,), daemon=True).start()
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    provider.done.wait()
    sys.stdout.buffer.write(msgspec.json.encode(provider.noted) + b"\n")


if __name__ == "__main__":
    main()
