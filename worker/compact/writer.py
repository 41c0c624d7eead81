"""Asks a model for one text: no tools, no conversation, no prompt cache written."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Protocol

import trio
from msgspec import Struct
from msgspec.structs import replace

from worker.ask import Broken, ask
from worker.client import TRANSIENT, Client, Failure, ProviderError, Response
from worker.compact.summary_prompts import cleaned
from worker.compact.task import CompactError
from worker.events import Listen, Warning, without_deltas
from worker.items import AssistantText, UserText
from worker.limits import Limits, Spent
from worker.model import Model
from worker.overflow import hidden_overflow
from worker.retry import RetryPolicy
from worker.usage import Usage
from worker.wire import MIN_THINKING, Cache, to_request

ATTEMPTS = 3
"""Times one model is asked the same, the first time included."""

PATIENCE = 10.0
"""Seconds waited for a model while there is another one to ask. Who is asked to wait
longer goes on to the next at once."""

THINKING_ROOM = 8_192
"""Output tokens added for a model that decides itself how much it thinks: they come
out of the same figure as the text, and would eat it up."""

TOO_LONG = frozenset({"overflow", "output_too_large", "payload_too_large"})
"""Kinds of failure that a shorter prompt gets around."""

LEAST_ANSWER = 1_024
"""Output tokens; where the provider leaves less, the prompt is what has to be shorter."""

ProblemOf = Callable[[str], str | None]
"""Says what is wrong with a text, None where it can be used."""


class Writer(Protocol):
    """Whoever writes a text to order."""

    def room(self, answer_tokens: int) -> int | None:
        """Return the tokens a prompt may have beside its answer; None: not known."""

    async def write(
        self, system: str, prompt: str, *, answer_tokens: int, problem_of: ProblemOf
    ) -> str:
        """Return the text, bare, that *prompt* asks for, of *answer_tokens* at most.

        Raises CompactError: with "overflow" where the prompt is too long, else
        where nobody wrote a text that has no problem.
        """


class Means(Struct, frozen=True):
    """What a ModelWriter asks with. *limits* is what the run's own leave."""

    client: Client
    retry: RetryPolicy
    jitter: Callable[[], float]
    price: Callable[[str, Usage], Decimal | None]
    limits: Limits = Limits()


class _Lower(CompactError):
    """The provider takes the prompt, with *limit* output tokens at most."""

    def __init__(self, limit: int, message: str) -> None:
        super().__init__("overflow", message)
        self.limit = limit


class ModelWriter:
    """Asks *models* in order; one that failed is not asked again.

    Each call is charged to *spent*, those that failed too. *listen* hears of
    waits and of models that are given up.
    """

    def __init__(
        self, models: Sequence[Model], means: Means, *, spent: Spent, listen: Listen
    ) -> None:
        self._models = list(models)
        self._means = means
        self._spent = spent
        self._listen = without_deltas(listen)

    @property
    def model(self) -> str:
        """Id of the model that is asked now."""
        return self._models[0].id

    def room(self, answer_tokens: int) -> int | None:
        """Return the tokens a prompt may have for the model that is asked now."""
        model = self._models[0]
        if model.window is None:
            return None
        return model.window - _output(model, answer_tokens)

    async def write(
        self, system: str, prompt: str, *, answer_tokens: int, problem_of: ProblemOf
    ) -> str:
        """Return what a model writes; see Writer."""
        while True:
            model = self._models[0]
            try:
                return await self._ask(
                    _suited(model, answer_tokens), system, prompt, problem_of
                )
            except CompactError as error:
                # Several calls at the same time may have found out the same.
                is_first = self._models[0] is model
                if error.code == "overflow" or (is_first and len(self._models) == 1):
                    raise
                if error.code == "input_limit":
                    raise
                if is_first:
                    self._models.pop(0)
                    text = f"no summary from {model.id}: {error}; asking {self.model}"
                    self._listen(Warning(message=text))

    async def _ask(
        self, model: Model, system: str, prompt: str, problem_of: ProblemOf
    ) -> str:
        if reached := self._spent.reached(self._means.limits):
            raise CompactError("input_limit", reached.message, counts=False)
        self._spent.record_request()
        try:
            response = await self._response(model, system, prompt)
        except _Lower as error:
            model = _suited(replace(model, max_tokens=error.limit), error.limit)
            response = await self._response(model, system, prompt)
        if hidden := hidden_overflow(response, model.window):
            raise CompactError("overflow", hidden.message)
        text = cleaned(
            "".join(i.text for i in response.items if isinstance(i, AssistantText))
        )
        match response.stop_reason:
            case "max_tokens":
                why = f"the answer was cut off at {model.max_tokens} tokens"
                raise CompactError("invalid_summary" if text else "no_summary", why)
            case "refusal":
                why = response.explanation or text or "no reason given"
                raise CompactError("no_summary", f"the model refused: {why}")
            case _ if not text:
                raise CompactError("no_summary", "the model answered nothing")
            case _ if problem := problem_of(text):
                raise CompactError("invalid_summary", f"not usable: {problem}")
            case _:
                return text

    async def _response(self, model: Model, system: str, prompt: str) -> Response:
        means = self._means
        request = to_request(
            [UserText(text=prompt, synthetic=True)],
            system=system,
            tools=(),
            model=model,
            cache=Cache(enabled=False),
        )
        broken: list[Broken] = []
        try:
            answer = await ask(
                means.client,
                request,
                retry=self._retry(),
                jitter=means.jitter,
                listen=self._listen,
                billed=broken.append,
            )
        except ProviderError as error:
            limit = error.failure.output_limit or 0
            if error.failure.kind == "output_too_large" and (
                LEAST_ANSWER <= limit < model.max_tokens
            ):
                raise _Lower(limit, error.failure.message) from error
            raise _failed(error.failure) from error
        finally:
            for attempt in broken:
                self._spent.charge(attempt.usage, means.price(model.id, attempt.usage))
        usage = answer.response.usage
        with trio.CancelScope(shield=True):  # or a cancel would lose what is billed
            cost = None if usage is None else await self._cost(model, usage)
        self._spent.charge(usage or Usage(), cost)
        return answer.response

    async def _cost(self, model: Model, usage: Usage) -> Decimal | None:
        return await trio.to_thread.run_sync(self._means.price, model.id, usage)

    def _retry(self) -> RetryPolicy:
        retry = self._means.retry
        patience = retry.cap if len(self._models) == 1 else min(retry.cap, PATIENCE)
        return replace(retry, attempts=min(retry.attempts, ATTEMPTS), cap=patience)


def _suited(model: Model, answer_tokens: int) -> Model:
    """Return *model* as it is asked for a text of *answer_tokens*.

    What it thinks comes on top, as far as it may write as much; a budget for it
    leaves the text its room.
    """
    limit = max(_output(model, answer_tokens), 1)
    thinking = model.thinking
    if isinstance(thinking, int):
        left = limit - answer_tokens
        thinking = min(thinking, left) if left >= MIN_THINKING else "off"
    return replace(model, max_tokens=limit, thinking=thinking)


def _output(model: Model, answer_tokens: int) -> int:
    """Return the output tokens to ask for: the text's, and those to think with."""
    wanted = answer_tokens
    if isinstance(model.thinking, int):
        wanted += model.thinking
    elif model.thinking == "adaptive":
        wanted += THINKING_ROOM
    return min(wanted, model.max_tokens)


def _failed(failure: Failure) -> CompactError:
    if failure.kind in TOO_LONG:
        return CompactError("overflow", f"its own input is too long: {failure.message}")
    return CompactError("api", failure.message, counts=failure.kind not in TRANSIENT)
