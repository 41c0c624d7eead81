"""What the hooks of a compaction are told, and what their answers come to."""

from typing import TYPE_CHECKING

from pod.compaction.cut import cut_at
from pod.compaction.ground import Ground
from pod.compaction.job import Job
from pod.compaction.plan import ground_with
from pod.compaction.strategies.strategy import Missed
from pod.compaction.summary import Summary
from pod.entries import Compaction, Mode
from pod.hooks.answers import BeforeCompactAnswer, CompactingAnswer, HookCompaction
from pod.hooks.payloads import BeforeCompact, Compacted, Compacting
from tools.text import clean

if TYPE_CHECKING:
    from pod.compaction.compactor import Compactor


class Asking:
    """Asks the hooks of one compaction."""

    def __init__(self, of: "Compactor", job: Job) -> None:
        self._of = of
        self._hooks = of.hooks
        self._job = job

    async def before(self, start: Ground, mode: Mode) -> BeforeCompactAnswer:
        """Ask whether to begin, and for a whole compaction."""
        if not self._hooks.has("session_before_compact"):
            return BeforeCompactAnswer()
        job, shown = self._job, start.window.shown[: start.cut.index]
        return await self._hooks.before_compact(
            BeforeCompact(
                session=self._of.session.id,
                reason=job.reason,
                will_retry=job.goes_on,
                mode=mode,
                tokens_before=job.tokens,
                first_kept=start.cut.first_kept,
                instructions=job.instructions,
                previous_summary=start.previous_summary,
                is_split_turn=bool(start.turn_prefix),
                items=tuple(start.history),
                turn_prefix=tuple(start.turn_prefix),
                details=start.details,
                entries=tuple(one.entry for one in shown),
            )
        )

    async def compacting(self, id: str, start: Ground, mode: Mode) -> CompactingAnswer:
        """Ask how the summary is to be written."""
        if not self._hooks.has("session_compacting"):
            return CompactingAnswer()
        job = self._job
        return await self._hooks.compacting(
            Compacting(
                session=self._of.session.id,
                compaction_id=id,
                reason=job.reason,
                will_retry=job.goes_on,
                mode=mode,
                instructions=job.instructions,
                previous_summary=start.previous_summary,
                items=tuple(start.history),
                turn_prefix=tuple(start.turn_prefix),
            )
        )

    async def done(self, entry: Compaction) -> None:
        """Tell that a compaction is in the log."""
        if self._hooks.has("session_compact"):
            await self._hooks.compact(
                Compacted(
                    session=self._of.session.id,
                    reason=self._job.reason,
                    will_retry=self._job.goes_on,
                    entry=entry,
                    from_hook=entry.from_hook,
                )
            )

    async def ground(self, made: HookCompaction, start: Ground) -> Ground:
        """Return what a hook's own compaction starts from: its cut, if it has one.

        Raises Missed where it names an entry before which nothing can be cut.
        """
        if made.first_kept is None or made.first_kept == start.cut.first_kept:
            return start
        count = await self._of.counted(start.items)
        cut = cut_at(start.window, made.first_kept, count=count)
        if isinstance(cut, str):
            raise Missed(
                "invalid_cut",
                f"the hook keeps all from the entry {made.first_kept!r} on: {cut}",
            )
        return await ground_with(self._of, start.window, cut)


def hook_summary(made: HookCompaction, mode: Mode) -> Summary:
    """Return what a hook made, to be judged like any other; *mode* was planned."""
    return Summary(
        mode=mode,
        text=clean(made.summary).text,
        details=made.details,
        preserve_data=made.preserve_data,
        from_hook=True,
    )
