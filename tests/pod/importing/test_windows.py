"""What compactions keep: the same as walking each path gives, in linear time."""

import time
from collections.abc import Callable, Sequence

from hypothesis import given, settings, strategies as st

from pod.importing.outline import Call, Kind, Outline
from pod.importing.records import Where
from pod.importing.steps import AnswerStep, PlainStep, ResultStep, Step
from pod.importing.tally import Tally
from pod.importing.windows import Kept, kept_parts

CALL = Call("c", "read")
KINDS: tuple[Kind, ...] = ("user", "told", "quiet", "result")


def plain(
    parent: int, kind: Kind, *, target: str = "", silent: bool = False
) -> PlainStep:
    outline = Outline(
        Where(0, 0, 0), kind, "", None, False, False, target=target, is_silent=silent
    )
    return PlainStep(parent, outline)


@st.composite
def trees(draw: st.DrawFn) -> list[Step]:
    """Return steps that hang from any step before them, mostly from the last."""
    steps: list[Step] = []
    for at in range(draw(st.integers(1, 30))):
        last = at - 1
        parent = draw(st.sampled_from([last, last, last, max(last - 3, -1), -1]))
        match draw(st.integers(0, 5)):
            case 0 | 1:
                ids = ("c",) * draw(st.integers(0, 1))
                steps.append(AnswerStep(parent, (), ids, "", draw(st.booleans())))
            case 2:
                steps.append(ResultStep(parent, "c", CALL, None))
            case 3:
                kind = draw(st.sampled_from(KINDS))
                silent = kind == "quiet" and draw(st.booleans())
                steps.append(plain(parent, kind, silent=silent))
            case _:
                target = str(draw(st.integers(0, at + 1)))
                steps.append(plain(parent, "compacted", target=target))
    return steps


@settings(max_examples=300, deadline=None)
@given(steps=trees())
def test_a_compaction_keeps_what_walking_its_path_gives(steps: list[Step]) -> None:
    found = kept_parts(steps, step_of(steps), Tally())

    assert found == walked(steps)


def step_of(steps: Sequence[Step]) -> Callable[[str], int | None]:
    """Return what finds the step that a compaction names: by its number here."""
    return lambda id: int(id) if int(id) < len(steps) else None


def walked(steps: Sequence[Step]) -> dict[int, Kept]:
    """Return what each compaction keeps, by walking all of its path."""
    found: dict[int, Kept] = {}
    for at, step in enumerate(steps):
        if not (isinstance(step, PlainStep) and step.outline.kind == "compacted"):
            continue
        path = path_to(steps, step.parent)
        earlier = [one for one in path if one in found]
        window = path
        if earlier:
            first = found[earlier[-1]].first
            window = path[path.index(earlier[-1] if first is None else first) :]
        named = int(step.outline.target)
        if named not in window and earlier and window and named < window[0]:
            named = window[0]  # it was replaced before: all of the window
        kept = window[window.index(named) :] if named in window else []
        said = [one for one in kept if not is_silent(steps[one])]
        first = said[0] if said else None
        found[at] = Kept(first, () if first is None else dropped(steps, path, first))
    return found


def path_to(steps: Sequence[Step], leaf: int) -> list[int]:
    path: list[int] = []
    while leaf >= 0:
        path.append(leaf)
        leaf = steps[leaf].parent
    return path[::-1]


def is_silent(step: Step) -> bool:
    return isinstance(step, PlainStep) and step.outline.is_silent


def dropped(steps: Sequence[Step], path: list[int], first: int) -> tuple[int, ...]:
    """Return the answers of the loop that *first* lies in the middle of."""
    cut = path.index(first)
    is_open = signed = False
    for step in reversed([steps[at] for at in path[:cut]]):
        if ends_a_turn(step) or (isinstance(step, AnswerStep) and not step.call_ids):
            break
        is_open = is_open or not isinstance(step, PlainStep)
        signed = signed or (isinstance(step, AnswerStep) and step.signed)
    loop: list[int] = []
    goes_on = is_open
    for at in path[cut:]:
        step = steps[at]
        if ends_a_turn(step) or (isinstance(step, AnswerStep) and not goes_on):
            break
        if isinstance(step, AnswerStep):
            loop.append(at)
            signed = signed or step.signed
            goes_on = bool(step.call_ids)
        goes_on = goes_on or isinstance(step, ResultStep)
    return tuple(loop) if is_open and signed else ()


def ends_a_turn(step: Step) -> bool:
    return isinstance(step, PlainStep) and step.outline.kind in {"user", "result"}


def seconds_of(count: int) -> float:
    """Return the CPU time for so many compactions that all keep the first message."""
    steps: list[Step] = [plain(-1, "user")]
    steps += [plain(at, "compacted", target="0") for at in range(count)]
    started = time.process_time()
    kept = kept_parts(steps, step_of(steps), Tally())
    spent = time.process_time() - started
    assert set(kept.values()) == {Kept(0)}
    return spent


def test_many_compactions_that_keep_the_same_take_linear_time() -> None:
    few, many = seconds_of(1_000), seconds_of(16_000)

    assert many < 50 * few  # the square would be 256 times as much
