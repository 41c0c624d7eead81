"""What is on the disk after a crash: pure functions of a trace and a moment in it."""

from collections.abc import Sequence
from random import Random

from msgspec import Struct

from tests.soak.traced import Cut, Effect, Op, Synced, Told, Wrote


class Image(Struct, frozen=True):
    """A log as a crash left it, and the entries (seq to id) that must be in it."""

    data: bytes
    acknowledged: dict[int, str]


def moments(trace: Sequence[Op]) -> list[int]:
    """Return the places of a trace before which a kill makes a difference."""
    return [at for at, op in enumerate(trace) if isinstance(op, Wrote | Cut)]


def killed(before: bytes, trace: Sequence[Op], at: int, random: Random) -> Image:
    """The process dies while step *at* is under way: a write stops anywhere in it.

    What was written stays, since the system lives on.
    """
    log = bytearray(before)
    acknowledged: dict[int, str] = {}
    for op in trace[:at]:
        match op:
            case Wrote(data):
                log += data
            case Cut(size):
                del log[size:]
            case Told(seq, id):
                acknowledged[seq] = id
            case Synced() | Effect():
                pass
    match trace[at]:
        case Wrote(data):
            log += data[: random.randint(0, len(data))]
        case Cut() | Synced() | Told() | Effect():
            pass
    return Image(bytes(log), acknowledged)


def powerless(before: bytes, trace: Sequence[Op], at: int, random: Random) -> Image:
    """The power fails: of what was not synced any part is there, or it is NULs.

    What was told before a sync that covers it, or before an effect, must be there.
    """
    log = bytearray(before)
    safe = len(before)
    told: list[tuple[int, Told]] = []
    binding = 0
    for op in trace[:at]:
        match op:
            case Wrote(data):
                log += data
            case Cut(size):
                del log[size:]
                safe = min(safe, size)
            case Synced(size):
                safe = max(safe, size)
                binding = len(told)
            case Told():
                told.append((len(log), op))
            case Effect():
                binding = len(told)
    kept = random.randint(safe, len(log))
    data = bytes(log[:kept])
    if random.random() < 0.5:
        data += bytes(random.randint(0, len(log) - kept))
    acknowledged = {
        op.seq: op.id
        for number, (end, op) in enumerate(told)
        if end <= safe or number < binding
    }
    return Image(data, acknowledged)
