"""The summary a compact worker writes, with the files it marks."""

from pod.compaction.ground import Ground
from pod.compaction.plan import worker_task
from pod.compaction.strategies.strategy import Errand, missed
from pod.compaction.summary import Summary
from pod.entries import Mode, Reference
from worker.compact.run import compact
from worker.compact.summary_prompts import Brief
from worker.compact.task import CompactError
from worker.events import without_deltas


class ByWorker:
    """Runs a compact worker."""

    mode: Mode = "worker"

    def __init__(self, errand: Errand) -> None:
        self._errand = errand
        self.input_tokens = 0

    async def summarise(self, start: Ground, brief: Brief) -> Summary:
        errand, of = self._errand, self._errand.of
        known = await of.known_files(start.details)
        async with of.reading() as reading:
            try:
                with of.transcript(errand.compaction_id, reading) as record:
                    result = await compact(
                        worker_task(start, known, brief),
                        of.parts(errand.spent, reading.scope),
                        spent=errand.own,
                        listen=without_deltas(of.tell),
                        on_progress=errand.progress,
                        record=record,
                    )
            except CompactError as error:
                self.input_tokens = error.input_tokens
                raise missed(error) from error
            self.input_tokens = result.input_tokens
            auto_read, vanished = await of.read_marks(result.marks, reading.scope)
        marked = {file.path for file in auto_read}
        uses = {file.path: file.use for file in known}
        named = dict.fromkeys((*uses, *result.references, *vanished))
        return Summary(
            mode=self.mode,
            text=result.summary,
            auto_read=auto_read,
            references=tuple(
                Reference(path, uses.get(path, ""))
                for path in named
                if path not in marked
            ),
            dropped_quotes=result.dropped_quotes,
            vanished=vanished,
            model=of.worker_model.id,
        )
