"""What a Pod's compactions keep to."""

from msgspec import Struct
from msgspec.structs import replace

from pod.compaction.prune import PruneLimits
from pod.entries import Mode
from worker.compact.task import Budgets

BY_CALLS: frozenset[Mode] = frozenset({"summarize", "remote"})
"""The modes that write a summary in single calls, after the second seed's rules."""


class Settings(Struct, frozen=True):
    """The manifest's [compaction] and [prune], as the compactor uses them.

    Tokens unless it says otherwise. *order* are the rungs that are tried, best
    first; *cooldown* is in seconds. *prune* None leaves tool output alone.
    *keep_recent_tokens* takes the place of *retained_tokens* where the rung is
    one of BY_CALLS; *seconds* is the time these and "native" have in all.
    """

    enabled: bool = True
    order: tuple[Mode, ...] = ("worker", "summarize", "mechanical")
    retained_tokens: int = 8_000
    directive_budget: int = 4_000
    min_gain: float = 0.1
    default_references: int = 5
    max_failures: int = 3
    cooldown: float = 600.0
    worker: Budgets = Budgets()
    prune: PruneLimits | None = PruneLimits()
    keep_recent_tokens: int = 20_000
    reserve_tokens: int = 16_384
    seconds: float = 300.0
    short_summary: bool = False
    remote_endpoint: str | None = None

    def within(self, room: int) -> "Settings":
        """Return the settings with smaller budgets, where all of them exceed *room*.

        *room* is what a compacted context may have besides the system prompt
        and the tools.
        """
        worker = self.worker
        wanted = self.retained_tokens + self.directive_budget
        wanted += worker.auto_read + worker.summary_cap
        if wanted < room:
            return self
        share = max(room, 0) / (wanted + 1)
        return replace(
            self,
            retained_tokens=int(self.retained_tokens * share),
            directive_budget=int(self.directive_budget * share),
            worker=replace(
                worker,
                auto_read=int(worker.auto_read * share),
                summary_target=int(worker.summary_target * share),
                summary_cap=int(worker.summary_cap * share),
            ),
        )
