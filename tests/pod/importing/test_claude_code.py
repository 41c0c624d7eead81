"""Claude Code's transcripts, by what they mean."""

from pathlib import Path

import pytest

from pod.entries import Custom, Prune, SessionInfo, UsageEntry
from tests.pod.importing.imports import (
    Json,
    brief,
    compactions,
    entries_of,
    shown,
    take,
    write_lines,
    wrongs,
)
from worker.items import Reasoning, ToolCall, ToolResult, UserText
from worker.usage import Usage

AT = "2026-01-02T03:04:05.678Z"


def line(uuid: str, parent: str | None, type: str, **more: object) -> Json:
    return {
        "type": type,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s-1",
        "version": "2.1.0",
        "cwd": "/home/me",
        "timestamp": AT,
        "isSidechain": False,
        **more,
    }


def user(uuid: str, parent: str | None, content: object, **more: object) -> Json:
    message = {"role": "user", "content": content}
    return line(uuid, parent, "user", message=message, **more)


def part(uuid: str, parent: str | None, id: str, block: Json, **more: object) -> Json:
    message = {
        "id": id,
        "role": "assistant",
        "model": "claude-a",
        "content": [block],
        "stop_reason": None,
        "usage": {
            "input_tokens": 3,
            "cache_read_input_tokens": 5,
            "cache_creation_input_tokens": 7,
            "output_tokens": 11,
        },
    }
    return line(uuid, parent, "assistant", message={**message, **more})


def said(words: str) -> Json:
    return {"type": "text", "text": words}


def called(id: str, name: str = "Read", **arguments: object) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def answered(uuid: str, parent: str, id: str, words: str = "done") -> Json:
    block = {"type": "tool_result", "tool_use_id": id, "content": words}
    return user(uuid, parent, [block], toolUseResult={"stdout": words})


def briefs(lines: list[Json], folder: Path) -> list[str]:
    done = take(write_lines(folder / "x.jsonl", lines), folder)
    assert wrongs(entries_of(done)) == []
    return [brief(item) for item in shown(done)]


def test_the_lines_of_a_message_are_one_response_with_its_usage_once(
    tmp_path: Path,
) -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    lines = [
        user("u", None, "go"),
        part("a1", "u", "m1", thinking),
        part("a2", "a1", "m1", said("I will")),
        part("a3", "a2", "m1", called("t1", file_path="a.py")),
        answered("r", "a3", "t1"),
        part("b", "r", "m2", said("ok"), stop_reason="end_turn"),
    ]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    assert wrongs(entries_of(done)) == []
    items = shown(done)
    assert [brief(item) for item in items] == [
        "user go",
        "thought hm",
        "said I will",
        'call Read {"file_path": "a.py"}',
        "result done",
        "said ok",
    ]
    reasoning = items[1]
    assert isinstance(reasoning, Reasoning)
    assert (reasoning.signature, reasoning.model) == ("sig", "claude-a")
    used = [entry for entry in entries_of(done) if isinstance(entry, UsageEntry)]
    assert [(one.usage, one.stop_reason) for one in used] == [
        (Usage(input=3, cache_read=5, cache_write=7, output=11), "unknown"),
        (Usage(input=3, cache_read=5, cache_write=7, output=11), "end_turn"),
    ]


def test_parallel_calls_whose_results_stand_between_them_are_one_response(
    tmp_path: Path,
) -> None:
    lines = [
        user("u", None, "go"),
        part("a1", "u", "m1", called("t1")),
        answered("r1", "a1", "t1", "one"),
        part("a2", "a1", "m1", called("t2")),
        answered("r2", "a2", "t2", "two"),
        part("b", "r2", "m2", said("ok")),
    ]

    assert briefs(lines, tmp_path) == [
        "user go",
        "call Read {}",
        "call Read {}",
        "result one",
        "result two",
        "said ok",
    ]


def test_progress_between_a_call_and_its_result_is_passed_through(
    tmp_path: Path,
) -> None:
    lines = [
        part("a1", None, "m1", called("t1")),
        line("p1", "a1", "progress", data={}),
        answered("r1", "p1", "t1", "one"),
        user("u", "r1", "thanks"),
    ]

    assert briefs(lines, tmp_path) == ["call Read {}", "result one", "user thanks"]


def boundary(uuid: str, old: str, trigger: str = "auto") -> Json:
    meta = {"trigger": trigger, "preTokens": 155_000}
    return line(
        uuid,
        None,
        "system",
        subtype="compact_boundary",
        logicalParentUuid=old,
        compactMetadata=meta,
    )


@pytest.mark.parametrize(
    ("trigger", "reason"), [("auto", "mid_turn"), ("manual", "manual")]
)
def test_a_compaction_that_a_person_asked_for_is_told_as_one(
    tmp_path: Path, trigger: str, reason: str
) -> None:
    lines = [
        user("u", None, "one"),
        boundary("b", "u", trigger),
        user("s", "b", "so far", isCompactSummary=True),
    ]

    done = take(write_lines(tmp_path / "s.jsonl", lines), tmp_path)

    assert [one.reason for one in compactions(done)] == [reason]


