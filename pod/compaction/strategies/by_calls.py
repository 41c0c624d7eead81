"""Summaries written in single calls: by models one after the other, or a server."""

from collections.abc import Callable, Sequence
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
        settings = self._errand.of.settings
        try:
            with trio.move_on_after(settings.seconds):
                return await self._written(start, brief)
        except CompactError as error:
            raise missed(error) from error
        late = f"not done after {settings.seconds:g} seconds (summarize_timeout)"
        raise Missed("timeout", late, counts=True)

    async def _written(self, start: Ground, brief: Brief) -> Summary:
        errand, of = self._errand, self._errand.of
        with of.transcript(errand.compaction_id) as record:
            writer = self._writer()
            summariser = Summariser(
                _Told(writer, record, self._progress),
                brief=brief,
                bounds=Bounds(
                    sizes=Sizes(
                        target=of.settings.worker.summary_target,
                        cap=of.settings.worker.summary_cap,
                    ),
                    reserve=of.settings.reserve_tokens,
                ),
                count=of.count,
                is_shaped=self.mode == "summarize",
            )
            head = Head(start.history, start.turn_prefix, start.previous_summary)
            text = await summariser.summary(head)
            short = await self._short(summariser, text)
        checked = await trio.to_thread.run_sync(check_quotes, text, _said(start))
        return Summary(
            mode=self.mode,
            text=with_files(checked.summary, start.details),
            dropped_quotes=checked.dropped,
            short=short,
            model=writer.model,
            is_split=bool(start.turn_prefix),
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

    async def _short(self, summariser: Summariser, text: str) -> str:
        """Return a title where one is wanted; its failure takes nothing else along."""
        if not self._errand.of.settings.short_summary:
            return ""
        try:
            return await summariser.short(text)
        except CompactError:
            return ""

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
