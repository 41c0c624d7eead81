"""What holds for every tree and every navigation in it."""

from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Literal

from hypothesis import HealthCheck, given, settings, strategies as st

from pod.branch_summary.summarizer import BranchSummarizer
from pod.branches import destination
from pod.context import context
from pod.entries import (
    AnyEntry,
    BranchSummary,
    CustomMessage,
    InputEntry,
    ItemEntry,
    Known,
    Label,
    NavigationFailed,
    RunEnd,
    RunStart,
)
from pod.errors import NavigationMissed, NavigationRefused
from pod.log import read_log
from pod.navigation import Navigation, navigate
from pod.recovery import settled
from pod.session import Session
from pod.tree import Tree
from tests.fakes import Heard, StepClient, said as answer
from tests.makers import call, result, said, synthetic, user
from tests.pod.compaction.histories import SUMMARY
from tests.pod.logs import HEADER
from tests.turns import setup_for
from worker.client import Failure
from worker.history import faults, unanswered
from worker.items import Item

Model = Literal["none", "good", "bad"]


def grow(session: Session, random: Random, number: int) -> None:
    """Let something happen to the session, as runs and programs do."""
    session.append(*settled(session.items, "crashed_call"))
    name = f"{number}_{random.getrandbits(16)}"
    items: list[Item] = [user(f"q{name}")]
    draw = random.random()
    more: list[Known] = []
    if draw < 0.3:
        items += [said(f"a{name}", f"r{name}")]
    elif draw < 0.6:
        items += [call(f"c{name}"), result(f"c{name}"), said("ok", f"s{name}")]
    elif draw < 0.65:
        items += [call(f"c{name}")]  # a run that was cut off
    elif draw < 0.75:
        more = [CustomMessage(kind="k", text=name)]
    elif draw < 0.8:
        more = [InputEntry(input=f"i{name}", text=name)]
    elif draw < 0.9 and session.items and not faults(session.items):
        compact(session, random, name)
        return
    elif draw < 0.95:
        items = [synthetic()]
    end = RunEnd(outcome="finished", reason="done", exit_code=0)
    session.append(
        RunStart(model="m"), *(ItemEntry(item=item) for item in items), *more, end
    )


def compact(session: Session, random: Random, name: str) -> None:
    """Compact in front of a user message, or all of it."""
    shown = session.window.shown
    cuts = [
        s.entry for s in shown if type(s.item) is type(user("")) and s is not shown[0]
    ]
    first = random.choice([*cuts, None])
    session.append(
        type(SUMMARY)(
            compaction_id=name,
            reason="manual",
            mode="mechanical",
            summary=f"Summary {name}.",
            first_kept=first,
            compacted_from=session.leaf or "",
            tokens_before=9,
            tokens_after=1,
        )
    )


def summarizer(kind: Model, session: Session) -> BranchSummarizer | None:
    if kind == "none":
        return None
    step = [answer("Tried.")] if kind == "good" else Failure("billing", "no credit")
    setup = setup_for(StepClient(step), [], price=lambda model, usage: Decimal("0.001"))
    return BranchSummarizer(setup, listen=Heard())


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 100_000))
async def test_any_navigation_keeps_the_history_whole_and_survives_a_restart(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    path = tmp_path / f"{seed}.jsonl"
    path.unlink(missing_ok=True)
    session = Session.create(path, HEADER, durability="flush", random=Random(seed))
    try:
        for number in range(random.randint(2, 12)):
            if random.random() < 0.55:
                grow(session, random, number)
            else:
                await wander(session, random)
            if random.random() < 0.15:
                session = restarted(session, path)
        assert read_log(path).damage == ()
        session = restarted(session, path)
    finally:
        session.close()


async def wander(session: Session, random: Random) -> None:
    """Go anywhere, and look at what has become of everything."""
    before = read_log(session.path).entries if session.path else []
    old, items = session.leaf, list(session.items)
    target = random.choice([None, *session.tree.ids()])
    kind: Model = random.choice(["none", "good", "bad"])
    wants = kind != "none" and random.random() < 0.8
    label = random.choice(["", "x"])
    try:
        found = await navigate(
            session,
            target,
            summarize=wants,
            label=label,
            summarizer=summarizer(kind, session),
        )
    except (NavigationRefused, NavigationMissed):
        assert (session.leaf, list(session.items)) == (old, items)
        added = new_entries(session, before)
        assert all(isinstance(entry, NavigationFailed) for entry in added)
        return
    added = new_entries(session, before)
    assert context(session.path_entries()) == list(session.items)
    assert faults(session.items) == []
    assert target == old or not unanswered(session.items)
    check_moved(session, found, added, target=target, old=old)


def new_entries(session: Session, before: list[AnyEntry]) -> list[AnyEntry]:
    """Return what was appended; what was there is as it was."""
    assert session.path is not None
    now = read_log(session.path).entries
    assert now[: len(before)] == before
    return now[len(before) :]


def check_moved(
    session: Session,
    found: Navigation,
    added: list[AnyEntry],
    *,
    target: str | None,
    old: str | None,
) -> None:
    place = destination(session.tree, target)
    assert (found.old_leaf, found.new_leaf) == (old, session.leaf)
    if target == old:
        assert all(isinstance(entry, Label) for entry in added)
        return
    assert found.text == place.text
    path = session.tree.path_ids(session.leaf)
    assert place.leaf is None or place.leaf in path
    assert sum(isinstance(entry, BranchSummary) for entry in added) == (
        found.entry is not None
    )
    if found.entry is not None:
        assert found.entry.from_id == old
        assert found.entry.id == session.leaf
        assert old not in path


def restarted(session: Session, path: Path) -> Session:
    """Close the session and open it again; it stands where it stood."""
    leaf, items = session.leaf, list(session.items)
    waiting = session.pending_inputs
    whole = not unanswered(items)  # else opening answers the calls
    session.close()
    again = Session.open(path, durability="flush")
    if whole:
        assert (again.leaf, list(again.items)) == (leaf, items)
        assert again.pending_inputs == waiting
    assert Tree(read_log(path).entries).leaf == again.leaf
    return again
