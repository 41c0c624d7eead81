"""A payload of each event, for tests."""

from msgspec import Raw

from pod.entries import BranchSummary, Compaction, FileDetails, RunEnd
from pod.hooks.payloads import (
    AnyPayload,
    BeforeCompact,
    BeforeTree,
    Compacted,
    Compacting,
    Navigated,
    PostToolCall,
    PreLlmRequest,
    PreToolCall,
    RunEnded,
)
from worker.items import AssistantText, ToolCall, ToolResult, UserText

BEFORE_COMPACT = BeforeCompact(
    session="s1",
    reason="mid_turn",
    will_retry=True,
    mode="worker",
    tokens_before=90_100,
    first_kept="e9",
    instructions="keep the names",
    previous_summary="",
    is_split_turn=True,
    items=(
        UserText(text="go"),
        ToolCall(call_id="c", name="bash", arguments="{}", response="r"),
        ToolResult(call_id="c", summary="ok"),
    ),
    turn_prefix=(AssistantText(text="on it", response="r2"),),
    details=FileDetails(read_files=("/a",)),
    entries=("e1", "e2", "e3", "e4"),
)
COMPACTING = Compacting(
    session="s1",
    compaction_id="k1",
    reason="manual",
    will_retry=False,
    mode="worker",
    instructions="",
    previous_summary="before",
    items=(UserText(text="go"),),
    turn_prefix=(),
)
COMPACTED = Compacted(
    session="s1",
    reason="post_run",
    will_retry=False,
    entry=Compaction(
        seq=7,
        id="e7",
        parent="e6",
        at="2026-01-01T00:00:00.000Z",
        compaction_id="k1",
        reason="post_run",
        mode="mechanical",
        summary="short",
        first_kept=None,
        compacted_from="e6",
        tokens_before=100,
        tokens_after=10,
    ),
    from_hook=False,
)
BEFORE_TREE = BeforeTree(
    session="s1",
    target="e2",
    old_leaf="e9",
    common_ancestor="e1",
    entries=("e3", "e9"),
    wants_summary=True,
    instructions="",
    replace_instructions=False,
    label="try 2",
)
NAVIGATED = Navigated(
    session="s1",
    old_leaf="e9",
    new_leaf="e10",
    entry=BranchSummary(
        seq=10,
        id="e10",
        parent="e2",
        at="2026-01-01T00:00:00.000Z",
        from_id="e9",
        summary="tried it",
    ),
    from_hook=True,
)
PRE_LLM_REQUEST = PreLlmRequest(
    session="s1",
    run="r1",
    model="m",
    request=3,
    items=12,
    tokens=45_000,
    post_run_threshold=80_000,
    turn_threshold=90_000,
    window=None,
)
PRE_TOOL_CALL = PreToolCall(
    session="s1",
    run="r1",
    name="bash",
    call_id="c1",
    arguments=Raw(b'{"command": "ls"}'),
)
POST_TOOL_CALL = PostToolCall(
    session="s1",
    run="r1",
    name="bash",
    call_id="c1",
    arguments=Raw(b'{"command": "ls"}'),
    is_error=False,
    summary="exit code 0",
    content="a\nb",
    images=1,
)
RUN_ENDED = RunEnded(
    session="s1",
    entry=RunEnd(
        seq=9,
        id="e9",
        parent="e8",
        at="2026-01-01T00:00:00.000Z",
        run="r1",
        outcome="finished",
        reason="done",
        exit_code=0,
        text="all done",
        requests=2,
    ),
)
SAMPLES: tuple[AnyPayload, ...] = (
    BEFORE_COMPACT,
    COMPACTING,
    COMPACTED,
    BEFORE_TREE,
    NAVIGATED,
    PRE_LLM_REQUEST,
    PRE_TOOL_CALL,
    POST_TOOL_CALL,
    RUN_ENDED,
)
