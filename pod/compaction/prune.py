"""Whether old tool output is left out of the view, and which.

Prices are relative to an uncached input token: reading it from the cache costs
0.1, writing it 1.25 (Anthropic's, five-minute cache). A prune changes the prompt
from its first pruned result on, so that all behind is written to the cache again
instead of read: 1.15 a token, once. It saves a cached read of what is gone in each
later request, as many as it takes to fill the room again at the present pace:

    0.1 x saved x (saved / growth)  >=  1.15 x rewritten

With the cache cold the rewrite is due anyway, and every prune pays.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from pod.clock import seconds_between
from pod.entries import AnyEntry, ModelChange, Prune, RunStart, UsageEntry
from pod.view import Shown, pruned
from worker.items import FromModel, Item, ToolCall, ToolResult
from worker.wire import Cache

PROTECTED_TOOLS = frozenset({"read_file", "skill"})
"""Their results are what the model works from."""

LEAST = 50
"""Tokens; a smaller result is not worth a note."""

READ = 0.1
WRITE = 1.25


SECONDS = {"5m": 300.0, "1h": 3600.0}
"""How long the provider keeps a prompt after it was last used, by the cache's ttl."""


def is_cache_cold(
    path: Sequence[AnyEntry], *, model: str, cache: Cache, now: str
) -> bool:
    """Whether the provider has nothing cached of a prompt that *path* leads to.

    Caching is off, or the last answer is longer ago than the cache is kept, or
    another model gave it. *now* is an RFC 3339 time, as entries have them. Where
    no answer is in *path*, or its time cannot be read, nothing is known: not cold.
    """
    if not cache.enabled:
        return True
    last: UsageEntry | None = None
    for entry in reversed(path):
        if isinstance(entry, UsageEntry) and entry.response and last is None:
            last = entry
        elif isinstance(entry, RunStart | ModelChange) and last is not None:
            # What an answer calls its model may be another name of the same.
            if entry.model != model:
                return True
            break
    waited = None if last is None else seconds_between(last.at, now)
    return waited is not None and waited >= SECONDS[cache.ttl]


class PruneLimits(Struct, frozen=True):
    """Tokens of the newest tool output that stay, and the least worth pruning."""

    protect_tokens: int = 40_000
    min_savings: int = 20_000


def find_prune(
    shown: Sequence[Shown],
    *,
    limits: PruneLimits,
    count: Callable[[Item], int],
    is_cold: bool,
    growth: float,
) -> Prune | None:
    """Return the prune that is worth it, None if none is.

    *is_cold* tells that the provider's cache has nothing of this prompt: it
    expired, the model was changed, or caching is off. *growth* is by how many
    tokens the context grows with each request.
    """
    entries: list[str] = []
    tokens: list[int] = []
    saved = 0
    first = len(shown)
    for at, size in _old_outputs(shown, limits, count):
        gain = size - count(pruned(shown[at].item, size))
        if gain > 0:
            entries.insert(0, shown[at].entry)
            tokens.insert(0, size)
            saved += gain
            first = at
    if saved < limits.min_savings:
        return None
    if not is_cold:
        rewritten = sum(count(one.item) for one in shown[first:]) - saved
        if not pays(saved=saved, rewritten=rewritten, growth=growth):
            return None
    return Prune(entries=tuple(entries), tokens=tuple(tokens), saved=saved)


def pays(*, saved: int, rewritten: int, growth: float) -> bool:
    """Whether pruning beats leaving a warm cache alone; see this module's text."""
    requests = saved / max(growth, 1.0)
    return READ * saved * requests >= (WRITE - READ) * rewritten


def _old_outputs(
    shown: Sequence[Shown], limits: PruneLimits, count: Callable[[Item], int]
) -> Iterator[tuple[int, int]]:
    """Give index and tokens of the results that may be pruned, newest first."""
    names = {
        one.item.call_id: one.item.name
        for one in shown
        if isinstance(one.item, ToolCall)
    }
    newer = 0
    is_answered = False
    for at in range(len(shown) - 1, -1, -1):
        item = shown[at].item
        # What the model has not answered yet it has not seen yet.
        is_answered = is_answered or isinstance(item, FromModel)
        if not isinstance(item, ToolResult):
            continue
        size = count(item)
        is_old = is_answered and newer >= limits.protect_tokens
        newer += size
        if not is_old or size < LEAST or _is_pruned(item):
            continue
        if names.get(item.call_id) not in PROTECTED_TOOLS:
            yield at, size


def _is_pruned(item: ToolResult) -> bool:
    content = item.content or ""
    return content.startswith("[Output truncated - ") and content.endswith(" tokens]")
