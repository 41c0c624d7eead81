"""The summary without a model, as short as it takes to fit."""

from pod.compaction.admission import LEAST_SUMMARY
from pod.compaction.ground import Ground
from pod.compaction.plan import summary_without_model
from pod.compaction.strategies.strategy import Errand
from pod.compaction.summary import Summary
from pod.entries import Mode, Reference
from worker.compact.summary_prompts import Brief


class Mechanical:
    """Summarises by rules; it cannot fail."""

    mode: Mode = "mechanical"
    input_tokens = 0

    def __init__(self, errand: Errand) -> None:
        self._errand = errand

    async def summarise(self, start: Ground, brief: Brief) -> Summary:
        """Return a summary; where the names of files leave no room, fewer are kept."""
        of, under = self._errand.of, self._errand.under
        known = await of.known_files(start.details)
        references = tuple(Reference(f.path, f.use) for f in known)
        room = under - await self._bare(references, start)
        while references and room < LEAST_SUMMARY:
            references = references[: len(references) // 2]
            room = under - await self._bare(references, start)
        cap = min(of.settings.worker.summary_cap, max(room, LEAST_SUMMARY))
        text = await summary_without_model(start, of, cap=cap)
        return Summary(mode=self.mode, text=text, references=references)

    async def _bare(self, references: tuple[Reference, ...], start: Ground) -> int:
        """Return the tokens of the context with no more than a dot for a summary."""
        bare = Summary(mode=self.mode, text=".", references=references)
        return await self._errand.tokens_after(bare, start)
