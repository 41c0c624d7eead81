"""Sessions of Pod's as Hypothesis makes them: branches, compactions, prunes, clips."""

from pathlib import Path
from random import Random

from hypothesis import strategies as st
from msgspec.structs import replace

from pod.compaction.cut import Cut, find_cut
from pod.entries import (
    AutoRead,
    BranchSummary,
    Compaction,
    CompactionStart,
    Custom,
    CustomMessage,
    Directive,
    FileDetails,
    ItemEntry,
    Label,
    ModelChange,
    Notice,
    Prune,
    Reference,
    RunEnd,
    RunStart,
    SessionInfo,
    UsageEntry,
)
from pod.recovery import settled
from pod.session import Session
from tests.pod.logs import HEADER, clock
from tests.strategies import histories
from worker.history import stretches
from worker.items import (
    AssistantText,
    FromModel,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.usage import Usage


@st.composite
def sessions(draw: st.DrawFn, path: Path) -> Session:
    """Return an open session at *path*, in which much has happened."""
    path.unlink(missing_ok=True)
    session = Session.create(
        path, HEADER, durability="flush", clock=clock, random=Random(7)
    )
    for turn in range(draw(st.integers(1, 4))):
        session.append(RunStart(model="claude-test-1"))
        _say(draw, session, turn)
        if draw(st.booleans()):
            session.append(RunEnd(outcome="finished", reason="done", exit_code=0))
        for _ in range(draw(st.integers(0, 3))):
            _happen(draw, session)
    return session


def _say(draw: st.DrawFn, session: Session, turn: int) -> None:
    items = draw(histories(is_hostile=False))
    if draw(st.booleans()):  # broken off anywhere
        items = items[: draw(st.integers(0, len(items)))]
    for start, end in stretches(items):
        for item in items[start:end]:
            session.append(ItemEntry(item=_of_turn(item, turn)))
        item = items[start]
        if isinstance(item, FromModel) and draw(st.booleans()):
            used = UsageEntry(
                response=f"{item.response}/{turn}",
                model="claude-test-1",
                stop_reason="end_turn",
                usage=Usage(input=3, output=4),
                context_tokens=7,
                cost_usd=0.5,
            )
            session.append(used)
    session.append(*settled(session.items, "left_call"))


def _of_turn(item: Item, turn: int) -> Item:
    """Return the item with names that no other turn has."""
    match item:
        case AssistantText() | Reasoning() | Opaque():
            return replace(item, response=f"{item.response}/{turn}")
        case ToolCall():
            return replace(
                item,
                response=f"{item.response}/{turn}",
                call_id=f"{item.call_id}_{turn}",
            )
        case ToolResult():
            return replace(item, call_id=f"{item.call_id}_{turn}")
        case UserText() | SystemText():
            return item


def _happen(draw: st.DrawFn, session: Session) -> None:
    ids = [entry.id for entry in session.path_entries()]
    match draw(st.integers(0, 7)):
        case 0 if ids:
            session.navigate(draw(st.sampled_from([None, *ids])))
        case 1 | 2:
            _compact(draw, session)
        case 3:
            results = [
                shown.entry
                for shown in session.window.shown
                if isinstance(shown.item, ToolResult)
            ]
            if results:
                some = tuple(draw(st.lists(st.sampled_from(results), max_size=3)))
                session.append(
                    Prune(entries=some, tokens=(9,) * len(some), saved=9 * len(some))
                )
        case 4:
            session.append(
                CustomMessage(kind="git", text="clean"),
                Custom(kind="mine", json='{"a": [1, "b"]}'),
                Notice(message="something"),
            )
        case 5:
            session.append(ModelChange(model="claude-other", previous="claude-test-1"))
        case 6 if ids:
            target = draw(st.sampled_from(ids))
            session.append(Label(target=target, label="here"), SessionInfo(name="n"))
        case _:
            left = session.leaf
            if left is not None:
                session.append(
                    BranchSummary(
                        from_id=left,
                        summary="what was there",
                        details=FileDetails(("a.py",), ("b.py",)),
                    )
                )


def _compact(draw: st.DrawFn, session: Session) -> None:
    cut = find_cut(
        session.window,
        retained_tokens=draw(st.integers(0, 60)),
        room=draw(st.none() | st.integers(10, 80)),
        count=lambda item: len(str(item)) // 20,
    )
    if not isinstance(cut, Cut) or session.leaf is None:
        return
    session.append(
        CompactionStart(
            compaction_id="c1", reason="manual", mode="worker", tokens_before=100
        ),
        *cut.clips,
    )
    leaf = session.leaf
    assert leaf is not None
    session.append(
        Compaction(
            compaction_id="c1",
            reason="manual",
            mode="worker",
            summary="## Active Task\nall of it",
            first_kept=cut.first_kept,
            compacted_from=leaf,
            tokens_before=100,
            tokens_after=40,
            directives=(Directive("do it"), Directive("and that", clipped=True)),
            auto_read=(AutoRead("a.py", "print()", "0" * 64, 5, 1, 2),),
            references=(Reference("b.py", "read"),),
            details=FileDetails(("a.py",), ()),
            preserve_data='{"kept": 1}',
            dropped_reasoning=cut.dropped_reasoning,
        )
    )
