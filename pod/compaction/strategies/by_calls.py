"""Summaries written in single calls: by models one after the other, or a server."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal

import trio
from msgspec.structs import replace

from pod.compaction.framing import with_files
from pod.compaction.ground import Ground
from pod.compaction.strategies.strategy import Errand, Missed, missed
from pod.compaction.summary import Summary
from pod.entries import Mode
from worker.compact.quotes import check_quotes, quotable
from worker.compact.remote import Endpoint
from worker.compact.summarise import Bounds, Head, Summariser
from worker.compact.summary_prompts import Brief, Sizes
from worker.compact.task import CompactError, Progress
from worker.compact.writer import ModelWriter, ProblemOf, Writer
from worker.items import AssistantText, Item, UserText
from worker.model import Model


class ByCalls:
    """Has a summary written by "summarize" or "remote"."""

    def __init__(self, mode: Mode, errand: Errand) -> None:
        self.mode = mode
        self._errand = errand

    @property
    def input_tokens(self) -> int:
        return self._errand.own.usage.prompt

    async def summarise(self, start: Ground, brief: Brief) -> Summary:
        of = self._errand.of
        seconds = of.settings.seconds
        deadline = trio.current_time() + seconds
        with of.transcript(self._errand.compaction_id) as record:
            writer = self._writer()
            summariser = self._summariser(_Told(writer, record, self._progress), brief)
            text = short = ""
            try:
                with trio.move_on_at(deadline):
                    text = await summariser.summary(
                        Head(start.history, start.turn_prefix, start.previous_summary)
                    )
            except CompactError as error:
                raise missed(error) from error
            if not text:
                late = f"not done after {seconds:g} seconds (summarize_timeout)"
                raise Missed("timeout", late, counts=True)
            if of.settings.short_summary:
                # The summary is there: no failure of its title may lose it.
                with trio.move_on_at(deadline), suppress(CompactError):
                    short = await summariser.short(text)
        checked = await trio.to_thread.run_sync(check_quotes, text, _said(start))
        return Summary(
            mode=self.mode,
            text=with_files(checked.summary, start.details),
            dropped_quotes=checked.dropped,
            short=short,
            model=writer.model,
            is_split=bool(start.turn_prefix),
        )

    def _summariser(self, writer: Writer, brief: Brief) -> Summariser:
        of = self._errand.of
        budgets = of.settings.worker
        sizes = Sizes(target=budgets.summary_target, cap=budgets.summary_cap)
        return Summariser(
            writer,
            brief=brief,
            bounds=Bounds(sizes=sizes, reserve=of.settings.reserve_tokens),
            count=of.count,
            is_shaped=self.mode == "summarize",
        )

    def _writer(self) -> ModelWriter:
        errand, of = self._errand, self._errand.of
        if self.mode == "remote":
            url = of.settings.remote_endpoint
            if url is None:
                raise Missed("api", "[compaction] remote_endpoint is not set")
            endpoint = Endpoint(url, seconds=of.settings.seconds)
            means = replace(
                of.means(errand.spent),
                client=endpoint,
                price=lambda model, usage: Decimal(0),
            )
            models: Sequence[Model] = (endpoint.model,)
        else:
            means, models = of.means(errand.spent), of.summarizers
        return ModelWriter(models, means, spent=errand.own, listen=of.tell)

    def _progress(self, has_summary: bool) -> None:
        own = self._errand.own
        self._errand.progress(
            Progress(
                requests=own.requests,
                input_tokens=own.usage.prompt,
                auto_read_tokens=0,
                references=0,
                has_summary=has_summary,
            )
        )


def _said(start: Ground) -> Sequence[str]:
    """Return what may be quoted as the user's words."""
    own = (
        item.text
        for item in start.head
        if isinstance(item, UserText) and not item.synthetic
    )
    directives = (directive.text for directive in start.directives)
    return [*own, *directives, *quotable(start.previous_summary)]


class _Told:
    """Passes orders on to *writer*, and keeps them and the texts in the transcript."""

    def __init__(
        self,
        writer: Writer,
        record: Callable[[Item], None],
        progress: Callable[[bool], None],
    ) -> None:
        self._writer = writer
        self._record = record
        self._progress = progress

    def room(self, answer_tokens: int) -> int | None:
        return self._writer.room(answer_tokens)

    async def write(
        self, system: str, prompt: str, *, answer_tokens: int, problem_of: ProblemOf
    ) -> str:
        self._record(UserText(text=prompt, synthetic=True))
        text = await self._writer.write(
            system, prompt, answer_tokens=answer_tokens, problem_of=problem_of
        )
        self._record(AssistantText(text=text, response=""))
        self._progress(True)
        return text
