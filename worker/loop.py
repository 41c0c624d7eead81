"""The turn loop: ask, run the tools it calls for, ask again, until it is done."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Literal, Protocol

import trio
from msgspec import Struct

from prompts import load
from worker.api import Request, ToolSpec
from worker.ask import Answer, ask
from worker.calls import Toolbox, answer_calls
from worker.client import Client, Failure, ProviderError, Response
from worker.content import Media
from worker.events import Listen, RequestStart, Warning
from worker.history import unique_calls
from worker.items import AssistantText, Item, Opaque, ToolCall, UserText
from worker.limits import Limits, Reached, Spent
from worker.model import Model
from worker.occupancy import Occupancy
from worker.retry import RetryPolicy
from worker.tokens import Counter
from worker.usage import Usage
from worker.validate import Checked, problems
from worker.wire import Cache, Memory, items_of, to_request

MAX_CONTINUATIONS = 3
"""How often in a row an answer that was cut off, paused or empty is gone on with
before the turn ends. Three is what oh-my-pi's users settled on for cut-off answers."""


class Answered(Struct, frozen=True):
    """The facts of one answered (or broken-off) request, for the journal."""

    response: str
    model: str
    stop_reason: str
    usage: Usage | None
    context_tokens: int | None
    estimate: int | None
    cost: Decimal | None
    request_id: str | None
    attempts: int
    seconds: float


class History(Protocol):
    """The items a request is made of. What is put in is on disk before it is seen."""

    @property
    def items(self) -> Sequence[Item]: ...

    def add(self, items: Sequence[Item]) -> None: ...

    def deliver(self) -> int:
        """Move input that waits into the history; say how much it was."""

    def start_tool(self, call: ToolCall) -> None: ...

    def answered(self, answered: Answered) -> None: ...

    async def commit(self) -> None: ...


class Setup(Struct, frozen=True):
    """What a turn runs with; the same from its first request to its last."""

    client: Client
    model: Model
    system: str
    specs: tuple[ToolSpec, ...]
    toolbox: Toolbox
    cache: Cache
    retry: RetryPolicy
    limits: Limits
    counter: Counter
    price: Callable[[str, Usage], Decimal | None]
    """(model, usage) to USD; None where the price is unknown. May block."""
    new_id: Callable[[], str]
    jitter: Callable[[], float]
    """Uniform in [0, 1)."""


class Finished(Struct, frozen=True):
    """The model ended its turn; *text* is its last answer."""

    text: str


class Limited(Struct, frozen=True):
    """A limit ended the turn. What the model said until then is in the history."""

    reached: Reached


Unfinished = Literal["paused", "cut_off", "only_reasoning", "empty"]
"""How an answer can leave the turn open without calling a tool."""


class Exhausted(Struct, frozen=True):
    """The model kept being cut off, pausing or answering nothing."""

    reason: Unfinished
    message: str


class Refused(Struct, frozen=True):
    """The model, or a filter before it, refused to answer."""

    message: str


class Failed(Struct, frozen=True):
    """The provider gave no answer, and asking again cannot help."""

    failure: Failure


class Yielded(Struct, frozen=True):
    """The gate ended the turn before a request; it can go on where it stands.

    *tokens* is the estimate of the request that was not sent.
    """

    tokens: int


Ending = Finished | Limited | Exhausted | Refused | Failed | Yielded

Gate = Callable[[], Awaitable[Yielded | None]]
"""Asked before each request, with the history as it would be sent."""


async def run_turn(
    setup: Setup,
    history: History,
    *,
    spent: Spent,
    listen: Listen,
    occupancy: Occupancy,
    gate: Gate,
) -> Ending:
    """Run one turn on *history* until the model is done or something ends it.

    Input that waits is delivered before each request, and a turn does not end
    while some is waiting. *occupancy* follows this history. Cancelled, the turn
    leaves every call answered.
    """
    turn = _Turn(setup, history, spent, listen, occupancy)
    while True:
        history.deliver()
        if reached := spent.reached(setup.limits):
            return Limited(reached)
        if yielded := await gate():
            return yielded
        try:
            answer = await turn.ask()
        except ProviderError as error:
            await history.commit()
            return Failed(error.failure)
        ending = await turn.take(answer)
        if ending is not None and not history.deliver():
            return ending


