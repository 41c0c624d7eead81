"""One request to its answer: send, wait, send again where that may help."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import trio
from msgspec import Struct

from worker.api import Request
from worker.client import Client, Failure, ProviderError, Response
from worker.events import Listen, Retry
from worker.retry import RetryPolicy, give_up_text, next_wait

T = TypeVar("T")


class Answer(Struct, frozen=True):
    """A whole answer, the attempts it took, and the seconds of the last one."""

    response: Response
    attempts: int
    seconds: float


async def ask(
    client: Client,
    request: Request,
    *,
    retry: RetryPolicy,
    jitter: Callable[[], float],
    listen: Listen,
    failed: Callable[[Failure], None],
) -> Answer:
    """Send *request* until it is answered, as *retry* allows.

    Each failed attempt is told to *failed* (what it used is still billed),
    each wait to *listen*. A response reaches the caller whole or not at all,
    so nothing of a broken one has been acted upon when it is asked for again.

    Raises ProviderError for what cannot be retried or has been too often.
    """
    attempt = 1
    while True:
        started = trio.current_time()
        try:
            response = await client.ask(request, listen)
        except ProviderError as error:
            failure = error.failure
            failed(failure)
            wait = next_wait(retry, failure, attempt, jitter())
            if wait is None:
                if not failure.is_transient:
                    raise
                text = give_up_text(retry, failure, attempt)
                raise ProviderError(
                    msgspec.structs.replace(failure, message=text)
                ) from error
        else:
            return Answer(response, attempt, trio.current_time() - started)
        listen(
            Retry(
                attempt=attempt,
                attempts=retry.attempts,
                wait=wait,
                kind=failure.kind,
                status=failure.status,
                message=failure.message,
            )
        )
        await trio.sleep(wait)
        attempt += 1


async def beside(
    work: Callable[[], Awaitable[T]], other: Callable[[], Awaitable[None]]
) -> T:
    """Run *other* while *work* is under way, wait for both, return *work*'s result.

    Raises what *work* raises, as it is.
    """
    error: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        try:
            return await work()
        except Exception as raised:  # noqa: BLE001  raised again, outside of the nursery
            error = raised
    raise error
