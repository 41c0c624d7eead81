"""The Messages API through Anthropic's SDK: its transport and auth, our bytes.

The SDK builds headers and credentials and sends; the body is ours, and so is
the reading of the answer: its own event objects change unknown blocks, leave
generators to the collector and do not notice a stream that ends half-way.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote

import msgspec
import trio
from msgspec import Struct
from msgspec.structs import replace

from worker.api import Request
from worker.body import CLOSE_SECONDS, Body
from worker.broken_off import telling_usage
from worker.client import Delta, Failure, ProviderError, Response
from worker.encode import Encoded, encode_count, encode_request
from worker.failures import classify, reread
from worker.keys import NO_KEY, secrets_of, without
from worker.stream import Fold
from worker.transport_errors import failure_of

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

T = TypeVar("T")

CONNECT_SECONDS = 10.0
UPLOAD_BYTES_PER_SECOND = 100_000
"""A slower line than this counts as silent while a request goes out."""
KEEP_ALIVE_SECONDS = 60.0
"""Tools run between two requests; httpx2's own 5 s would cost a handshake each."""
LARGEST_ERROR = 64 * 1024
"""Bytes of an error's body that are read."""
LARGEST_ANSWER = 1024 * 1024
"""Bytes of an answer that is no stream (a count, a model) that are read."""
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
        self._sent = Encoded()
        self._secrets = secrets_of(os.environ, api_key)

    async def __aenter__(self) -> Self:
        """Import the SDK, which takes a second, and build its client.

        Raises ProviderError for a base_url, credentials, a proxy or certificates
        that make no sense.
        """
        with self._nothing_shown():
            try:
                self._opened = await trio.to_thread.run_sync(self._open)
            except (ValueError, ImportError, OSError) as error:
                text = f"the connection to the provider cannot be set up: {error}"
                raise ProviderError(Failure("invalid", text)) from error
            except Exception as error:
                raise ProviderError(failure_of(error)) from error
        return self

    @contextmanager
    def _nothing_shown(self) -> Iterator[None]:
        """Keep the key out of failures: there are servers that repeat it.

        Where none was sent and one was wanted, the failure says so.
        """
        try:
            yield
        except ProviderError as error:
            failure = error.failure
            message = without(failure.message, self._secrets)
            if failure.status == 401 and self._api_key == NO_KEY:
                message += "; no key is set: [model] api_key_env names its variable"
            if message == failure.message:
                raise
            raise ProviderError(replace(failure, message=message)) from None

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
        with self._nothing_shown():
            return await self._ask(request, on_delta)

    async def _ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        body = _encoded(partial(encode_request, encoded=self._sent), request)
        response = await self._send("/v1/messages", body, request.betas)
        fold = Fold(request_id=response.headers.get("request-id"))
        stream = Body(response, self._idle)
        head = bytearray()
        try:
            with telling_usage(fold, on_delta):
                while not fold.is_done and (chunk := await stream.next()) is not None:
                    if len(head) < LARGEST_ERROR:
                        head += chunk
                    for delta in fold.feed(chunk):
                        on_delta(delta)
                answer = fold.end()
                with trio.move_on_after(LAST_CHUNK_SECONDS), suppress(ProviderError):
                    await stream.next()
                return answer
        except ProviderError as error:
            failure = _with_partial(error.failure, fold)
            failure = reread(failure, bytes(head), response.headers)
            raise ProviderError(failure) from error
        finally:
            await stream.leave()

    async def count_tokens(self, request: Request) -> int:
        """Ask how many tokens *request*'s prompt has. Raises ProviderError."""
        body = _encoded(encode_count, request)
        path = "/v1/messages/count_tokens"
        with self._nothing_shown():
            response = await self._send(path, body, request.betas)
            answer = await self._read(response, LARGEST_ANSWER)
            return _decoded(answer, _Count).input_tokens

    async def fetch_model(self, id: str) -> ModelLimits:
        """Ask the models API for the limits of the model *id*.

        Raises ProviderError; many servers have no such API (not_found).
        """
        with self._nothing_shown():
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
        limits = httpx2.Limits(keepalive_expiry=KEEP_ALIVE_SECONDS)
        http = (
            DefaultAsyncHttpxClient(
                timeout=timeout,
                limits=limits,
                follow_redirects=False,
                event_hooks=hooks,
            )
            if self._transport is None
            else httpx2.AsyncClient(
                timeout=timeout, event_hooks=hooks, transport=self._transport
            )
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
        headers = {"accept-encoding": "identity"}
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        try:
            with trio.fail_after(seconds):
                if body is None:
                    sent = await self._opened.get(
                        path,
                        cast_to=httpx2.Response,
                        options={"headers": headers},
                        stream=True,
                        stream_cls=AsyncStream[object],
                    )
                else:
                    sent = await self._opened.post(
                        path,
                        cast_to=httpx2.Response,
                        content=body,
                        options={"headers": headers},
                        stream=True,
                        stream_cls=AsyncStream[object],
                    )
        except Exception as error:
            raise ProviderError(failure_of(error)) from error
        return _response(sent)

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

    async def _read(self, response: "httpx2.Response", most: int) -> bytes:
        """Read a whole body, *most* bytes of it at most."""
        body = Body(response, self._idle)
        try:
            return await body.read(most)
        finally:
            await body.leave()


def _with_partial(failure: Failure, fold: Fold) -> Failure:
    """Add what the stream had told to a failure that came from below it."""
    if failure.partial or failure.usage:
        return failure
    known = fold.failure(failure.kind, failure.message)
    return replace(
        failure,
        partial=known.partial,
        usage=known.usage,
        request_id=failure.request_id or known.request_id,
    )


def _response(sent: object) -> "httpx2.Response":
    """Take the response out of what the SDK returned.

    It is typed as a stream, but an httpx2.Response is handed through as it is.
    """
    import httpx2
    from anthropic import AsyncStream

    response = sent.response if isinstance(sent, AsyncStream) else sent
    assert isinstance(response, httpx2.Response)
    return response


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
