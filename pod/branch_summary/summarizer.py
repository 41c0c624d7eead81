"""Has a model summarise a branch: one text, its retries, one deadline over all."""

from collections.abc import Sequence
from math import ceil

import trio

from pod.branch_summary.content import NO_CONTENT, Content, content_of
from pod.branch_summary.prompt import branch_prompt
from pod.branch_summary.summary import Summarized
from pod.compaction.file_operations import branch_details
from pod.entries import AnyEntry, NavigationCode
from pod.errors import NavigationMissed, NavigationRefused
from prompts import load
from worker.compact.task import Code, CompactError
from worker.compact.writer import Means, ModelWriter
from worker.events import Listen, Live, Retry, Warning
from worker.limits import Spent
from worker.model import Model
from worker.tokens import factor_for
from worker.turn import Setup

UNKNOWN_WINDOW = 128_000
"""Tokens; what the second seed's origin takes a window for that it does not know."""
RESERVE_TOKENS = 16_384
"""Tokens of the window left for the prompt's frame and the answer (design.md §7)."""
MAX_TOKENS = 2_048
"""Most tokens of a branch summary; the second seed's origin asks for so many. A
model that thinks may write more than that, but not as its text."""
MOST_TOKENS = 2 * MAX_TOKENS
"""Tokens above which a summary is refused: a model that thinks is given more room
than it may fill, and the counts of two vocabularies differ."""
SECONDS = 300.0
"""The longest a branch summary may take, all attempts and waits included."""
SMALLER = 3
"""How often half of the branch is tried where the provider says it does not fit."""


class BranchSummarizer:
    """Summarises branches with the client, the retries and the prices of *setup*.

    *models* are asked in order, one after the other where one fails; without any
    it is *setup*'s. *reserve_tokens* of the window are left free; *seconds* bound
    one summary. *listen* hears of retries.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        listen: Listen,
        models: Sequence[Model] = (),
        reserve_tokens: int = RESERVE_TOKENS,
        seconds: float = SECONDS,
    ) -> None:
        self._setup = setup
        self._listen = listen
        self._models = tuple(models) or (setup.model,)
        self._reserve = reserve_tokens
        self._seconds = seconds

    async def summarize(
        self,
        entries: Sequence[AnyEntry],
        *,
        spent: Spent,
        instructions: str = "",
        replace_instructions: bool = False,
    ) -> Summarized:
        """Return the summary of a branch, its entries in order.

        Its files are those of all entries, also of those there is no room for.
        What is used is charged to *spent*, whatever comes of it. Raises
        NavigationRefused where nothing was said or done on it, NavigationMissed
        where no whole summary comes of it.
        """
        started = trio.current_time()
        try:
            with trio.move_on_after(self._seconds):
                return await self._written(
                    entries, instructions, replace_instructions, spent, started
                )
        except CompactError as error:
            raise NavigationMissed(
                f"Branch summary failed: {error}", code=_code(error.code)
            ) from error
        raise NavigationMissed(
            f"the branch summary was not done after {self._seconds:g} seconds",
            code="timeout",
        )

    async def _written(
        self,
        entries: Sequence[AnyEntry],
        instructions: str,
        replace_instructions: bool,
        spent: Spent,
        started: float,
    ) -> Summarized:
        writer = ModelWriter(
            self._models, self._means(), spent=spent, listen=self._hear
        )
        smaller = 0
        while True:
            content = await self._content(entries, instructions, smaller)
            prompt = branch_prompt(
                content.text,
                instructions=instructions,
                replace_instructions=replace_instructions,
            )
            try:
                text = await writer.write(
                    load("summary_system"),
                    prompt,
                    answer_tokens=MAX_TOKENS,
                    problem_of=lambda text: None,
                )
            except CompactError as error:
                if error.code != "overflow" or smaller == SMALLER:
                    raise
                smaller += 1
                continue
            if (tokens := self._count(text)) > MOST_TOKENS:
                raise CompactError(
                    "too_large", f"it has {tokens:,} tokens, at most {MOST_TOKENS:,}"
                )
            return Summarized(
                text=text,
                details=branch_details(entries),
                summarised=content.summarised,
                left_out=content.left_out,
                model=writer.model,
                seconds=round(trio.current_time() - started, 3),
            )

    def _means(self) -> Means:
        setup = self._setup
        return Means(
            client=setup.client,
            retry=setup.retry,
            jitter=setup.jitter,
            price=setup.price,
        )

    def _hear(self, event: Live) -> None:
        """Pass on what goes wrong; deltas would be taken for what the agent says."""
        if isinstance(event, Retry | Warning):
            self._listen(event)

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
        factor = max(factor_for(model.id) for model in self._models)
        return ceil(self._setup.counter.count(text) * factor)

    def _budget(self, instructions: str) -> int:
        """Return the tokens for the conversation: at least a quarter of the window.

        Of several models the smallest window counts.
        """
        window = min(model.window or UNKNOWN_WINDOW for model in self._models)
        left = window - self._reserve - self._count(instructions)
        return max(left, window // 4)


def _code(code: Code) -> NavigationCode:
    match code:
        case "overflow":
            return "overflow"
        case "invalid_summary":
            return "truncated"
        case "no_summary":
            return "empty"
        case "timeout":
            return "timeout"
        case "too_large":
            return "too_large"
        case "api" | "input_limit":
            return "api"
