"""The Messages API through Anthropic's SDK: its transport and auth, our bytes.

The SDK builds headers and credentials and sends; the body is ours, and so is
the reading of the answer: its own event objects change unknown blocks, leave
generators to the collector and do not notice a stream that ends half-way.
"""

import time
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote

import msgspec
import trio
from msgspec import Struct

from worker.api import Request
from worker.client import Delta, Failure, ProviderError, Response
from worker.encode import encode_count, encode_request
from worker.failures import classify, reread
from worker.stream import Fold
from worker.transport_errors import failure_of, silence

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

T = TypeVar("T")

CONNECT_SECONDS = 10.0
UPLOAD_BYTES_PER_SECOND = 100_000
"""A slower line than this counts as silent while a request goes out."""
LARGEST_ERROR = 64 * 1024
"""Bytes of an error's body that are read."""
LARGEST_ANSWER = 1024 * 1024
"""Bytes of an answer that is no stream (a count, a model) that are read."""
CLOSE_SECONDS = 2.0
LAST_CHUNK_SECONDS = 0.5
"""How long to wait, behind the last event, for the end of the body: with it the
connection can be used again."""


class ModelLimits(Struct, frozen=True):
    """What the models API says of a model, in tokens; None where it is silent."""

    window: int | None
    max_output: int | None


class _Count(Struct):
    input_tokens: int


class _Info(Struct):
    max_input_tokens: int | None = None
    max_tokens: int | None = None


