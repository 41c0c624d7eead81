"""What a Pod's compactions keep to."""

from msgspec import Struct

from pod.compaction.prune import PruneLimits
from pod.entries import Mode
from worker.compact.task import Budgets


class Settings(Struct, frozen=True):
    """The manifest's [compaction] and [prune], as the compactor uses them.

    Tokens unless it says otherwise. *order* are the rungs that are tried, best
    first; *cooldown* is in seconds. *prune* None leaves tool output alone.
    """

    enabled: bool = True
    order: tuple[Mode, ...] = ("worker", "mechanical")
    retained_tokens: int = 8_000
    directive_budget: int = 4_000
    min_gain: float = 0.1
    default_references: int = 5
    max_failures: int = 3
    cooldown: float = 600.0
    worker: Budgets = Budgets()
    prune: PruneLimits | None = PruneLimits()
