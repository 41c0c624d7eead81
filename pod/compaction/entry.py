"""The log entry of a compaction, with its receipt."""

from collections.abc import Callable, Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from pod.compaction.framing import references_text
from pod.compaction.ground import Ground
from pod.compaction.summary import Summary
from pod.entries import Compaction, Reason, Receipt
from worker.limits import Spent


class Facts(Struct, frozen=True):
    """What an entry tells besides the summary.

    *seconds* is since it began, *kept_data* the JSON text that a hook wants kept.
    """

    compaction_id: str
    reason: Reason
    leaf: str
    tokens_before: int
    spent: Spent
    input_tokens: int
    attempts: Sequence[str]
    seconds: float
    kept_data: str


def entry_of(
    summary: Summary, start: Ground, facts: Facts, count: Callable[[str], int]
) -> Compaction:
    """Return the entry that *summary* makes. Its *tokens_after* is not filled in."""
    cut, spent = start.cut, facts.spent
    made_by = "hook" if summary.from_hook else summary.mode
    references = summary.references
    receipt = Receipt(
        summarised_items=cut.index,
        summarised_tokens=cut.summarised_tokens,
        kept_items=len(start.window.shown) - cut.index - len(cut.dropped_reasoning),
        kept_tokens=cut.kept_tokens,
        summary_tokens=count(summary.text),
        directive_tokens=start.directive_tokens,
        auto_read_tokens=sum(file.tokens for file in summary.auto_read),
        reference_tokens=count(references_text(references)) if references else 0,
        dropped_quotes=summary.dropped_quotes,
        vanished_marks=summary.vanished,
        worker_requests=spent.requests,
        worker_input_tokens=facts.input_tokens,
        attempts=(*facts.attempts, f"{made_by}: used"),
        turn_prefix_items=len(start.turn_prefix) if summary.is_split else 0,
        model=summary.model,
    )
    return Compaction(
        compaction_id=facts.compaction_id,
        reason=facts.reason,
        mode=summary.mode,
        summary=summary.text,
        short_summary=summary.short,
        preserve_data=summary.preserve_data or facts.kept_data,
        from_hook=summary.from_hook,
        first_kept=cut.first_kept,
        compacted_from=facts.leaf,
        dropped_reasoning=cut.dropped_reasoning,
        tokens_before=facts.tokens_before,
        tokens_after=0,
        directives=start.directives,
        auto_read=summary.auto_read,
        references=references,
        details=summary.details or start.details,
        usage=spent.usage,
        cost_usd=dollars(spent.cost),
        seconds=facts.seconds,
        receipt=receipt,
    )


def with_tokens(entry: Compaction, tokens_after: int) -> Compaction:
    return replace(entry, tokens_after=tokens_after)


def dollars(cost: Decimal | None) -> float | None:
    return None if cost is None else float(cost)
