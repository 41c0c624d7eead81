"""The two ends of a connection: a socket, or this process's standard streams."""

import errno
import os
import select
import socket as sockets
from collections import deque
from typing import Literal, Protocol

import trio

from pod.pipe import write_all

BLOCK = 64 * 1024
"""Bytes that are read at once."""
STALL = 60.0
"""Seconds after which a client that takes nothing at all is given up."""


class Gone(Exception):
    """The other end is not there any more."""


class Stalled(Gone):
    """The other end is there and takes nothing."""


class Source(Protocol):
    """Where bytes come from."""

    async def receive(self) -> bytes:
        """Return what came; nothing once the other end sends no more."""


class Link(Source, Protocol):
    """One connection, as bytes."""

    async def send(self, data: bytes) -> None:
        """Return when *data* is with the other end. Raises Gone, Stalled."""

    def send_now(self, data: bytes) -> int:
        """Send what there is room for without waiting; return how many bytes that were.

        None where the other end is gone: ``send`` tells.
        """

    def is_gone(self) -> bool:
        """Whether the other end neither sends nor reads any more."""

    def close(self) -> None:
        """Let go of it; twice is fine."""


class SocketLink:
    """A connected socket, which is this link's from here on.

    Not trio's own calls: they look for other tasks each time, which fifty
    clients that are written to thousands of times would pay for.
    """

    def __init__(self, socket: trio.socket.SocketType) -> None:
        self._socket = sockets.socket(fileno=socket.detach())
        self._socket.setblocking(False)

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while True:
            try:
                return self._socket.recv(BLOCK)
            except BlockingIOError:
                pass
            except OSError:
                return b""
            try:
                await trio.lowlevel.wait_readable(self._socket)
            except (OSError, trio.ClosedResourceError):
                return b""

    async def send(self, data: bytes) -> None:
        """Return when all is sent; at once, where the system takes it at once."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                await self._wait_writable()
            except OSError as error:
                raise Gone(str(error)) from None

    def send_now(self, data: bytes) -> int:
        if self._socket.fileno() < 0:
            return 0
        try:
            return self._socket.send(data)
        except OSError:
            return 0

    async def _wait_writable(self) -> None:
        try:
            with trio.fail_after(STALL):
                await trio.lowlevel.wait_writable(self._socket)
        except trio.TooSlowError:
            raise Stalled(f"it took nothing for {STALL:g} seconds") from None
        except (OSError, trio.ClosedResourceError) as error:
            raise Gone(str(error)) from None

    def is_gone(self) -> bool:
        fd = self._socket.fileno()
        if fd < 0:
            return True
        found = select.poll()
        found.register(fd, select.POLLHUP)
        return bool(found.poll(0))

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class StreamsLink:
    """A descriptor to read from and one to write to.

    Neither is made non-blocking: others may share them.
    """

    def __init__(self, stdin: int, stdout: int) -> None:
        self._stdin, self._stdout = stdin, stdout
        self._is_gone = False

    async def receive(self) -> bytes:
        try:
            await trio.lowlevel.wait_readable(self._stdin)
        except OSError as error:
            if error.errno != errno.EPERM:  # a plain file: it never makes one wait
                return b""
            await trio.lowlevel.checkpoint()
        try:
            return os.read(self._stdin, BLOCK)
        except OSError:
            return b""

    async def send(self, data: bytes) -> None:
        try:
            await trio.to_thread.run_sync(
                write_all, self._stdout, data, abandon_on_cancel=True
            )
        except OSError as error:
            self._is_gone = True
            raise Gone(str(error)) from None

    def send_now(self, data: bytes) -> int:
        """Send nothing: a write to a descriptor that others share may wait."""
        return 0

    def is_gone(self) -> bool:
        return self._is_gone

    def close(self) -> None:
        """Leave the descriptors open: they are the process's."""


class LineReader:
    """Splits what comes over a link into lines.

    Only LF ends a line; a CR before it is left out. A line longer than *most*
    bytes is thrown away as it comes, whatever its length, and told as
    ``"too_long"``. What stands behind the last LF when the other end stops
    sending is a line, too.
    """

    def __init__(self, source: Source, most: int) -> None:
        self._source = source
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0
        self._lines: deque[bytes | Literal["too_long"]] = deque()
        self._is_over = False

    async def next(self) -> bytes | Literal["too_long"] | None:
        """Return the next line, without its end; None when there are no more."""
        while not self._lines and not self._is_over:
            block = await self._source.receive()
            if block:
                self._split(block)
            else:
                self._is_over = True
                if self._size:
                    self._end(b"")
        return self._lines.popleft() if self._lines else None

    def _split(self, block: bytes) -> None:
        head, *lines = block.split(b"\n")
        if not lines:
            self._begin(head)
            return
        self._end(head)
        for line in lines[:-1]:
            self._end(line)
        self._begin(lines[-1])

    def _begin(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._most + 1:  # one for a CR
            self._parts.append(part)
        else:
            self._parts.clear()

    def _end(self, part: bytes) -> None:
        self._begin(part)
        line = b"".join(self._parts).removesuffix(b"\r")
        is_long = self._size > self._most + 1 or len(line) > self._most
        self._lines.append("too_long" if is_long else line)
        self._parts, self._size = [], 0
