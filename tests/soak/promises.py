"""What is promised of every session, whatever happened to it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pod.context import context
from pod.disk import Disk
from pod.entries import (
    AnyEntry,
    Compaction,
    CompactionFailed,
    CompactionStart,
    DeliveredEntry,
    InputEntry,
    ItemEntry,
    RunEnd,
    RunStart,
)
from pod.errors import SessionError
from pod.log import read_log
from pod.session import Session
from pod.view import problems_of_path
from worker.history import faults, unanswered
from worker.items import UserText


def broken(
    path: Path, acknowledged: dict[int, str], disk: Disk | None = None
) -> list[str]:
    """Open a session as the next process does; return the promises it breaks.

    Opened a second time nothing is left to settle.
    """
    try:
        with Session.open(path, disk=disk) as session:
            found = _broken_context(session)
        with Session.open(path) as session:
            if session.recovered:
                found.append(f"settled twice: {session.recovered}")
            found += _broken_context(session)
        entries = read_log(path).entries
    except SessionError as error:
        return [f"does not load: {error}"]
    ids = {entry.seq: entry.id for entry in entries}
    return found + lost(ids, acknowledged) + unended(entries)


def lost(ids: Mapping[int, str], acknowledged: Mapping[int, str]) -> list[str]:
    """Return what was acknowledged and is not in *ids*, or is there as another."""
    return [
        f"lost: entry {seq} ({id}), found {ids.get(seq)}"
        for seq, id in acknowledged.items()
        if ids.get(seq) != id
    ]


def unended(entries: Sequence[AnyEntry]) -> list[str]:
    """Return the runs and compactions that have not exactly one end."""
    begun, ended = _counted(entries)
    return [
        f"{name}: {begun[name]} starts, {ended[name]} ends"
        for name in sorted({*begun, *ended})
        if begun[name] != 1 or ended[name] != 1
    ]


def ended_twice(stream: Sequence[AnyEntry]) -> list[str]:
    """Return what ended more than once in what was told, or without a start.

    Where the log failed, the end may be missing: the next opening writes it.
    """
    begun, ended = _counted(stream)
    return [
        f"in the stream: {name}: {begun[name]} starts, {number} ends"
        for name, number in ended.items()
        if number > 1 or begun[name] != 1
    ]


def _counted(entries: Sequence[AnyEntry]) -> tuple[Counter[str], Counter[str]]:
    """Count starts and ends of each run and compaction."""
    begun: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for entry in entries:
        match entry:
            case RunStart(run=run) if run:
                begun[f"run {run}"] += 1
            case RunEnd(run=run) if run:
                ended[f"run {run}"] += 1
            case CompactionStart(compaction_id=id):
                begun[f"compaction {id}"] += 1
            case Compaction(compaction_id=id) | CompactionFailed(compaction_id=id):
                ended[f"compaction {id}"] += 1
            case _:
                pass
    return begun, ended


def undelivered(entries: Sequence[AnyEntry]) -> list[str]:
    """Return the inputs that are in the history more than once."""
    inputs = {e.input: e.text for e in entries if isinstance(e, InputEntry)}
    delivered = Counter(
        input for e in entries if isinstance(e, DeliveredEntry) for input in e.inputs
    )
    said = Counter(
        e.item.text
        for e in entries
        if isinstance(e, ItemEntry)
        and isinstance(e.item, UserText)
        and not e.item.synthetic
    )
    wanted = Counter(inputs[input] for input in delivered)
    return [
        f"input {text!r}: delivered {wanted[text]} times, said {said[text]} times"
        for text in sorted({*wanted, *said})
        if wanted[text] != said[text]
    ] + [
        f"input {input} delivered {n} times" for input, n in delivered.items() if n > 1
    ]


def _broken_context(session: Session) -> list[str]:
    path = session.path_entries()
    items = list(session.items)
    found = [f"problem: {problem.message}" for problem in problems_of_path(path)]
    found += [f"fault: {fault}" for fault in faults(items)]
    found += [f"unanswered: {call.call_id}" for call in unanswered(items)]
    if items != context(path):
        found.append("the items in memory are not those of the path")
    return found
