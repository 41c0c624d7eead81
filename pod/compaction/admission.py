"""Whether a compaction may begin at all, and by which rungs. No model is asked."""

from collections.abc import Mapping, Sequence

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
    refusals: Mapping[Mode, Refusal],
) -> Admission | Refused:
    """Decide on a compaction from *start*.

    *refusals* says whom the breakers do not let be asked, and why. Where the
    floor under the context reaches *low_water* no summary could help.
    """
    if low_water is not None and start.floor + LEAST_SUMMARY >= low_water:
        return Refused("floor", _floor_message(start, low_water))
    if not start.cut.index:  # only clips make room; there is nothing to read
        return Admission(("mechanical",), ())
    left = tuple(mode for mode in rungs if mode not in refusals)
    if left:
        out = [mode for mode in rungs if mode in refusals]
        return Admission(
            left,
            tuple(f"{m}: {_reason(refusals[m])}: {_why(m, refusals[m])}" for m in out),
        )
    mode = rungs[0]
    refusal = refusals[mode]
    return Refused(_reason(refusal), f"{_why(mode, refusal)}. {_ADVICE[refusal]}")


def _reason(refusal: Refusal) -> str:
    return "breaker_open" if refusal == "open" else refusal


def _why(mode: Mode, refusal: Refusal) -> str:
    one, many = _WHO[mode]
    if refusal == "open":
        return f"the circuit breaker is open: {many} failed too often in a row"
    return f"{one} has failed on this very input before"


_WHO: dict[Mode, tuple[str, str]] = {
    "worker": ("a compact worker", "compact workers"),
    "summarize": ("a summarising model", "summarising models"),
    "remote": ("the remote endpoint", "the remote endpoint"),
    "native": ("the provider's compaction", "the provider's compaction"),
    "mechanical": ("the summary without a model", "the summary without a model"),
}

_ADVICE: dict[Refusal, str] = {
    "open": "Compact by hand (pod compact), give new input, or wait for"
    " [compaction] cooldown",
    "same_input": "Compact by hand: pod compact asks again, pod compact --mode"
    " mechanical asks nobody",
}


def _floor_message(start: Ground, low_water: int) -> str:
    sizes = Sizes(
        system=start.system,
        tools=start.tools,
        directives=start.directive_tokens,
        kept=start.cut.kept_tokens,
    )
    return too_large_message(sizes, low_water)
