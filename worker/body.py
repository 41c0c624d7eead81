"""Reads the body of an HTTP answer as it comes, and leaves it cleanly."""

import zlib
from typing import TYPE_CHECKING

import trio

from worker.client import Failure, ProviderError
from worker.transport_errors import failure_of, silence

if TYPE_CHECKING:
    import httpx2

CLOSE_SECONDS = 2.0
BUFFERED_CHUNKS = 10_000
"""More than one read from a socket (64 KiB) is ever cut into."""


class Body:
    """The bytes of one answer. To be left with `leave`, however it ends.

    Silent for *idle* seconds is a failure, whatever the transport. Unpacks by
    itself: where httpx2 cannot, it leaves its generators to the collector.
    """

    def __init__(self, response: "httpx2.Response", idle: float) -> None:
        self._response = response
        self._idle = idle
        self._chunks = response.aiter_raw()
        encoding = response.headers.get("content-encoding", "identity").lower()
        self._encoding = encoding.strip()
        # 32 + the largest window: takes what gzip and what zlib writes.
        self._inflate = zlib.decompressobj(32 + zlib.MAX_WBITS)

    async def next(self) -> bytes | None:
        """Wait for the next bytes, None at the end. Raises ProviderError."""
        try:
            with trio.move_on_after(self._idle):
                chunk = await anext(self._chunks, None)
                return None if chunk is None else self._unpack(chunk)
        except Exception as error:
            raise ProviderError(failure_of(error)) from error
        raise ProviderError(silence(self._idle))

    async def read(self, most: int) -> bytes:
        """Read to the end, but no further than *most* bytes."""
        body = bytearray()
        while len(body) < most and (chunk := await self.next()) is not None:
            body += chunk
        return bytes(body[:most])

    async def leave(self) -> None:
        """Close the answer wherever its reading has stopped.

        By cancelling one more read, so that each of the generators stacked up
        behind it ends by an exception from inside: closed from outside, the
        inner ones would be left to the collector.
        """
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                for _ in range(BUFFERED_CHUNKS):
                    await anext(self._chunks)
            except Exception:  # noqa: BLE001  what it says is of no use any more
                pass
        with trio.CancelScope(shield=True) as scope:
            scope.deadline = trio.current_time() + CLOSE_SECONDS
            await self._chunks.aclose()
            await self._response.aclose()

    def _unpack(self, chunk: bytes) -> bytes:
        match self._encoding:
            case "identity" | "":
                return chunk
            case "gzip" | "x-gzip" | "deflate":
                try:
                    return self._inflate.decompress(chunk)
                except zlib.error as error:
                    text = f"the answer cannot be unpacked: {error}"
                    raise ProviderError(Failure("garbled", text)) from error
            case other:
                text = f"the answer is packed as {other}, which was not asked for"
                raise ProviderError(Failure("garbled", text))