class AnthropicClient:
    """A worker.client.Client for the Messages API. Use with ``async with``.

    Retries nothing and follows no redirect. *api_key* None leaves credentials
    to the SDK; *base_url* None means Anthropic, or ``ANTHROPIC_BASE_URL``. An
    answer that is silent for *idle_timeout* seconds is given up. *transport*
    takes the network's place, for tests.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        idle_timeout: float = 120.0,
        transport: "httpx2.AsyncBaseTransport | None" = None,
    ) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._idle = idle_timeout
        self._transport = transport
        self._opened: AsyncAnthropic | None = None

    async def __aenter__(self) -> Self:
        """Import the SDK, which takes a second, and build its client.

        Raises ProviderError for a base_url or credentials that make no sense.
        """
        try:
            self._opened = await trio.to_thread.run_sync(self._open)
        except Exception as error:
            raise ProviderError(failure_of(error)) from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            with trio.CancelScope(shield=True) as scope:
                scope.deadline = trio.current_time() + CLOSE_SECONDS
                await opened.close()

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        """Send *request* and fold its event stream. Raises ProviderError."""
        body = _encoded(encode_request, request)
        response = await self._send("/v1/messages", body, request.betas)
        fold = Fold(request_id=response.headers.get("request-id"))
        chunks = response.aiter_bytes()
        head = bytearray()
        try:
            while not fold.is_done:
                chunk = await self._next(chunks, fold)
                if chunk is None:
                    break
                if len(head) < LARGEST_ERROR:
                    head += chunk
                for delta in fold.feed(chunk):
                    on_delta(delta)
            if fold.is_done:
                with trio.move_on_after(LAST_CHUNK_SECONDS):
                    await self._next(chunks, fold)
            return fold.end()
        except ProviderError as error:
            failure = reread(error.failure, bytes(head), response.headers)
            raise ProviderError(failure) from error
        finally:
            await _leave(response, chunks)

    async def count_tokens(self, request: Request) -> int:
        """Ask how many tokens *request*'s prompt has. Raises ProviderError."""
        body = _encoded(encode_count, request)
        path = "/v1/messages/count_tokens"
        response = await self._send(path, body, request.betas)
        return _decoded(await self._read(response, LARGEST_ANSWER), _Count).input_tokens

    async def fetch_model(self, id: str) -> ModelLimits:
        """Ask the models API for the limits of the model *id*.

        Raises ProviderError; many servers have no such API (not_found).
        """
        response = await self._send(f"/v1/models/{quote(id, safe='')}", None)
        info = _decoded(await self._read(response, LARGEST_ANSWER), _Info)
        return ModelLimits(info.max_input_tokens, info.max_tokens)

    def _open(self) -> "AsyncAnthropic":
        import httpx2
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        timeout = httpx2.Timeout(
            connect=CONNECT_SECONDS, read=self._idle, write=self._idle, pool=None
        )
        hooks = {"response": [self._refuse]}
        http = DefaultAsyncHttpxClient(
            timeout=timeout, follow_redirects=False, event_hooks=hooks
        )
        if self._transport is not None:
            http = httpx2.AsyncClient(
                timeout=timeout, event_hooks=hooks, transport=self._transport
            )
        return AsyncAnthropic(
            api_key=self._api_key,
            base_url=self._base_url,
            timeout=timeout,
            max_retries=0,
            http_client=http,
        )

    async def _send(
        self, path: str, body: bytes | None, betas: tuple[str, ...] = ()
    ) -> "httpx2.Response":
        """Send a POST, or a GET without a body; return once headers are there.

        The response is a success and open.
        """
        import httpx2
        from anthropic import AsyncStream

        assert self._opened is not None, "the client is not open"
        seconds = CONNECT_SECONDS + self._idle
        seconds += len(body or b"") / UPLOAD_BYTES_PER_SECOND
        options = {"headers": {"anthropic-beta": ",".join(betas)} if betas else {}}
        sent: object
        try:
            with trio.fail_after(seconds):
                if body is None:
                    sent = await self._opened.get(
                        path,
                        cast_to=httpx2.Response,
                        options=options,
                        stream=True,
                        stream_cls=AsyncStream[object],
                    )
                else:
                    sent = await self._opened.post(
                        path,
                        cast_to=httpx2.Response,
                        content=body,
                        options=options,
                        stream=True,
                        stream_cls=AsyncStream[object],
                    )
        except Exception as error:
            raise ProviderError(failure_of(error)) from error
        # The SDK hands an httpx2.Response through as it is; its word for that
        # is the stream's class.
        return sent.response if isinstance(sent, AsyncStream) else sent

    async def _refuse(self, response: "httpx2.Response") -> None:
        """Read an answer that is no success and raise what it means.

        Called by httpx2 before the SDK sees the answer, which would read a body
        of any length.
        """
        if response.is_success:
            return
        try:
            text = (await self._read(response, LARGEST_ERROR)).decode(errors="replace")
        except ProviderError:
            text = ""  # broken off: the status says enough
        if 300 <= response.status_code < 400:
            place = response.headers.get("location", "an unnamed place")
            text = f"redirected to {place}: set [model] base_url to where the API is"
        failure = classify(
            response.status_code, None, text, response.headers, now=time.time()
        )
        raise ProviderError(failure)

    async def _next(
        self, chunks: AsyncGenerator[bytes, None], fold: Fold | None = None
    ) -> bytes | None:
        """Wait for the next bytes of an answer, None at its end."""
        try:
            with trio.move_on_after(self._idle):
                return await anext(chunks, None)
        except Exception as error:  # noqa: BLE001  see failure_of: it sorts them all
            failure = failure_of(error)
        else:
            failure = silence(self._idle)
        if fold is not None:
            failure = fold.failure(failure.kind, failure.message)
        raise ProviderError(failure)

    async def _read(self, response: "httpx2.Response", most: int) -> bytes:
        """Read a body, *most* bytes of it at most."""
        chunks = response.aiter_bytes()
        body = bytearray()
        try:
            while len(body) < most and (chunk := await self._next(chunks)) is not None:
                body += chunk
        finally:
            await _leave(response, chunks)
        return bytes(body[:most])


async def _leave(
    response: "httpx2.Response", chunks: AsyncGenerator[bytes, None]
) -> None:
    """Close a response wherever its reading has stopped.

    By cancelling one more read, so that each of the generators stacked behind
    *chunks* ends by an exception from inside: closed from outside, the inner
    ones would be left to the collector.
    """
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            async for _ in chunks:
                pass
        except Exception:  # noqa: BLE001  what it says is of no use any more
            pass
    with trio.CancelScope(shield=True) as scope:
        scope.deadline = trio.current_time() + CLOSE_SECONDS
        await response.aclose()


def _encoded(encode: Callable[[Request], bytes], request: Request) -> bytes:
    try:
        return encode(request)
    except (UnicodeEncodeError, msgspec.MsgspecError) as error:
        text = f"the request cannot be written as JSON: {error}"
        raise ProviderError(Failure("invalid", text)) from error


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        text = body[:300].decode(errors="replace")
        failure = Failure("garbled", f"the answer is not what was asked for: {text}")
        raise ProviderError(failure) from error
