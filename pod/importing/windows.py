"""What the compactions of an imported session keep: checked against their paths."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from pod.importing.steps import AnswerStep, PlainStep, ResultStep, Step
from pod.importing.tally import Tally

NOT_KEPT = "compactions that keep what is not on their branch: they keep nothing"
CLAMPED = "compactions that keep what an earlier one had replaced: they keep less"
CUT_LOOPS = "compactions inside a tool loop: its reasoning is not shown any more"


_TURNS = ("user", "result")
"""Kinds of messages in the user's place: a result that has no call is one, too."""


class Kept(Struct, frozen=True):
    """What a compaction keeps: from the step *first* on (None: nothing).

    *dropped* are kept answers that lose their reasoning, since the loop they
    belong to was cut.
    """

    first: int | None
    dropped: tuple[int, ...] = ()


def kept_parts(
    steps: Sequence[Step], start_of: Callable[[str], int | None], tally: Tally
) -> dict[int, Kept]:
    """Return what each compaction among *steps* keeps, by its number.

    Walks from each one to the beginning of its window, no further.
    """
    found: dict[int, Kept] = {}
    latest = [-1] * len(steps)
    for at, step in enumerate(steps):
        latest[at] = latest[step.parent] if step.parent >= 0 else -1
        if isinstance(step, PlainStep) and step.outline.kind == "compacted":
            found[at] = _kept(
                steps, at, step, found.get(latest[at]), latest[at], start_of, tally
            )
            latest[at] = at
    return found


def _kept(
    steps: Sequence[Step],
    at: int,
    step: PlainStep,
    before: Kept | None,
    compaction: int,
    start_of: Callable[[str], int | None],
    tally: Tally,
) -> Kept:
    if not step.outline.target:
        return Kept(None)
    stop = -1
    if before is not None:
        stop = compaction if before.first is None else before.first
    first = start_of(step.outline.target)
    path = _path(steps, step.parent, stop)
    if first == at:
        return Kept(None)  # how an export says that nothing is kept
    if first is None or first not in path:
        if first is None or before is None or first >= stop or not path:
            tally.lose(NOT_KEPT)
            return Kept(None)
        tally.lose(CLAMPED)
        first = stop
    kept = [at for at in path[path.index(first) :] if not _is_silent(steps[at])]
    if not kept:
        return Kept(None)
    first = kept[0]
    dropped = _cut_loop(steps, first, kept)
    if dropped:
        tally.lose(CUT_LOOPS)
    return Kept(first, dropped)


def _is_silent(step: Step) -> bool:
    return isinstance(step, PlainStep) and step.outline.is_silent


def _path(steps: Sequence[Step], leaf: int, stop: int) -> list[int]:
    """Return the steps from *stop* (or the root) to *leaf*."""
    path: list[int] = []
    at = leaf
    while at >= 0:
        path.append(at)
        if at == stop:
            break
        at = steps[at].parent
    return path[::-1]


def _cut_loop(
    steps: Sequence[Step], first: int, kept: Sequence[int]
) -> tuple[int, ...]:
    """Return the answers whose reasoning a cut at *first* takes from its loop."""
    earlier = _loop_before(steps, steps[first].parent)
    if earlier is None:
        return ()
    loop: list[int] = []
    signed = earlier
    joined = True
    for at in kept:
        match steps[at]:
            case AnswerStep() as answer:
                if not joined:
                    break
                loop.append(at)
                signed = signed or answer.signed
                joined = bool(answer.call_ids)
            case ResultStep():
                joined = True
            case PlainStep(outline=one):
                if one.kind in _TURNS and not one.blank:
                    break
    return tuple(loop) if signed else ()


def _loop_before(steps: Sequence[Step], at: int) -> bool | None:
    """Say whether the open tool loop that ends at *at* is signed; None: none is open."""
    signed = False
    is_open = False
    while at >= 0:
        match steps[at]:
            case ResultStep():
                is_open = True
            case AnswerStep() as answer:
                if not answer.call_ids:
                    break
                is_open = True
                signed = signed or answer.signed
            case PlainStep(outline=one):
                if one.kind in _TURNS and not one.blank:
                    break
        at = steps[at].parent
    return signed if is_open else None
