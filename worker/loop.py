"""The turn loop: ask, run the tools it calls for, ask again, until it is done."""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Literal

import trio
from msgspec.structs import replace

from prompts import load
from worker.api import Request
from worker.ask import Answer, Broken, ask, beside
from worker.calls import Toolbox, answer_calls
from worker.client import Failure, ProviderError, Response
from worker.content import Media, count_images
from worker.endings import (
    CONTINUE,
    KNOWN_STOPS,
    NOT_RUN,
    Blocked,
    CallsMade,
    Ending,
    Exhausted,
    Failed,
    Limited,
    ending_of,
)
from worker.events import Listen, RequestStart, Warning
from worker.history import unique_calls
from worker.items import FromModel, Item, ToolCall, UserText
from worker.limits import Spent
from worker.occupancy import Occupancy
from worker.overflow import hidden_overflow
from worker.permit import Stopped
from worker.refused import RefusedBlock
from worker.sending import Sending
from worker.turn import Answered, Gate, History, Setup
from worker.usage import Usage
from worker.validate import Checked, problems
from worker.wire import (
    Memory,
    is_about_compaction,
    items_of,
    to_request,
)

MAX_CONTINUATIONS = 3
"""How often in a row an answer that was cut off, paused or empty is gone on with
before the turn ends. Three is what oh-my-pi's users settled on for cut-off answers."""


async def run_turn(
    setup: Setup,
    history: History,
    *,
    spent: Spent,
    listen: Listen,
    occupancy: Occupancy,
    gate: Gate,
    sending: Sending | None = None,
    refused: RefusedBlock | None = None,
) -> Ending:
    """Run one turn on *history* until the model is done or something ends it.

    Input that waits is delivered before each request, and a turn does not end
    while some is waiting. *occupancy* follows this history. Cancelled, the turn
    leaves every call answered. *sending* can break off a request: the gate is
    asked then before it is sent again. *refused* remembers from turn to turn what
    of its own the provider does not take back.
    """
    sending = sending or Sending()
    refused = refused or RefusedBlock()
    turn = _Turn(setup, history, spent, listen, occupancy, refused)
    history.deliver()
    while True:
        if reached := spent.reached(setup.limits):
            return Limited(reached)
        if halted := await gate():
            return halted
        answer: Answer | None = None
        try:
            with sending.under_way():
                answer = await turn.ask()
        except ProviderError as error:
            await history.commit()
            return Failed(error.failure)
        if answer is None:  # broken off: nothing of it is in the history
            continue
        ended = await turn.take(answer)
        if isinstance(ended, Blocked):
            return ended  # input that waits is for the next turn
        has_input = history.deliver() > 0
        if has_input:
            turn.continuations = 0
        elif ended is not None:
            return ended


