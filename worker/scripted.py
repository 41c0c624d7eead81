"""A model without a network: a policy answers in its place.

The policies themselves are in policy.py; their names are given again here,
where those look who play a model.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

import trio

from worker.api import Request
from worker.broken_off import telling_usage
from worker.client import (
    Delta,
    Failure as Failure,
    ProviderError,
    Response,
)
from worker.encode import encode_count, encode_request
from worker.failures import classify
from worker.loopback.answers import stream_of
from worker.loopback.engine import Engine
from worker.loopback.refusal import Refusal, Refused
from worker.loopback.rules import Served
from worker.model import Model
from worker.policy import (
    Decide as Decide,
    Echo as Echo,
    Failing as Failing,
    FailingWhen as FailingWhen,
    Policy as Policy,
    Reply as Reply,
    Route as Route,
    Script as Script,
    assistant_turns as assistant_turns,
    call as call,
    say as say,
    think as think,
    tool_results as tool_results,
)
from worker.stream import Fold

# Where a model's window is not known: the usual one.
_WINDOW = 200_000


class ScriptedClient:
    """A worker.client.Client whose model is *policy*.

    It takes what the loopback server takes and no more, streams in pieces
    with a checkpoint after each, and counts tokens and prompt cache as the
    server does (worker/loopback/meter.py). One client may be opened again;
    its prompt cache stays.
    """

    def __init__(self, policy: Policy, model: Model) -> None:
        served = Served(
            id=model.id,
            window=model.window or _WINDOW,
            max_output=model.max_tokens,
            system_messages=model.system_messages,
            prefill=model.prefill,
        )
        self._engine = Engine(policy, models=(served,))

    async def __aenter__(self) -> "ScriptedClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        """Answer *request*, telling deltas as a stream would."""
        await trio.lowlevel.checkpoint()
        with _told_as_failures():
            admitted = self._engine.admit(encode_request(request))
        fold = Fold()
        with telling_usage(fold, on_delta):
            for event in stream_of(self._engine.answer(admitted, request)):
                for delta in fold.feed(event):
                    on_delta(delta)
                    await trio.lowlevel.checkpoint()
        return fold.end()

    async def count_tokens(self, request: Request) -> int:
        """Count *request*'s prompt as its usage would."""
        await trio.lowlevel.checkpoint()
        with _told_as_failures():
            return self._engine.count(encode_count(request))


@contextmanager
def _told_as_failures() -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        raise ProviderError(failure_of(refused.refusal)) from None
    except UnicodeEncodeError as error:
        raise ProviderError(Failure("invalid", f"not Unicode: {error}")) from None


def failure_of(refusal: Refusal) -> Failure:
    """Say in the runtime's words what the API's error is, as over HTTP."""
    headers = {"x-should-retry": "false"}
    return classify(refusal.status, refusal.type, refusal.message, headers)
