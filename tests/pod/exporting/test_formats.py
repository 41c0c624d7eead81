"""Transcripts, documents and trajectories of one small session."""

import json
from collections.abc import Iterable, Sequence

from hypothesis import HealthCheck, given, settings, strategies as st

from pod.entries import (
    Compaction,
    CustomMessage,
    ItemEntry,
    Known,
    Leaf,
    RunEnd,
    RunStart,
    UsageEntry,
)
from pod.exporting import atif, json as as_json, markdown
from pod.exporting.source import Exported, exported
from pod.version import VERSION
from tests.pod.logs import AT, HEADER, chain
from worker.items import (
    AssistantText,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.usage import Usage

ENTRIES: list[Known] = [
    RunStart(model="claude-a"),
    ItemEntry(item=UserText("read it")),
    ItemEntry(item=Reasoning("hm", "r1", "claude-a", signature="s")),
    ItemEntry(item=AssistantText("I will", "r1")),
    ItemEntry(item=ToolCall("c1", "read_file", '{"path":"a.py"}', "r1")),
    ItemEntry(item=ToolCall("c2", "bash", '{"command":"false"}', "r1")),
    UsageEntry(
        response="r1",
        model="claude-a",
        stop_reason="tool_use",
        usage=Usage(input=5, cache_read=10, output=7),
        context_tokens=22,
        cost_usd=0.5,
    ),
    ItemEntry(item=ToolResult("c1", "read a.py", "```\nprint(1)\n```")),
    ItemEntry(item=ToolResult("c2", "failed", is_error=True)),
    CustomMessage(kind="git", text="clean"),
    ItemEntry(item=UserText("Go on.", synthetic=True)),
    ItemEntry(item=AssistantText("it prints 1", "r2")),
    RunEnd(outcome="finished", reason="done", exit_code=0),
]


def session(entries: Sequence[Known] = ENTRIES) -> Exported:
    return exported(HEADER, chain(*entries))


def text(pieces: Iterable[str]) -> str:
    return "".join(pieces)


def test_a_transcript_reads_from_top_to_bottom() -> None:
    assert (
        text(markdown.lines(session()))
        == f"""# Session s1

Session s1, begun {AT} in `/work`

*A run with claude-a begins.*

## User

read it

## Assistant

> hm

I will

**read_file**

```json
{{
  "path": "a.py"
}}
```

**bash**

```json
{{
  "command": "false"
}}
```

### Result of read_file

````
```
print(1)
```
````

### Error of bash

```
failed
```

## System: git

clean

## Pod, as the user

Go on.

## Assistant

it prints 1

*The run finished (done).*
"""
    )


def test_a_trajectory_has_a_step_a_message_and_its_results_as_observation() -> None:
    document = json.loads(text(atif.lines(session())))

    assert document == {
        "schema_version": "ATIF-v1.7",
        "session_id": "s1",
        "agent": {"name": "pod", "version": VERSION, "model_name": "claude-a"},
        "steps": [
            {"step_id": 1, "timestamp": AT, "source": "user", "message": "read it"},
            {
                "step_id": 2,
                "timestamp": AT,
                "source": "agent",
                "message": "I will",
                "model_name": "claude-a",
                "reasoning_content": "hm",
                "tool_calls": [
                    {
                        "tool_call_id": "c1",
                        "function_name": "read_file",
                        "arguments": {"path": "a.py"},
                    },
                    {
                        "tool_call_id": "c2",
                        "function_name": "bash",
                        "arguments": {"command": "false"},
                    },
                ],
                "observation": {
                    "results": [
                        {"source_call_id": "c1", "content": "```\nprint(1)\n```"},
                        {"source_call_id": "c2", "content": "failed"},
                    ]
                },
                "metrics": {
                    "prompt_tokens": 15,
                    "completion_tokens": 7,
                    "cached_tokens": 10,
                    "cost_usd": 0.5,
                },
            },
            {"step_id": 3, "timestamp": AT, "source": "system", "message": "clean"},
            {"step_id": 4, "timestamp": AT, "source": "system", "message": "Go on."},
            {
                "step_id": 5,
                "timestamp": AT,
                "source": "agent",
                "message": "it prints 1",
            },
        ],
        "final_metrics": {
            "total_prompt_tokens": 15,
            "total_completion_tokens": 7,
            "total_cached_tokens": 10,
            "total_cost_usd": 0.5,
            "total_steps": 5,
        },
    }


def test_a_document_has_every_entry_and_what_the_model_sees() -> None:
    kept = Compaction(
        compaction_id="c",
        reason="manual",
        mode="mechanical",
        summary="so far",
        first_kept="e3",
        compacted_from="e3",
        tokens_before=9,
        tokens_after=4,
    )
    entries: list[Known] = [
        ItemEntry(item=UserText("one")),
        ItemEntry(item=AssistantText("left", "r1")),
        ItemEntry(item=UserText("two")),
        kept,
        ItemEntry(item=AssistantText("ok", "r2")),
    ]

    document = json.loads(text(as_json.lines(session(entries))))

    assert (document["format"], document["leaf"], document["name"]) == (
        "pod-session/1",
        "e5",
        "",
    )
    assert document["header"]["id"] == "s1"
    assert [entry["id"] for entry in document["entries"]] == [
        "e1",
        "e2",
        "e3",
        "e4",
        "e5",
    ]
    assert [item["type"] for item in document["context"]] == [
        "system_text",
        "user_text",
        "assistant_text",
    ]


def test_transcripts_and_trajectories_follow_the_path_to_the_leaf() -> None:
    entries: list[Known] = [
        ItemEntry(item=UserText("go")),
        ItemEntry(item=AssistantText("left", "r1")),
        Leaf(target="e1"),
        ItemEntry(item=AssistantText("right", "r2"), parent="e1"),
    ]

    for lines in (markdown.lines, atif.lines):
        told = text(lines(session(entries)))
        assert "right" in told
        assert "left" not in told


ITEMS = st.one_of(
    st.builds(UserText, st.text()),
    st.builds(SystemText, st.text()),
    st.builds(AssistantText, st.text(), st.sampled_from(["r1", "r2"])),
    st.builds(Reasoning, st.text(), st.just("r1"), st.text()),
    st.builds(ToolCall, st.text(), st.text(), st.text(), st.just("r1")),
    st.builds(ToolResult, st.text(), st.text(), st.none() | st.text()),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ITEMS, max_size=8))
def test_any_items_make_documents_that_can_be_read(
    items: list[
        UserText | SystemText | AssistantText | Reasoning | ToolCall | ToolResult
    ],
) -> None:
    made = session([ItemEntry(item=item) for item in items])

    assert len(json.loads(text(as_json.lines(made)))["entries"]) == len(items)
    steps = json.loads(text(atif.lines(made)))["steps"]
    assert [step["step_id"] for step in steps] == [*range(1, len(steps) + 1)]
    assert text(markdown.lines(made)).count("\0") == 0