class _Turn:
    """One turn under way: what carries over from request to request."""

    def __init__(
        self,
        setup: Setup,
        history: History,
        spent: Spent,
        listen: Listen,
        occupancy: Occupancy,
        refused: RefusedBlock,
    ) -> None:
        self._setup = setup
        self._history = history
        self._spent = spent
        self._listen = listen
        self._occupancy = occupancy
        self.continuations = 0
        """Unfinished answers in a row that were gone on with."""
        self._previous_length: int | None = None
        self._estimate: int | None = None
        self._most_output = setup.model.max_tokens
        self._media = Media()
        self._refused = refused
        self._taken: set[str] = set()
        self._scanned = 0
        self._memory = Memory()
        self._checked = Checked()
        self._has_warned = False
        self._has_prices = False

    async def ask(self) -> Answer:
        """Send the history as it stands, smaller where the provider wants it smaller.

        It counts as one request, however often it is sent. Raises ProviderError.
        """
        request = await self._request()
        self._spent.record_request()
        while True:
            try:
                return await self._send(request)
            except ProviderError as error:
                if not self._make_smaller(error.failure, request):
                    raise
            request = await self._request()

    def _make_smaller(self, failure: Failure, request: Request) -> bool:
        """Ask for less output, or send less media, where that was what failed.

        Or the text in place of a compaction block that the provider does not take.
        """
        items = self._history.items
        if is_about_compaction(failure) and not self._refused.is_in(items):
            if not self._refused.learn(items):
                return False
            self._listen(
                Warning(
                    message="the provider does not take its own compaction block back:"
                    f" {failure.message}; sending the text beside it"
                )
            )
            return True
        if failure.kind == "output_too_large":
            left = failure.output_limit
            if left is None:
                left = request.max_tokens // 2
            if not 0 < left < request.max_tokens:
                return False
            self._most_output = left
            self._listen(Warning(message=f"asking for {left} output tokens at most"))
            return True
        if failure.kind == "payload_too_large" and (sent := count_images(request)):
            images = sent // 2
            self._media = Media(images=images, bytes=self._media.bytes // 2)
            self._listen(Warning(message=f"sending {images} images at most"))
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
            is_native=not self._refused.is_in(self._history.items),
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
        broken: list[Broken] = []
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
            asking = partial(
                ask,
                setup.client,
                request,
                retry=setup.retry,
                jitter=setup.jitter,
                listen=self._listen,
                billed=broken.append,
            )
            if self._occupancy.has_counted:
                answer = await asking()
            else:
                answer = await beside(asking, self._load)
        finally:
            for attempt in broken:
                self._charge_broken(request, attempt)
        self._previous_length = len(self._history.items)
        return answer

    async def _load(self) -> None:
        """Load tokenizer and prices, and count, while the first answer is waited for."""
        self._estimate = await self._occupancy.estimate(self._history.items)
        await self._load_prices()

    async def _load_prices(self) -> None:
        if not self._has_prices:
            price, model = self._setup.price, self._setup.model.id
            await trio.to_thread.run_sync(price, model, Usage(), abandon_on_cancel=True)
            self._has_prices = True

    def _charge_broken(self, request: Request, broken: Broken) -> None:
        """What a broken-off answer used is billed, though it is no occupancy."""
        # Priced without a thread: this may run while a cancel goes by. It is
        # rare, and the price data is loaded once.
        cost = self._setup.price(request.model, broken.usage)
        self._spent.charge(broken.usage, cost)
        self._history.answered(
            Answered(
                response="",
                model=request.model,
                stop_reason=broken.why,
                usage=broken.usage,
                context_tokens=None,
                estimate=None,
                cost=cost,
                request_id=broken.request_id,
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
        if hidden := hidden_overflow(response, self._occupancy.window):
            return await self._overflowed(answer, items, hidden)
        calls = [item for item in items if isinstance(item, ToolCall)]
        with trio.CancelScope(shield=True):  # or a cancel would lose what is billed
            cost = await self._price(response)
            toolbox = await self._toolbox_for(calls, items, response)
        # No checkpoint from here until answer_calls holds the calls: a cancel in
        # between would leave them unanswered.
        self._history.add(items)
        self._record(answer, response_id, cost)
        stop: Stopped | None = None
        if calls:
            stop = await answer_calls(
                calls,
                toolbox,
                record=self._history,
                listen=self._listen,
                why_not=NOT_RUN.get(response.stop_reason),
            )
        ending = _blocked(stop) if stop else self._ending(response, items)
        await self._history.commit()
        return ending

    async def _overflowed(
        self, answer: Answer, items: Sequence[FromModel], failure: Failure
    ) -> Ending:
        """Leave an answer to a prompt that did not fit out of the history."""
        with trio.CancelScope(shield=True):
            cost = await self._price(answer.response)
        self._history.discard(items)
        self._record(answer, "", cost)
        await self._history.commit()
        return Failed(failure)

    def _call_ids(self) -> set[str]:
        items = self._history.items
        for item in items[self._scanned :]:
            if isinstance(item, ToolCall):
                self._taken.add(item.call_id)
        self._scanned = len(items)
        return self._taken

    async def _price(self, response: Response) -> Decimal | None:
        """Price what was used. An alias's snapshot without a price costs as the alias."""
        if response.usage is None:
            return None
        await self._load_prices()
        price, asked = self._setup.price, self._setup.model.id
        cost = price(response.model, response.usage)
        if cost is None and response.model != asked:
            cost = price(asked, response.usage)
        return cost

    async def _toolbox_for(
        self, calls: Sequence[ToolCall], items: Sequence[Item], response: Response
    ) -> Toolbox:
        """Return the toolbox whose results together fit what is left of the window.

        *items* are those of *response*, which the history does not have yet.
        """
        so_far = [*self._history.items, *items]
        self._occupancy.measured(response.context_tokens, so_far, usage=response.usage)
        toolbox = self._setup.toolbox
        if not calls:
            return toolbox
        output = toolbox.output
        most = await self._occupancy.share(
            so_far, results=len(calls), most=output.max_tokens
        )
        return replace(toolbox, output=replace(output, max_tokens=most))

    def _record(self, answer: Answer, response_id: str, cost: Decimal | None) -> None:
        response = answer.response
        if response.usage is None and not self._has_warned:
            self._has_warned = True
            self._listen(Warning(message=NO_USAGE))
        self._spent.charge(response.usage or Usage(), cost)
        self._history.answered(
            Answered(
                response=response_id,
                model=response.model,
                stop_reason=response.stop_reason,
                usage=response.usage,
                context_tokens=response.context_tokens if response_id else None,
                estimate=self._estimate,
                cost=cost,
                request_id=response.request_id,
                attempts=answer.attempts,
                seconds=answer.seconds,
            )
        )

    def _ending(self, response: Response, items: Sequence[FromModel]) -> Ending | None:
        match ending_of(response, items):
            case CallsMade():
                self.continuations = 0
                return None
            case Exhausted() as unfinished:
                return self._continue(unfinished)
            case ending:
                if response.stop_reason not in KNOWN_STOPS:
                    self._listen(
                        Warning(
                            message=f"unknown stop reason {response.stop_reason!r},"
                            " taken as the end"
                        )
                    )
                return ending

    def _continue(self, unfinished: Exhausted) -> Ending | None:
        """Go on after an unfinished answer, or end when that happened too often."""
        if self.continuations == MAX_CONTINUATIONS:
            return unfinished
        self.continuations += 1
        self._listen(Warning(message=f"{unfinished.message}; going on"))
        if prompt := CONTINUE.get(unfinished.reason):
            self._history.add([UserText(text=load(prompt), synthetic=True)])
        return None


def _blocked(stop: Stopped) -> Blocked:
    by: Literal["permission", "hook"] = "hook" if stop.by == "hook" else "permission"
    return Blocked(by, stop.reason)


NO_USAGE = (
    "the provider does not tell what its answers use: tokens and cost of this run are"
    " not known, and limits.max_total_tokens does not hold"
)
