"""A provider that refuses long prompts."""

from collections.abc import Callable

from tests.worker.compact import policies
from worker.api import Request
from worker.client import (
    Client,
    Delta,
    Failure,
    ProviderError,
    Response,
)
from worker.usage import Usage


class Overflowing:
    """Refuses the requests of these numbers as too long, counted from 1."""

    def __init__(
        self, client: Client, numbers: set[int], *, usage: Usage | None = None
    ) -> None:
        self._client = client
        self._usage = usage
        self._numbers = numbers
        self.asked = 0
        self.requests: list[Request] = []

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        if not any(tool.name == policies.TOOL for tool in request.tools):
            self.asked += 1
            self.requests.append(request)
            if self.asked in self._numbers:
                raise ProviderError(
                    Failure(
                        kind="overflow",
                        message="prompt is too long",
                        status=400,
                        usage=self._usage,
                    )
                )
        return await self._client.ask(request, on_delta)

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)