class _Turn:
    """One turn under way: what carries over from request to request."""

    def __init__(
        self,
        setup: Setup,
        history: History,
        spent: Spent,
        listen: Listen,
        occupancy: Occupancy,
    ) -> None:
        self._setup = setup
        self._history = history
        self._spent = spent
        self._listen = listen
        self._occupancy = occupancy
        self._continuations = 0
        self._previous_length: int | None = None
        self._estimate: int | None = None
        self._most_output = setup.model.max_tokens
        self._media = Media()
        self._taken: set[str] = set()
        self._scanned = 0
        self._memory = Memory()
        self._checked = Checked()

    async def ask(self) -> Answer:
        """Send the history as it stands, smaller where the provider wants it smaller.

        Raises ProviderError.
        """
        while True:
            request = await self._request()
            try:
                return await self._send(request)
            except ProviderError as error:
                if not self._make_smaller(error.failure, request.max_tokens):
                    raise

    def _make_smaller(self, failure: Failure, max_tokens: int) -> bool:
        """Ask for less output, or send less media, where that was what failed."""
        if failure.kind == "output_too_large" and max_tokens > 1:
            left = failure.output_limit or max_tokens // 2
            if not 0 < left < max_tokens:
                return False
            self._most_output = left
            self._listen(Warning(message=f"asking for {left} output tokens at most"))
            return True
        if failure.kind == "payload_too_large" and self._media.images:
            images = self._media.images // 2
            self._media = Media(images=images, bytes=self._media.bytes // 2)
            self._listen(Warning(message=f"sending the newest {images} images only"))
            return True
        return False

    async def _request(self) -> Request:
        setup = self._setup
        room = await self._occupancy.room(self._history.items)
        self._estimate = room.estimate
        request = to_request(
            self._history.items,
            system=setup.system,
            tools=setup.specs,
            model=setup.model,
            cache=setup.cache,
            max_tokens=min(room.max_tokens, self._most_output),
            media=self._media,
            previous_length=self._previous_length,
            memory=self._memory,
        )
        if wrong := problems(request, model=setup.model, checked=self._checked):
            raise ProviderError(
                Failure(
                    kind="invalid",
                    message="the request is not one the API takes, so it was not"
                    f" sent: {'; '.join(wrong)}",
                )
            )
        return request

    async def _send(self, request: Request) -> Answer:
        setup = self._setup
        broken: list[Failure] = []
        self._spent.record_request()
        self._listen(
            RequestStart(
                request=self._spent.requests,
                model=request.model,
                items=len(self._history.items),
                max_tokens=request.max_tokens,
                estimate=self._estimate,
            )
        )
        try:
            answer = await ask(
                setup.client,
                request,
                retry=setup.retry,
                jitter=setup.jitter,
                listen=self._listen,
                failed=broken.append,
            )
        finally:
            for failure in broken:
                self._charge_broken(request, failure)
        self._previous_length = len(self._history.items)
        return answer

    def _charge_broken(self, request: Request, failure: Failure) -> None:
        """What a broken-off answer used is billed, though it is no occupancy."""
        if failure.usage is None:
            return
        # Priced without a thread: this may run while a cancel goes by. Usage of
        # a failure is rare, and the price data is loaded once.
        cost = self._setup.price(request.model, failure.usage)
        self._spent.charge(failure.usage, cost)
        self._history.answered(
            Answered(
                response="",
                model=request.model,
                stop_reason=f"failed:{failure.kind}",
                usage=failure.usage,
                context_tokens=None,
                estimate=None,
                cost=cost,
                request_id=failure.request_id,
                attempts=1,
                seconds=0.0,
            )
        )

    async def take(self, answer: Answer) -> Ending | None:
        """Put *answer* into the history, run its calls; None where the turn goes on."""
        response = answer.response
        response_id = self._setup.new_id()
        items = unique_calls(
            items_of(response, response_id, model=self._setup.model.id),
            taken=self._call_ids(),
            new_id=self._setup.new_id,
        )
        calls = [item for item in items if isinstance(item, ToolCall)]
        cost = await self._price(response)
        # No checkpoint from here until answer_calls holds the calls: a cancel in
        # between would leave them unanswered.
        self._history.add(items)
        self._record(answer, response_id, cost)
        if calls:
            await answer_calls(
                calls,
                self._setup.toolbox,
                record=self._history,
                listen=self._listen,
                why_not=NOT_RUN.get(response.stop_reason),
            )
        ending = self._ending(response, items, calls)
        await self._history.commit()
        return ending

    def _call_ids(self) -> set[str]:
        items = self._history.items
        for item in items[self._scanned :]:
            if isinstance(item, ToolCall):
                self._taken.add(item.call_id)
        self._scanned = len(items)
        return self._taken

    async def _price(self, response: Response) -> Decimal | None:
        """Price what was used; shielded, or a cancel would lose what is billed."""
        cost: Decimal | None = None
        if response.usage is not None:
            with trio.CancelScope(shield=True):
                cost = await trio.to_thread.run_sync(
                    self._setup.price, response.model, response.usage
                )
        return cost

    def _record(self, answer: Answer, response_id: str, cost: Decimal | None) -> None:
        response = answer.response
        self._occupancy.measured(response.context_tokens, len(self._history.items))
        self._spent.charge(response.usage or Usage(), cost)
        self._history.answered(
            Answered(
                response=response_id,
                model=response.model,
                stop_reason=response.stop_reason,
                usage=response.usage,
                context_tokens=response.context_tokens,
                estimate=self._estimate,
                cost=cost,
                request_id=response.request_id,
                attempts=answer.attempts,
                seconds=answer.seconds,
            )
        )

    def _ending(
        self, response: Response, items: Sequence[Item], calls: Sequence[ToolCall]
    ) -> Ending | None:
        text = "".join(i.text for i in items if isinstance(i, AssistantText))
        match response.stop_reason:
            case "refusal":
                return Refused(response.explanation or text or "no reason given")
            case "model_context_window_exceeded":
                return Failed(
                    Failure(
                        kind="overflow",
                        message="the answer was cut off because prompt and answer"
                        " fill the model's context window",
                        request_id=response.request_id,
                    )
                )
            case _ if calls:
                self._continuations = 0
                return None
            case "pause_turn":
                return self._continue("paused", None)
            case "max_tokens" if text.strip():
                return self._continue("cut_off", "continue_cut_off")
            case "max_tokens":
                return self._continue("only_reasoning", "continue_only_reasoning")
            case _ if not text.strip() and not any(
                isinstance(i, Opaque) for i in items
            ):
                return self._continue("empty", "continue_empty")
            case "end_turn" | "stop_sequence" | "tool_use":
                return Finished(text)
            case unknown:
                self._listen(
                    Warning(
                        message=f"unknown stop reason {unknown!r}, taken as the end"
                    )
                )
                return Finished(text)

    def _continue(self, what: Unfinished, prompt: str | None) -> Ending | None:
        """Go on after an unfinished answer, or end when that happened too often."""
        if self._continuations == MAX_CONTINUATIONS:
            return Exhausted(what, UNFINISHED[what])
        self._continuations += 1
        self._listen(Warning(message=f"{UNFINISHED[what]}; going on"))
        if prompt is not None:
            self._history.add([UserText(text=load(prompt), synthetic=True)])
        return None


UNFINISHED: Mapping[Unfinished, str] = {
    "paused": "the provider paused the turn",
    "cut_off": "the answer was cut off at model.max_tokens",
    "only_reasoning": "the answer was all reasoning and reached model.max_tokens",
    "empty": "the model answered nothing",
}

NOT_RUN: Mapping[str, str] = {
    "refusal": "not run: the answer that asked for it was refused",
    "model_context_window_exceeded": "not run: the context window was full",
}
"""Why calls of a response with this stop reason are answered but never run."""
