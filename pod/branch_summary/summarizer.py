"""Has a model summarise a branch: one call, its retries, one deadline over all."""

from collections.abc import Sequence
from decimal import Decimal
from math import ceil

import trio
from msgspec.structs import replace

from pod.branch_summary.content import NO_CONTENT, Content, content_of
from pod.branch_summary.prompt import branch_prompt
from pod.branch_summary.summary import Summarized
from pod.compaction.file_operations import branch_details
from pod.entries import AnyEntry, NavigationCode
from pod.errors import NavigationMissed, NavigationRefused
from prompts import load
from worker.ask import ask
from worker.client import Failure, ProviderError, Response
from worker.events import Listen, Live, Retry
from worker.items import AssistantText, UserText
from worker.limits import Spent
from worker.loop import Setup
from worker.model import Model
from worker.tokens import factor_for
from worker.usage import Usage
from worker.wire import Cache, to_request

UNKNOWN_WINDOW = 128_000
"""Tokens; what the second seed's origin takes a window for that it does not know."""
RESERVE_TOKENS = 16_384
"""Tokens of the window left for the prompt's frame and the answer (design.md §7)."""
MAX_TOKENS = 2_048
"""Most tokens of a branch summary; the second seed's origin asks for so many."""
SECONDS = 300.0
"""The longest a branch summary may take, all attempts and waits included."""
SMALLER = 3
"""How often half of the branch is tried where the provider says it does not fit."""
STOPS = ("end_turn", "stop_sequence")
"""Stop reasons of an answer that is whole."""


class BranchSummarizer:
    """Summarises branches with the model, the retries and the prices of *setup*.

    *reserve_tokens* of the window are left free; *seconds* bound one summary.
    *listen* hears of retries; what is used is charged to *spent*.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        listen: Listen,
        spent: Spent | None = None,
        reserve_tokens: int = RESERVE_TOKENS,
        seconds: float = SECONDS,
    ) -> None:
        self._setup = setup
        self._listen = listen
        self._spent = spent or Spent()
        self._reserve = reserve_tokens
        self._seconds = seconds

    async def summarize(
        self,
        entries: Sequence[AnyEntry],
        *,
        instructions: str = "",
        replace_instructions: bool = False,
    ) -> Summarized:
        """Return the summary of a branch, its entries in order.

        Its files are those of all entries, also of those there is no room for.
        Raises NavigationRefused where nothing was said or done on it,
        NavigationMissed where no whole summary comes of it.
        """
        call = _Call(self._setup, self._listen, self._spent)
        started = trio.current_time()
        failure = f"the branch summary was not done after {self._seconds:g} seconds"
        with trio.move_on_after(self._seconds):
            for smaller in range(SMALLER + 1):
                content = await self._content(entries, instructions, smaller)
                prompt = branch_prompt(
                    content.text,
                    instructions=instructions,
                    replace_instructions=replace_instructions,
                )
                try:
                    text = await call.answer(prompt)
                except ProviderError as error:
                    if error.failure.kind == "overflow" and smaller < SMALLER:
                        continue
                    raise call.missed(
                        f"Branch summary failed: {error.failure.message}",
                        _code(error.failure),
                    ) from error
                return Summarized(
                    text=text,
                    details=branch_details(entries),
                    summarised=content.summarised,
                    left_out=content.left_out,
                    model=self._setup.model.id,
                    usage=call.usage,
                    cost=call.cost,
                    seconds=round(trio.current_time() - started, 3),
                )
        raise call.missed(failure, "timeout")

    async def _content(
        self, entries: Sequence[AnyEntry], instructions: str, smaller: int
    ) -> Content:
        """Choose in a thread: counting takes a while, and loads the tokenizer first."""

        def chosen() -> Content:
            budget = self._budget(instructions) >> smaller
            return content_of(entries, budget=budget, count=self._count)

        content = await trio.to_thread.run_sync(chosen)
        if not content.text:
            raise NavigationRefused(NO_CONTENT)
        return content

    def _count(self, text: str) -> int:
        factor = factor_for(self._setup.model.id)
        return ceil(self._setup.counter.count(text) * factor)

    def _budget(self, instructions: str) -> int:
        """Return the tokens for the conversation: at least a quarter of the window."""
        window = self._setup.model.window or UNKNOWN_WINDOW
        left = window - self._reserve - self._count(instructions)
        return max(left, window // 4)


class _Call:
    """Asks one model, and adds up what that used."""

    def __init__(self, setup: Setup, listen: Listen, spent: Spent) -> None:
        self._setup = setup
        self._listen = listen
        self._spent = spent
        self._model = summary_model(setup.model)
        self.usage = Usage()
        self.cost: Decimal | None = Decimal(0)

    async def answer(self, prompt: str) -> str:
        """Return the whole answer to *prompt*.

        Raises ProviderError, and NavigationMissed for an answer that is cut off
        or empty.
        """
        request = to_request(
            [UserText(prompt)],
            system=load("branch_summary_system"),
            tools=(),
            model=self._model,
            cache=Cache(enabled=False),
        )
        # Loading the prices blocks, and belongs before the wait for an answer.
        await trio.to_thread.run_sync(self._setup.price, request.model, Usage())
        self._spent.record_request()
        answer = await ask(
            self._setup.client,
            request,
            retry=self._setup.retry,
            jitter=self._setup.jitter,
            listen=self._hear,
            failed=self._failed,
        )
        response = answer.response
        self._charge(response.model, response.usage)
        return self._text_of(response)

    def missed(self, message: str, code: NavigationCode) -> NavigationMissed:
        return NavigationMissed(message, code=code, usage=self.usage, cost=self.cost)

    def _text_of(self, response: Response) -> str:
        said = [item.text for item in response.items if isinstance(item, AssistantText)]
        text = "".join(said).strip()
        if response.stop_reason == "refusal":
            why = f": {response.explanation}" if response.explanation else ""
            raise self.missed(f"the model refused to summarise the branch{why}", "api")
        if response.stop_reason not in STOPS:
            raise self.missed(
                "the branch summary was cut off"
                f" ({response.stop_reason}, at most {self._model.max_tokens} tokens)",
                "truncated",
            )
        if not text:
            raise self.missed("the branch summary was empty", "empty")
        return text

    def _hear(self, event: Live) -> None:
        """Pass retries on; deltas would be taken for what the agent says."""
        if isinstance(event, Retry):
            self._listen(event)

    def _failed(self, failure: Failure) -> None:
        if failure.usage is not None:
            self._charge(self._model.id, failure.usage)

    def _charge(self, model: str, usage: Usage | None) -> None:
        used, price = usage or Usage(), self._setup.price
        cost = price(model, used)
        if cost is None and model != self._model.id:
            cost = price(self._model.id, used)
        if usage is None:
            cost = None
        self.usage += used
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        self._spent.charge(used, cost)


def summary_model(model: Model) -> Model:
    """Return *model* as it is asked for a summary: briefly, and without reasoning.

    Reasoning counts among the output, and would leave no room for the summary.
    """
    return replace(model, max_tokens=min(model.max_tokens, MAX_TOKENS), thinking=None)


def _code(failure: Failure) -> NavigationCode:
    match failure.kind:
        case "overflow" | "output_too_large" | "payload_too_large":
            return "overflow"
        case _:
            return "api"
