"""An entry of every kind that a log can have, at random.

test_every_kind.py fails where a kind is not made here: what is random about logs
(scan, mend, fork, reload, damage) is then tried with it, too.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random

from pod.entries import (
    AutoRead,
    BranchSummary,
    BreakerChange,
    Clip,
    Compaction,
    CompactionFailed,
    CompactionStart,
    Custom,
    CustomMessage,
    DeliveredEntry,
    Directive,
    Entry,
    FileDetails,
    HandedBack,
    InputEntry,
    ItemEntry,
    Known,
    Label,
    Leaf,
    ModelChange,
    NavigationFailed,
    Notice,
    Permission,
    PermissionDenial,
    PromptChange,
    Prune,
    Receipt,
    Reference,
    RunEnd,
    RunStart,
    SandboxChange,
    SessionInfo,
    ToolStart,
    TurnAbandoned,
    UsageEntry,
)
from worker.items import UserText
from worker.usage import Usage

Make = Callable[[Random, Sequence[str]], Known]
"""Makes an entry that refers to some of the ids given, of which there is at least one."""

_TEXTS = ("", "x", "two\nlines", "café 😀 \u2028", "</summary>", "\0")
_FILES = FileDetails(read_files=("a",), modified_files=("b\n",))
_USAGE = Usage(input=3, output=2)


def _few(random: Random, prefix: str) -> str:
    """One of so few names that several entries have the same."""
    return f"{prefix}{random.randint(1, 4)}"


def _some(random: Random, ids: Sequence[str]) -> tuple[str, ...]:
    return tuple(random.sample(ids, min(len(ids), random.randint(0, 3))))


def _compaction(random: Random, ids: Sequence[str]) -> Compaction:
    return Compaction(
        run=random.choice((None, _few(random, "r"))),
        compaction_id=_few(random, "c"),
        reason="mid_turn",
        mode=random.choice(("worker", "summarize", "remote", "native", "mechanical")),
        summary=random.choice(_TEXTS),
        first_kept=random.choice((None, *ids)),
        compacted_from=random.choice(ids),
        tokens_before=9,
        tokens_after=3,
        directives=(Directive("do it", clipped=True),),
        auto_read=(AutoRead("a", "text", "0" * 64, 3, start=1, end=2),),
        references=(Reference("b", "read"),),
        details=_FILES,
        receipt=Receipt(dropped_quotes=("q",), attempts=("worker: done",), model="m"),
        short_summary="s",
        preserve_data='{"a":1}',
        from_hook=random.random() < 0.5,
        dropped_reasoning=_some(random, ids),
        usage=_USAGE,
        cost_usd=0.5,
    )


def _run_end(random: Random, ids: Sequence[str]) -> RunEnd:
    return RunEnd(
        run=_few(random, "r"),
        outcome=random.choice(("finished", "yielded", "cancelled", "limit", "blocked")),
        reason="done",
        exit_code=0,
        text=random.choice(_TEXTS),
        returned=("back",),
        permission_denials=(PermissionDenial("bash", "c1", "{}", "rule", "no"),),
        usage=_USAGE,
    )


MAKERS: Mapping[type[Entry], Make] = {
    ItemEntry: lambda r, ids: ItemEntry(item=UserText(r.choice(_TEXTS)), tokens=3),
    InputEntry: lambda r, ids: InputEntry(
        input=_few(r, "i"), text=r.choice(_TEXTS), follow_up=r.random() < 0.5
    ),
    DeliveredEntry: lambda r, ids: DeliveredEntry(inputs=(_few(r, "i"),)),
    HandedBack: lambda r, ids: HandedBack(inputs=(_few(r, "i"),), texts=("back",)),
    UsageEntry: lambda r, ids: UsageEntry(
        run=_few(r, "r"),
        response="m1",
        model="m",
        stop_reason="end_turn",
        usage=r.choice((None, _USAGE)),
        context_tokens=r.choice((None, 5)),
        estimate=4,
        cost_usd=r.choice((None, 0.25)),
        request_id="q",
    ),
    RunStart: lambda r, ids: RunStart(run=_few(r, "r"), model="m", resumed=True),
    RunEnd: _run_end,
    TurnAbandoned: lambda r, ids: TurnAbandoned(),
    ToolStart: lambda r, ids: ToolStart(call_id="c1", name="bash"),
    Permission: lambda r, ids: Permission(
        call_id="c1", tool="bash", decision="deny", by="hook", rule="x", reason="no"
    ),
    ModelChange: lambda r, ids: ModelChange(model="m", previous=r.choice((None, "n"))),
    PromptChange: lambda r, ids: PromptChange(system=r.choice(_TEXTS)),
    SandboxChange: lambda r, ids: SandboxChange(tier="bwrap", previous="off"),
    SessionInfo: lambda r, ids: SessionInfo(name=r.choice(_TEXTS)),
    Label: lambda r, ids: Label(target=r.choice(ids), label=r.choice(("", "a", "b"))),
    Leaf: lambda r, ids: Leaf(target=r.choice((None, *ids)), behind=r.randint(0, 2)),
    Custom: lambda r, ids: Custom(kind="k", json='{"a":[1.50]}'),
    CustomMessage: lambda r, ids: CustomMessage(kind="k", text=r.choice(_TEXTS)),
    Notice: lambda r, ids: Notice(message=r.choice(_TEXTS)),
    CompactionStart: lambda r, ids: CompactionStart(
        run=r.choice((None, _few(r, "r"))),
        compaction_id=_few(r, "c"),
        reason="manual",
        mode="worker",
        tokens_before=9,
        threshold=8,
        will_retry=True,
    ),
    Compaction: _compaction,
    CompactionFailed: lambda r, ids: CompactionFailed(
        compaction_id=_few(r, "c"),
        code="timeout",
        message="late",
        retryable=True,
        attempts=("worker: late",),
        usage=_USAGE,
    ),
    BreakerChange: lambda r, ids: BreakerChange(
        failures=r.randint(0, 3), opened_at=r.choice((None, "2026-11-30T05:00:00.000Z"))
    ),
    Prune: lambda r, ids: Prune(entries=_some(r, ids), tokens=(5, 6), saved=11),
    Clip: lambda r, ids: Clip(entry=r.choice(ids), text=r.choice(_TEXTS)),
    BranchSummary: lambda r, ids: BranchSummary(
        from_id=r.choice(ids),
        summary=r.choice(_TEXTS),
        details=_FILES,
        from_hook=True,
        summarised=2,
        usage=_USAGE,
    ),
    NavigationFailed: lambda r, ids: NavigationFailed(
        target=r.choice((None, *ids)), code="timeout", message="late"
    ),
}
"""For each kind how one is made."""


def of_any_kind(random: Random, ids: Sequence[str]) -> Known:
    """Make an entry of any kind that refers to some of *ids*."""
    return random.choice(list(MAKERS.values()))(random, ids)