def test_a_boundary_and_its_summary_are_a_compaction(tmp_path: Path) -> None:
    lines = [
        user("u", None, "one"),
        part("a", "u", "m1", said("1")),
        boundary("b", "a"),
        user("s", "b", "It was about one.", isCompactSummary=True),
        user("v", "s", "two"),
    ]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    assert [(c.summary, c.tokens_before) for c in compactions(done)] == [
        ("It was about one.", 155_000)
    ]
    assert [brief(item) for item in shown(done)][1:] == ["user two"]
    before = compactions(done)[0].compacted_from
    assert any(entry.id == before for entry in entries_of(done))


def test_a_microcompaction_leaves_its_results_out_of_the_view(tmp_path: Path) -> None:
    meta = {"tokensSaved": 900, "compactedToolIds": ["t1", "gone"]}
    lines = [
        part("a1", None, "m1", called("t1")),
        answered("r1", "a1", "t1", "x" * 400),
        line(
            "b",
            "r1",
            "system",
            subtype="microcompact_boundary",
            microcompactMetadata=meta,
        ),
        user("u", "b", "go on"),
    ]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    assert [brief(item) for item in shown(done)] == [
        "call Read {}",
        "result [Output truncated - 100 tokens",
        "user go on",
    ]
    prunes = [entry for entry in entries_of(done) if isinstance(entry, Prune)]
    assert [one.saved for one in prunes] == [900]


def test_another_agents_conversation_is_a_tree_beside_the_sessions(
    tmp_path: Path,
) -> None:
    lines = [
        user("u", None, "go"),
        user("x", None, "search", isSidechain=True),
        {**part("y", "x", "m9", said("found")), "isSidechain": True},
        part("a", "u", "m1", said("done")),
    ]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    assert [brief(item) for item in shown(done)] == ["user go", "said done"]
    assert done.tally.side == 2
    assert any("found" in str(entry) for entry in entries_of(done))


def test_an_answer_that_no_model_gave_is_in_the_log_alone(tmp_path: Path) -> None:
    error = part("a", "u", "m1", said("API Error: 500"), model="<synthetic>")
    lines = [user("u", None, "go"), error, user("v", "a", "again")]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    assert [brief(item) for item in shown(done)] == ["user go", "user again"]
    notes = [e.json for e in entries_of(done) if isinstance(e, Custom)]
    assert notes[0] == '"API Error: 500"'


def test_who_called_a_tool_and_unknown_blocks_stay_as_they_came(
    tmp_path: Path,
) -> None:
    block = {"type": "server_tool_use", "id": "s1", "name": "web_search"}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    made = {**called("t1"), "caller": {"type": "direct"}}
    lines = [
        part("a1", None, "m1", block),
        part("a2", "a1", "m1", found),
        part("a3", "a2", "m1", made),
        answered("r", "a3", "t1"),
    ]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    assert wrongs(entries_of(done)) == []
    assert [brief(item) for item in shown(done)] == [
        "block",
        "block",
        "call Read {}",
        "result done",
    ]
    calls = [item for item in shown(done) if isinstance(item, ToolCall)]
    assert calls[0].extra == '{"caller":{"type": "direct"}}'


def test_results_and_words_of_one_line_come_in_the_order_a_history_has_them(
    tmp_path: Path,
) -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [said("a")]}
    lines = [
        part("a1", None, "m1", called("t1")),
        user("u", "a1", [said("and stop"), {**result, "is_error": True}]),
    ]

    assert briefs(lines, tmp_path) == ["call Read {}", "error a", "user and stop"]


def test_what_pod_did_not_hear_from_a_person_is_synthetic(tmp_path: Path) -> None:
    lines = [
        user("u", None, "Caveat: made up", isMeta=True),
        user("v", "u", "[Request interrupted by user]"),
        user("w", "v", "hello"),
    ]

    assert [one.split()[0] for one in briefs(lines, tmp_path)] == ["pod", "pod", "user"]


def test_a_title_names_the_session(tmp_path: Path) -> None:
    lines = [
        {"type": "summary", "summary": "My task", "leafUuid": "u"},
        user("u", None, "go"),
    ]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    names = [e.name for e in entries_of(done) if isinstance(e, SessionInfo)]
    assert names == ["My task"]


def test_only_images_that_are_in_the_file_are_images(tmp_path: Path) -> None:
    far = {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}}
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [
            {"type": "text", "text": "two pages"},
            {"type": "document", "source": source},
            far,
        ],
    }
    use = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
    lines = [
        user("u1", None, [{"type": "text", "text": "look"}, far]),
        part("u2", "u1", "m1", use),
        user("u3", "u2", [result]),
    ]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    images = [
        item.images for item in shown(done) if isinstance(item, UserText | ToolResult)
    ]
    assert images == [(), ()]
    assert done.tally.losses == {
        "content blocks of other kinds: left out": 1,
        "images that are not in the file: left out": 2,
    }


def test_another_agents_lines_at_the_end_leave_the_session_where_it_stood(
    tmp_path: Path,
) -> None:
    text = {"type": "text", "text": "done"}
    lines = [
        user("u1", None, "go"),
        part("u2", "u1", "m1", text),
        user("s1", None, "look for it", isSidechain=True),
        {
            **part("s2", "s1", "m2", {"type": "text", "text": "found"}),
            "isSidechain": True,
        },
    ]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    assert [brief(item) for item in shown(done)] == ["user go", "said done"]
    assert done.tally.side == 2
