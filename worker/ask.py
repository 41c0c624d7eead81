"""One request to its answer: send, wait, send again where that may help."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import trio
from msgspec import Struct

from worker.api import Request
from worker.client import BrokenOff, Client, Delta, ProviderError, Response
from worker.events import Listen, Retry
from worker.retry import RetryPolicy, give_up_text, next_wait
from worker.usage import Usage

T = TypeVar("T")


class Answer(Struct, frozen=True):
    """A whole answer, the attempts it took, and the seconds of the last one."""

    response: Response
    attempts: int
    seconds: float


class Broken(Struct, frozen=True):
    """An attempt that gave no answer and is billed all the same.

    *why* is the failure's kind with ``failed:`` before it, or ``cancelled``.
    """

    why: str
    usage: Usage
    request_id: str | None = None


async def ask(
    client: Client,
    request: Request,
    *,
    retry: RetryPolicy,
    jitter: Callable[[], float],
    listen: Listen,
    billed: Callable[[Broken], None],
) -> Answer:
    """Send *request* until it is answered, as *retry* allows.

    What attempts without an answer used is told to *billed*, also where a cancel
    broke one off; each wait to *listen*. A response reaches the caller whole or
    not at all, so nothing of a broken one has been acted upon when it is asked
    for again.

    Raises ProviderError for what cannot be retried or has been too often.
    """

    def hear(delta: Delta) -> None:
        if isinstance(delta, BrokenOff):
            billed(Broken("cancelled", delta.usage, delta.request_id))
        else:
            listen(delta)

    attempt = 1
    while True:
        started = trio.current_time()
        try:
            response = await client.ask(request, hear)
        except ProviderError as error:
            failure = error.failure
            if failure.usage is not None:
                why = f"failed:{failure.kind}"
                billed(Broken(why, failure.usage, failure.request_id))
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
