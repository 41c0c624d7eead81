"""Compactions that come one on the heels of the other: noticed, and put into words."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from pod.entries import AnyEntry, Compaction, CompactionStart, UsageEntry

FEW_RESPONSES = 2
"""Over the limit again before so many responses is too soon."""

MOST_IN_A_ROW = 2
"""Too soon so often in a row is thrash."""

FORCED = ("mid_turn", "overflow")
"""Reasons of a compaction without which the run cannot go on."""


class Thrash(Struct, frozen=True):
    """Counts the responses between compactions.

    *responses* came since the last compaction, None where there was none.
    *in_a_row* is how often in a row the limit was passed too soon after one.
    """

    responses: int | None = None
    in_a_row: int = 0

    def compacted(self) -> "Thrash":
        return replace(self, responses=0)

    def responded(self) -> "Thrash":
        return (
            self
            if self.responses is None
            else replace(self, responses=self.responses + 1)
        )

    def over_limit(self) -> "Thrash":
        """Return it after the limit was passed, with the run under way."""
        soon = self.responses is not None and self.responses < FEW_RESPONSES
        return replace(self, in_a_row=self.in_a_row + 1 if soon else 0)

    def after(self, entry: AnyEntry) -> "Thrash":
        """Return it as this entry of the log leaves it."""
        if isinstance(entry, CompactionStart) and entry.reason in FORCED:
            return self.over_limit()
        if isinstance(entry, Compaction):
            return self.compacted()
        if isinstance(entry, UsageEntry) and entry.response:
            return self.responded()
        return self

    @property
    def is_thrash(self) -> bool:
        """Whether compacting once more would only go on like this."""
        return self.in_a_row >= MOST_IN_A_ROW


def thrash_of(path: Iterable[AnyEntry]) -> Thrash:
    """Return how it stands after the entries of a path."""
    thrash = Thrash()
    for entry in path:
        thrash = thrash.after(entry)
    return thrash


class Sizes(Struct, frozen=True):
    """The parts of a request, in tokens."""

    system: int = 0
    tools: int = 0
    summary: int = 0
    directives: int = 0
    auto_read: int = 0
    references: int = 0
    kept: int = 0

    @property
    def total(self) -> int:
        return (
            self.system
            + self.tools
            + self.summary
            + self.directives
            + self.auto_read
            + self.references
            + self.kept
        )


def too_large_message(sizes: Sizes, limit: int) -> str:
    """Return what a person needs to know when the context cannot be made smaller."""
    parts = (
        ("system prompt", sizes.system),
        ("tools", sizes.tools),
        ("summary", sizes.summary),
        ("user directives", sizes.directives),
        ("auto-read files", sizes.auto_read),
        ("references", sizes.references),
        ("kept history", sizes.kept),
    )
    largest = max(parts, key=lambda part: part[1])[0]
    listed = "; ".join(f"{name} {tokens:,}" for name, tokens in parts if tokens)
    return (
        f"the context cannot be made smaller than {sizes.total:,} tokens, and the limit"
        f" is {limit:,}. Its parts: {listed}."
        f" The largest is the {largest}: {_ADVICE[largest]}"
    )


_ADVICE = {
    "system prompt": "shorten [prompt], or raise compact_threshold or the window.",
    "tools": "leave tools out in [tools], or raise compact_threshold or the window.",
    "summary": "lower [compaction] summary_cap.",
    "user directives": "lower [compaction] directive_budget.",
    "auto-read files": "lower [compaction] auto_read_budget.",
    "references": "lower [compaction] default_references.",
    "kept history": "lower [compaction] retained_tokens or [tools] max_output_tokens.",
}
