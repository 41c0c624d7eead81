"""Compactions in words: one line each, or the whole receipt."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from pod.cli.failing import UsageError
from pod.entries import (
    AnyEntry,
    AutoRead,
    BreakerChange,
    Clip,
    Compaction,
    CompactionFailed,
    CompactionStart,
    Prune,
    Receipt,
)
from pod.events import NavigateStart
from tools.text import clean, counted, one_line, short_line

WIDTH = 200
"""Characters of a message or a quotation that are shown."""


class Told(Struct, frozen=True):
    """One compaction as the log tells it; *number* counts all of them from 1.

    *start* is None in a log that lost it, *end* while it is under way.
    """

    number: int
    start: CompactionStart | None
    end: Compaction | CompactionFailed | None


def compactions(entries: Iterable[AnyEntry]) -> dict[str, Told]:
    """Return the compactions of a log by their id, in the order they began.

    Failed ones are among them, and those on branches that were left.
    """
    found: dict[str, Told] = {}
    for entry in entries:
        if not isinstance(entry, CompactionStart | Compaction | CompactionFailed):
            continue
        id = entry.compaction_id
        told = found.get(id) or Told(len(found) + 1, None, None)
        if isinstance(entry, CompactionStart):
            found[id] = Told(told.number, entry, told.end)
        else:
            found[id] = Told(told.number, told.start, entry)
    return found


def chosen(told: Sequence[Told], number: int, session: str) -> Told:
    """Return the compaction with this number. Raises UsageError."""
    if 1 <= number <= len(told):
        return told[number - 1]
    there = f"it has {len(told)}, counted from 1" if told else "it has none"
    raise UsageError(f"--compaction {number}: no such compaction in {session}: {there}")


def start_line(entry: CompactionStart) -> str:
    limit = "" if entry.threshold is None else f" of {entry.threshold:,}"
    return f"compacting ({entry.reason}): {entry.tokens_before:,} tokens{limit}"


def done_line(entry: Compaction) -> str:
    """Return a receipt in one line."""
    receipt = entry.receipt
    if _is_imported(entry):
        return f"{_size(entry)}, by another agent"
    parts = [
        f"{counted(receipt.summarised_items, 'item')} summarised",
        f"{receipt.kept_items} kept",
        f"summary of {receipt.summary_tokens:,} by {_maker(entry)}",
        f"directives of {receipt.directive_tokens:,}",
    ]
    if entry.mode == "worker":
        marks = counted(len(entry.auto_read), "mark")
        parts += [f"{marks} of {receipt.auto_read_tokens:,}"]
    if entry.references:
        parts += [counted(len(entry.references), "reference")]
    if entry.mode == "worker" or receipt.worker_requests:
        requests = counted(receipt.worker_requests, "request")
        parts += [f"{requests}, {_cost(entry.cost_usd)}"]
    if receipt.dropped_quotes:
        parts += [f"{counted(len(receipt.dropped_quotes), 'quote')} dropped"]
    return (
        f"{entry.tokens_before:,} to {entry.tokens_after:,} tokens ({_percent(entry)}):"
        f" {', '.join(parts)}, {entry.seconds:.1f} s"
    )


def failed_line(entry: CompactionFailed) -> str:
    """Return in a line that a compaction came to nothing, without its message."""
    failures = entry.consecutive_failures
    row = f"; {_failures(failures)}" if failures else ""
    is_open = "; it is left alone for now" if entry.breaker_open else ""
    return f"{entry.code}; the history is as it was{row}{is_open}"


def prune_line(entry: Prune) -> str:
    results = counted(len(entry.entries), "result")
    return f"{results} left out, {entry.saved:,} tokens saved"


def branch_size(event: NavigateStart) -> str:
    """Return how much is left behind, in words."""
    entries = "1 entry" if event.entries == 1 else f"{event.entries:,} entries"
    return f"the branch that is left ({entries})"


def event_line(entry: AnyEntry, told: dict[str, Told]) -> str:
    """Return the line of ``session show`` for what has to do with compactions."""
    match entry:
        case CompactionStart():
            of = told[entry.compaction_id]
            return "" if of.end else f"compaction {of.number}: {start_line(entry)}"
        case Compaction():
            number = told[entry.compaction_id].number
            return f"compaction {number} ({entry.reason}): {done_line(entry)}"
        case CompactionFailed():
            number = told[entry.compaction_id].number
            said = short_line(entry.message, WIDTH)
            return f"compaction {number} failed: {failed_line(entry)}: {said}"
        case Prune():
            return f"pruned: {prune_line(entry)}"
        case Clip():
            return f"clipped: entry {entry.entry} to {len(entry.text):,} characters"
        case BreakerChange():
            return f"breaker of {entry.mode}: {_breaker(entry)}"
        case _:
            return ""


def receipt_lines(told: Told, of: int, *, with_summary: bool = True) -> Iterator[str]:
    """Give the whole receipt of one compaction; *of* is how many there are."""
    head = f"compaction {told.number} of {of}"
    start, end = told.start, told.end
    if end is None:
        yield f"{head}: under way"
    else:
        how = "done" if isinstance(end, Compaction) else "failed"
        yield f"{head}: {how}, {end.at}"
    if start is not None:
        limit = "" if start.threshold is None else f", the limit is {start.threshold:,}"
        yield _row("why", f"{start.reason}: {start.tokens_before:,} tokens{limit}")
    match end:
        case Compaction():
            yield from _done(end)
            yield from _attempts(end.receipt.attempts)
            if with_summary:
                yield ""
                yield clean(end.summary).text.rstrip("\n")
        case CompactionFailed():
            yield _row("failed", f"{end.code}: {clean(end.message).text}")
            again = "; trying again may help" if end.retryable else ""
            yield _row("history", f"as it was{again}")
            is_open = "; it is left alone for now" if end.breaker_open else ""
            yield _row("breaker", f"{_failures(end.consecutive_failures)}{is_open}")
            yield _row("used", _used(end))
            yield from _attempts(end.attempts)
        case None:
            pass


def _done(entry: Compaction) -> Iterator[str]:
    receipt = entry.receipt
    if _is_imported(entry):
        yield _row("mode", "another agent's, before the import")
        yield _row("tokens", _size(entry))
        return
    saved = entry.tokens_before - entry.tokens_after
    yield _row("mode", _mode(entry))
    if entry.short_summary:
        yield _row("title", short_line(entry.short_summary, WIDTH))
    yield _row(
        "tokens",
        f"{entry.tokens_before:,} before, {entry.tokens_after:,} after:"
        f" {saved:,} saved ({_percent(entry)})",
    )
    yield _sized(
        "summarised", receipt.summarised_items, "item", receipt.summarised_tokens
    )
    if prefix := receipt.turn_prefix_items:
        yield _row("", f"{prefix} of them begin the turn that is kept in part")
    yield _sized("kept", receipt.kept_items, "item", receipt.kept_tokens)
    if lost := len(entry.dropped_reasoning):
        yield _row(
            "", f"{counted(lost, 'reasoning block')} of the loop is not shown any more"
        )
    yield _row("summary", f"{receipt.summary_tokens:,} tokens")
    yield _sized(
        "directives", len(entry.directives), "message", receipt.directive_tokens
    )
    if clipped := sum(directive.clipped for directive in entry.directives):
        yield _row("", f"{clipped} clipped: the whole is in the log")
    yield _sized("marks", len(entry.auto_read), "mark", receipt.auto_read_tokens)
    for file in entry.auto_read:
        yield _row("", f"{_place(file)}  {file.tokens:,} tokens")
    for path in receipt.vanished_marks:
        yield _row("", f"{one_line(path)}  gone or too large by now: a reference")
    yield _sized("references", len(entry.references), "file", receipt.reference_tokens)
    for reference in entry.references:
        yield _row("", f"{one_line(reference.path)}  {one_line(reference.use)}")
    if dropped := receipt.dropped_quotes:
        yield _row("quotes", f"{len(dropped)} dropped: nobody said that")
        yield from (_row("", f"“{short_line(quote, WIDTH)}”") for quote in dropped)
    if entry.mode == "worker" or receipt.worker_requests:
        requests = counted(receipt.worker_requests, "request")
        has_worker = any(a.startswith("worker: ") for a in receipt.attempts)
        yield _row(
            "worker" if has_worker else "asked",
            f"{requests}, {receipt.worker_input_tokens:,} tokens of input",
        )
    yield _row("used", _used(entry))


def _is_imported(entry: Compaction) -> bool:
    """Whether another agent made it: then nothing is known but what its file says."""
    return entry.receipt == Receipt()


def _size(entry: Compaction) -> str:
    """Return how large the context was, and became where that is known."""
    before = f"{entry.tokens_before:,}"
    if not entry.tokens_after:
        return f"{before} tokens before, after it not known"
    return f"{before} to {entry.tokens_after:,} tokens ({_percent(entry)})"


def _maker(entry: Compaction) -> str:
    return "a hook" if entry.from_hook else entry.mode


def _mode(entry: Compaction) -> str:
    if entry.from_hook:
        return f"a hook, in place of {entry.mode}"
    model = entry.receipt.model
    return f"{entry.mode}, {one_line(model)}" if model else entry.mode


def _used(entry: Compaction | CompactionFailed) -> str:
    """Return what all attempts used together."""
    usage = entry.usage
    tokens = f"{usage.prompt:,} tokens in ({usage.cache_read:,} cached)"
    return f"{tokens}, {usage.output:,} out, {_cost(entry.cost_usd)}, {entry.seconds:.1f} s"


def _attempts(attempts: Sequence[str]) -> Iterator[str]:
    for number, attempt in enumerate(attempts):
        yield _row("" if number else "attempts", short_line(attempt, WIDTH))


def _row(name: str, text: str) -> str:
    return f"{name:10} {text}".rstrip()


def _sized(name: str, number: int, noun: str, tokens: int) -> str:
    return _row(name, f"{counted(number, noun)}, {tokens:,} tokens")


def _place(file: AutoRead) -> str:
    lines = "" if file.start is None else f":{file.start}-{file.end or file.start}"
    return one_line(file.path) + lines


def _percent(entry: Compaction) -> str:
    gone = entry.tokens_before - entry.tokens_after
    return f"{-100 * gone / max(entry.tokens_before, 1):+.0f} %"


def _cost(cost: float | None) -> str:
    return "price unknown" if cost is None else f"${cost:.4f}"


def _failures(number: int) -> str:
    return f"{counted(number, 'failure')} in a row"


def _breaker(entry: BreakerChange) -> str:
    if entry.opened_at is not None:
        return f"open since {entry.opened_at}, {_failures(entry.failures)}"
    return f"closed, {_failures(entry.failures)}"
