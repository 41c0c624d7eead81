"""What the compactions of an imported session keep: checked against their paths."""

from array import array
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

    Takes time in proportion to the steps and to what is dropped, however many
    compactions keep the same.
    """
    found: dict[int, Kept] = {}
    latest = array("q", [-1]) * (len(steps) + 1)
    paths: _Paths | None = None
    for at, step in enumerate(steps):
        latest[at] = latest[step.parent]
        if isinstance(step, PlainStep) and step.outline.kind == "compacted":
            paths = paths or _Paths(steps)
            before = found.get(latest[at])
            found[at] = _kept(paths, at, step, before, latest[at], start_of, tally)
            latest[at] = at
    return found


def _kept(
    paths: "_Paths",
    at: int,
    step: PlainStep,
    before: Kept | None,
    compaction: int,
    start_of: Callable[[str], int | None],
    tally: Tally,
) -> Kept:
    if not step.outline.target:
        return Kept(None)
    leaf, stop = step.parent, -1
    if before is not None:
        stop = compaction if before.first is None else before.first
    first = start_of(step.outline.target)
    if first == at:
        return Kept(None)  # how an export says that nothing is kept
    if first is None or leaf < 0 or not paths.has(leaf, first, since=stop):
        if first is None or before is None or first >= stop or leaf < 0:
            tally.lose(NOT_KEPT)
            return Kept(None)
        tally.lose(CLAMPED)
        first = stop
    first = paths.first_said(leaf, first)
    if first is None:
        return Kept(None)
    dropped = paths.cut_loop(leaf, first)
    if dropped:
        tally.lose(CUT_LOOPS)
    return Kept(first, dropped)


class _Paths:
    """Finds steps on the paths to the root without walking them.

    Counted along each path: the steps, those that come to an entry, those at
    which a tool loop ends. A count only grows on the way down, so the step where
    it reaches a number is found by halving: each step knows its parent and one
    step further up (skew-binary jumps), the last element stands for the root.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        zeros = array("q", [0]) * (len(steps) + 1)
        self._jump = array("q", [-1]) * (len(steps) + 1)
        self._depth, self._said, self._ends = zeros[:], zeros[:], zeros[:]
        self._loop = array("b", [_NO_LOOP]) * (len(steps) + 1)
        """What loop is open behind each step."""
        joined = array("b", [True]) * (len(steps) + 1)
        """Whether an answer behind the step belongs to the loop before it."""
        for at, step in enumerate(steps):
            up = step.parent
            self._depth[at] = self._depth[up] + 1
            self._said[at] = self._said[up] + (not _is_silent(step))
            self._jump[at] = self._jump_from(up)
            ends, self._loop[at], joined[at] = _loop_behind(
                step, self._loop[up], is_joined=bool(joined[up])
            )
            self._ends[at] = self._ends[up] + ends

    def _jump_from(self, up: int) -> int:
        near = self._jump[up]
        far = self._jump[near]
        depth = self._depth
        return far if depth[up] - depth[near] == depth[near] - depth[far] else up

    def _reaching(self, leaf: int, counts: "array[int]", least: int) -> int:
        """Return the first step on the path to *leaf* with a count of *least*."""
        at = leaf
        while counts[up := self._steps[at].parent] >= least:
            jump = self._jump[at]
            at = jump if counts[jump] >= least else up
        return at

    def has(self, leaf: int, at: int, *, since: int) -> bool:
        """Whether *at* is on the path to *leaf*, and not before the step *since*."""
        depth = self._depth[at]
        is_within = max(self._depth[since], 1) <= depth <= self._depth[leaf]
        return is_within and self._reaching(leaf, self._depth, depth) == at

    def first_said(self, leaf: int, at: int) -> int | None:
        """Return the first step from *at* to *leaf* that comes to an entry."""
        least = self._said[self._steps[at].parent] + 1
        if self._said[leaf] < least:
            return None
        return self._reaching(leaf, self._said, least)

    def cut_loop(self, leaf: int, first: int) -> tuple[int, ...]:
        """Return the answers whose reasoning a cut at *first* takes from its loop."""
        up = self._steps[first].parent
        if self._loop[up] == _NO_LOOP:
            return ()
        at, least = leaf, self._ends[up] + 1
        if self._ends[leaf] >= least:
            at = self._steps[self._reaching(leaf, self._ends, least)].parent
        loop: list[int] = []
        signed = self._loop[up] == _SIGNED
        while at != up:
            step = self._steps[at]
            if isinstance(step, AnswerStep):
                loop.append(at)
                signed = signed or step.signed
            at = step.parent
        return tuple(reversed(loop)) if signed else ()


_NO_LOOP, _UNSIGNED, _SIGNED = 0, 1, 2
"""Whether a tool loop is open, and has reasoning that the provider can verify."""


def _loop_behind(step: Step, before: int, *, is_joined: bool) -> tuple[bool, int, bool]:
    """Return whether *step* ends the loop *before* it; which is open, and joined, behind it."""
    match step:
        case ResultStep():
            return False, max(before, _UNSIGNED), True
        case AnswerStep() as answer:
            calls = bool(answer.call_ids)
            loop = max(before, _SIGNED if answer.signed else _UNSIGNED)
            return not is_joined, loop if calls else _NO_LOOP, calls
        case PlainStep(outline=one):
            if one.kind in _TURNS and not one.blank:
                return True, _NO_LOOP, is_joined
            return False, before, is_joined


def _is_silent(step: Step) -> bool:
    return isinstance(step, PlainStep) and step.outline.is_silent
