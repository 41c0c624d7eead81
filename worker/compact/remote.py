"""A server of the user's own that writes summaries: JSON over HTTP.

It gets ``{"systemPrompt": …, "prompt": …}`` by POST and answers ``{"summary": …}``;
other fields of its answer are left out of account.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from worker.api import Request, Text
from worker.body import Body
from worker.client import Delta, Failure, ProviderError, Response
from worker.failures import classify
from worker.items import AssistantText
from worker.model import Model
from worker.usage import Usage

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
LARGEST_ANSWER = 1024 * 1024
"""Bytes of an answer that are read: far beyond any summary that would be taken."""
LARGEST_ERROR = 64 * 1024
MOST_TOKENS = 1_000_000
"""Stands for "as long as it likes": the server has no parameter for it."""


class _Order(Struct, rename="camel"):
    system_prompt: str
    prompt: str


class _Answer(Struct):
    summary: str


class Endpoint:
    """A worker.client.Client for such a server at *url*.

    Follows no redirect. *seconds* is how long it may say nothing; callers
    bound the whole.
    """

    def __init__(self, url: str, *, seconds: float) -> None:
        self._url = url
        self._seconds = seconds

    @property
    def model(self) -> Model:
        """The server as a model: nothing is known of it but where it is."""
        name = shown(self._url)
        return Model(provider="scripted", id=name, window=None, max_tokens=MOST_TOKENS)

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        """Post *request*'s texts; the answer's only item is the summary."""
        order = _Order(
            system_prompt="\n\n".join(block.text for block in request.system),
            prompt="\n\n".join(
                block.text
                for message in request.messages
                for block in message.content
                if isinstance(block, Text)
            ),
        )
        summary = await self._post(_encoded(order))
        return Response(
            message_id="",
            model=request.model,
            items=(AssistantText(summary, ""),),
            stop_reason="end_turn",
            usage=Usage(),
        )

    async def count_tokens(self, request: Request) -> int:
        raise ProviderError(Failure("invalid", "a summary endpoint counts no tokens"))

    async def _post(self, order: bytes) -> str:
        import httpx2

        timeout = httpx2.Timeout(
            connect=CONNECT_SECONDS, read=None, write=None, pool=None
        )
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        with self._told():
            async with httpx2.AsyncClient(
                timeout=timeout, follow_redirects=False
            ) as client:
                request = client.build_request(
                    "POST", self._url, content=order, headers=headers
                )
                response = await client.send(request, stream=True)
                return await self._read(response)

    async def _read(self, response: "httpx2.Response") -> str:
        body = Body(response, self._seconds)
        status = response.status_code
        try:
            most = LARGEST_ANSWER if response.is_success else LARGEST_ERROR
            data = await body.read(most + 1)
        finally:
            await body.leave()
        if 300 <= status < 400:
            place = response.headers.get("location", "an unnamed place")
            text = f"redirected to {place}: set remote_endpoint to where it is"
            raise ProviderError(Failure("invalid", text, status=status))
        if not response.is_success:
            text = data[:LARGEST_ERROR].decode(errors="replace")
            raise ProviderError(classify(status, None, text, response.headers))
        if len(data) > LARGEST_ANSWER:
            text = f"its answer is longer than {LARGEST_ANSWER:,} bytes"
            raise ProviderError(Failure("invalid", text))
        return _summary(data)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in the runtime's words what httpx2 raises."""
        import httpx2

        try:
            yield
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL, ValueError) as error:
            text = f"remote_endpoint is no web address: {error}"
            raise ProviderError(Failure("invalid", text)) from error
        except httpx2.TimeoutException as error:
            text = f"{shown(self._url)} did not answer in time"
            raise ProviderError(Failure("timeout", text)) from error
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            said = str(error) or type(error).__name__
            text = f"{shown(self._url)} cannot be reached: {said}"
            raise ProviderError(Failure("connection", text)) from error


def shown(url: str) -> str:
    """Return *url* as it may be shown: without a name and password in it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the remote endpoint"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _encoded(order: _Order) -> bytes:
    try:
        return msgspec.json.encode(order)
    except UnicodeEncodeError:
        clean = [
            text.encode("utf-8", "replace").decode()
            for text in (order.system_prompt, order.prompt)
        ]
        return msgspec.json.encode(_Order(*clean))


def _summary(data: bytes) -> str:
    try:
        return msgspec.json.decode(data, type=_Answer).summary
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        excerpt = data[:300].decode(errors="replace") or "nothing at all"
        text = (
            f'its answer has to be JSON with a "summary" ({error}), and is: {excerpt}'
        )
        raise ProviderError(Failure("invalid", text)) from error
