"""Whether a compaction may begin at all, and by which rungs. No model is asked."""

from collections.abc import Sequence

from msgspec import Struct

from pod.compaction.breaker import Refusal
from pod.compaction.ground import Ground
from pod.compaction.thrash import Sizes, too_large_message
from pod.entries import Mode

LEAST_SUMMARY = 100
"""Tokens; the headings alone have 50."""


class Admission(Struct, frozen=True):
    """It may begin with these *rungs*; *left_out* says which were not, and why."""

    rungs: tuple[Mode, ...]
    left_out: tuple[str, ...]


class Refused(Struct, frozen=True):
    """It must not begin: *reason* for programs, *message* for people."""

    reason: str
    message: str


def admit(
    start: Ground,
    rungs: Sequence[Mode],
    *,
    low_water: int | None,
    refusal: Refusal | None,
) -> Admission | Refused:
    """Decide on a compaction from *start*.

    *refusal* is why the breaker does not let the compact worker be asked. Where
    the floor under the context reaches *low_water* no summary could help.
    """
    if low_water is not None and start.floor + LEAST_SUMMARY >= low_water:
        return Refused("floor", _floor_message(start, low_water))
    if not start.cut.index:  # only clips make room; there is nothing to read
        return Admission(("mechanical",), ())
    if refusal is None or "worker" not in rungs:
        return Admission(tuple(rungs), ())
    reason = "breaker_open" if refusal == "open" else refusal
    why = _WHY[refusal]
    left = tuple(mode for mode in rungs if mode != "worker")
    if not left:
        return Refused(reason, f"{why}. {_ADVICE[refusal]}")
    return Admission(left, (f"worker: {reason}: {why}",))


_WHY: dict[Refusal, str] = {
    "open": "the circuit breaker is open: compact workers failed too often in a row",
    "same_input": "a compact worker has failed on this very input before",
}

_ADVICE: dict[Refusal, str] = {
    "open": "Compact by hand (pod compact), give new input, or wait for"
    " [compaction] cooldown",
    "same_input": "Compact by hand: pod compact asks one again, pod compact --mode"
    " mechanical takes none",
}


def _floor_message(start: Ground, low_water: int) -> str:
    sizes = Sizes(
        system=start.system,
        tools=start.tools,
        directives=start.directive_tokens,
        kept=start.cut.kept_tokens,
    )
    return too_large_message(sizes, low_water)
