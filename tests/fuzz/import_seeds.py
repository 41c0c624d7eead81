"""Sessions of other agents with all that their formats have, for the importers' fuzzer."""

import json
from random import Random

from pod.exporting import pi as pi_export
from pod.exporting.source import exported
from tests.pod.importing import test_claude_code as cc, test_codex as codex
from tests.pod.importing.imports import Json
from tests.pod.importing.pi_makers import (
    AT,
    answer,
    as_v1,
    call,
    chained,
    compaction,
    header,
    message,
    placed,
    result,
    text,
    thinking,
    user,
)
from tests.pod.logs import HEADER, random_tree

GIF = "R0lGODlhAQABAAAAACwAAAAAAQABAAA="


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _of_kind(kind: str, **more: object) -> Json:
    return {"type": kind, "timestamp": AT, **more}


def pi_with_branches() -> bytes:
    """Branches, a summary of one, a compaction, labels, errors, images, commands."""
    picture = {"type": "image", "mimeType": "image/gif", "data": GIF}
    ran = {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 2}
    spoken = [
        user("go"),
        _of_kind("model_change", provider="anthropic", modelId="claude-a"),
        answer(
            thinking("hm"),
            {"type": "thinking", "thinking": "", "thinkingSignature": "r", "redacted": True},
            call("c1", path="a"),
            call("c2"),
            stop="toolUse",
            responseId="m1",
        ),
        result("c1"),
        message({"role": "toolResult", "toolCallId": "c2", "content": [picture], "isError": True}),
        message(ran),
        message({**ran, "cancelled": True, "excludeFromContext": True}),
        answer(text("no"), stop="error", errorMessage="529 overloaded"),
        _of_kind("custom_message", customType="k", content="told", display=True),
        _of_kind("custom", customType="k", data={"a": [1.5]}),
        message({"role": "user", "content": [text("see"), picture]}),
        answer(text("done")),
        compaction("so far", firstKeptEntryId="a4", details={"readFiles": ["x"], "modifiedFiles": []}),
        user("more"),
        _of_kind("session_info", name="named"),
    ]  # fmt: skip
    return lines(
        header(),
        *chained(spoken),
        placed(
            "b1",
            "a3",
            _of_kind(
                "branch_summary",
                fromId="a14",
                summary="left",
                details={"readFiles": ["y"]},
            ),
        ),
        placed("b2", "b1", _of_kind("label", targetId="a1", label="start")),
        placed("b3", "b1", user("the other way")),
        placed("b4", "b3", answer(text("a"), call("c9"), stop="aborted")),
        placed("b5", "b4", compaction("again", firstKeptEntryIndex=2, fromHook=True)),
    )


def pi_first_version() -> bytes:
    spoken = [
        user("go"),
        answer(text("a"), call("c1")),
        result("c1"),
        compaction("so far", firstKeptEntryIndex=2),
        user("more"),
    ]
    return lines(header(None), *as_v1(chained(spoken)))


def oh_my_pi() -> bytes:
    title = {"type": "title", "v": 1, "title": "Fix", "updatedAt": AT, "pad": " " * 60}
    blob = {"type": "image", "mimeType": "image/gif", "data": "blob:sha256:" + "0" * 64}
    spoken = [
        user("go"),
        _of_kind("title_change", title="Other"),
        _of_kind("model_change", model="anthropic/claude-a", role="default"),
        _of_kind("thinking_level_change", thinkingLevel="high"),
        _of_kind("session_init", systemPrompt="You are", task="do", tools=["read"]),
        message({"role": "developer", "content": "do not"}),
        message({"role": "user", "content": [blob], "synthetic": True}),
        answer(text("done"), provider="openai", api="openai-responses"),
        compaction("so far", shortSummary="s", firstKeptEntryId="a1", tokensAfter=5, preserveData={"k": 1}),
        _of_kind("reset_boundary"),
        user("more"),
    ]  # fmt: skip
    head = header(3, title="Fix", titleSource="auto", additionalDirectories=[])
    return lines(title, head, *chained(spoken))


def own_export() -> bytes:
    """What Pod writes as pi's, with an entry of every kind in it."""
    entries = random_tree(Random(5), 60)
    return "".join(pi_export.lines(exported(HEADER, entries))).encode()


