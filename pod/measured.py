"""What a session's log knows of its tokens: pure functions of the path."""

from collections.abc import Iterable, Iterator, Sequence

from pod.entries import (
    AnyEntry,
    Clip,
    Compaction,
    ModelChange,
    PromptChange,
    Prune,
    RunStart,
    UsageEntry,
)
from pod.view import View
from worker.calibration import Calibration, Measurement, relearn
from worker.items import Item


def calibration_of(model: str, path: Iterable[AnyEntry]) -> Calibration:
    """Return the calibration that the answers of *model* on *path* have led to."""
    return relearn(
        model,
        (
            None
            if usage is None
            else Measurement(usage.estimate, usage.context_tokens, usage.usage)
            for _, usage in _usages(model, path)
        ),
    )


def last_measured(
    model: str, path: Sequence[AnyEntry]
) -> tuple[int, list[Item]] | None:
    """Return what the context held after the last answer, and the items it had.

    In tokens, as *model*'s provider counted them. None where that is not known,
    or not true any more: after a compaction, a prune, a clip, another system
    prompt or another model.
    """
    last: tuple[int, int] | None = None
    for at, usage in _usages(model, path):
        if usage is None:
            last = None
        elif usage.context_tokens is not None:
            last = usage.context_tokens, at
    if last is None:
        return None
    tokens, at = last
    return tokens, View(path[: at + 1]).items


def _usages(
    model: str, path: Iterable[AnyEntry]
) -> Iterator[tuple[int, UsageEntry | None]]:
    """Give the usages of *model* and where they are; None where they become void."""
    current = model
    for at, entry in enumerate(path):
        if isinstance(entry, RunStart | ModelChange):
            if entry.model != current:
                yield at, None
            current = entry.model
        elif isinstance(entry, Compaction | Prune | Clip | PromptChange):
            yield at, None
        elif isinstance(entry, UsageEntry) and current == model:
            yield at, entry