def claude_code() -> bytes:
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/gif", "data": GIF},
    }
    mixed = [
        {"type": "tool_result", "tool_use_id": "t2", "is_error": True, "content": [cc.said("no"), picture]},
        cc.said("and this"),
        picture,
        {"type": "document", "source": {}},
    ]  # fmt: skip
    return lines(
        cc.user("a", None, "go"),
        cc.part("b", "a", "m1", {"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
        cc.part("c", "b", "m1", {"type": "redacted_thinking", "data": "eA=="}),
        cc.part("d", "c", "m1", cc.called("t1", file_path="a.py")),
        cc.part("e", "d", "m1", cc.called("t2", "Bash", command="ls")),
        cc.answered("f", "d", "t1"),
        cc.user("g", "e", mixed),
        cc.line("p", "f", "progress", data={"type": "hook"}),
        cc.part("h", "g", "m2", {"type": "server_tool_use", "id": "s1", "name": "web_search"}, stop_reason="max_tokens"),
        cc.user("i", "h", "caveat", isMeta=True),
        cc.user("x", "a", "aside", isSidechain=True, agentId="q"),
        cc.part("y", "x", "m9", cc.said("from aside"), model="<synthetic>"),
        cc.boundary("j", "i"),
        cc.user("k", "j", "so far", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        cc.line("l", "k", "system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["t1"], "tokensSaved": 5}),
        cc.part("m", "l", "m3", cc.said("done")),
        {"type": "file-history-snapshot", "messageId": "a", "snapshot": {}},
        {"type": "queue-operation", "operation": "enqueue", "timestamp": AT, "sessionId": "s-1"},
        {"type": "ai-title", "aiTitle": "T", "sessionId": "s-1"},
        {"type": "summary", "summary": "T", "leafUuid": "m"},
    )  # fmt: skip


def codex_with_all() -> bytes:
    used = {
        "input_tokens": 9,
        "cached_input_tokens": 2,
        "output_tokens": 3,
        "total_tokens": 12,
    }
    return lines(
        codex.META,
        codex.wrapped("turn_context", model="gpt-x", cwd="/w", summary="auto"),
        codex.message("developer", "<permissions>"),
        codex.message("user", "<environment_context>x</environment_context>"),
        *codex.ITEMS,
        codex.item("message", role="user", content=[{"type": "input_image", "image_url": f"data:image/gif;base64,{GIF}"}]),
        codex.item("local_shell_call", call_id="l1", status="completed", action={"type": "exec", "command": ["ls"]}),
        codex.item("custom_tool_call", call_id="p1", name="apply_patch", input="*** Begin Patch"),
        codex.item("custom_tool_call_output", call_id="p1", output="ok"),
        codex.output("l1", [{"type": "input_text", "text": "a"}]),
        codex.call("f1", arguments="not json"),
        codex.output("f1", {"content": "x", "success": False}),
        codex.item("web_search_call", status="completed", action={"type": "search", "query": "q"}),
        codex.wrapped("event_msg", type="token_count", info={"last_token_usage": used, "total_token_usage": used, "model_context_window": 99}),
        codex.wrapped("compacted", message="so far", replacement_history=[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}]),
        codex.wrapped("event_msg", type="turn_aborted", reason="interrupted"),
        codex.message("assistant", "done"),
    )  # fmt: skip


def codex_older() -> bytes:
    """The shape in which the items themselves are the lines."""
    head: Json = {"id": "s-1", "timestamp": AT, "instructions": None, "git": {}}
    items = [record["payload"] for record in codex.ITEMS]
    return lines(head, {"record_type": "state"}, *items)


def swe_agent_without_calls() -> bytes:
    history = [
        {"role": "system", "content": "be", "agent": "main"},
        {"role": "user", "content": "demo", "agent": "main", "is_demo": True},
        {"role": "user", "content": "go", "agent": "main"},
        {"role": "assistant", "content": "so\n```\nls\n```", "thought": "so", "action": "ls", "agent": "main"},
        {"role": "user", "content": "a.py", "agent": "main", "message_type": "observation"},
    ]  # fmt: skip
    info = {"exit_status": "submitted", "model_stats": {"tokens_sent": 5}}
    return json.dumps({"trajectory": [], "history": history, "info": info}).encode()


SEEDS = (
    pi_with_branches,
    pi_first_version,
    oh_my_pi,
    own_export,
    claude_code,
    codex_with_all,
    codex_older,
    swe_agent_without_calls,
)
