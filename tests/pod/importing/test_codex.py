"""Codex's rollouts, by what they mean."""

import json
from pathlib import Path
from typing import TypeGuard

import pytest

from pod.entries import Custom, ModelChange, UsageEntry
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
from worker.usage import Usage

AT = "2026-01-02T03:04:05.678Z"


def wrapped(kind: str, /, **payload: object) -> Json:
    return {"timestamp": AT, "type": kind, "payload": payload}


def item(kind: str, /, **more: object) -> Json:
    return wrapped("response_item", type=kind, **more)


META = wrapped("session_meta", id="s-1", cwd="/home/me", cli_version="0.99.0")


def message(role: str, words: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": words}])


def call(id: str, name: str = "shell", arguments: str = "{}") -> Json:
    return item("function_call", name=name, arguments=arguments, call_id=id)


def output(id: str, words: object) -> Json:
    return item("function_call_output", call_id=id, output=words)


def is_object(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)


def briefs(lines: list[Json], folder: Path) -> list[str]:
    done = take(write_lines(folder / "x.jsonl", lines), folder)
    assert wrongs(entries_of(done)) == []
    return [brief(item) for item in shown(done)]


SHELL = json.dumps({"output": "a.py", "metadata": {"exit_code": 0}})
FAILED = json.dumps({"output": "no", "metadata": {"exit_code": 2}})
ITEMS = [
    message("user", "go"),
    item(
        "reasoning",
        summary=[{"type": "summary_text", "text": "hm"}],
        content=None,
        encrypted_content="gAAA",
    ),
    call("c1", arguments='{"command":["ls"]}'),
    call("c2"),
    output("c1", SHELL),
    output("c2", FAILED),
    message("assistant", "done"),
]
HISTORY = [
    "user go",
    "thought hm",
    'call shell {"command":["ls"]}',
    "call shell {}",
    "result a.py",
    "result no\n(exit code 2)",
    "said done",
]


def test_what_was_said_between_two_inputs_is_one_response(tmp_path: Path) -> None:
    assert briefs([META, *ITEMS], tmp_path) == HISTORY


def test_the_older_shape_has_the_items_themselves_as_lines(tmp_path: Path) -> None:
    head: Json = {"id": "s-1", "timestamp": AT, "instructions": "Be good.", "git": {}}
    payloads = [one["payload"] for one in ITEMS]
    items: list[Json] = [one for one in payloads if is_object(one)]
    lines: list[Json] = [head, {"record_type": "state"}, *items]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    assert [brief(one) for one in shown(done)] == HISTORY
    notes = [e.json for e in entries_of(done) if isinstance(e, Custom)]
    assert notes[0] == '"Be good."'


def test_tokens_are_counted_once_and_for_the_model_of_the_turn(
    tmp_path: Path,
) -> None:
    used = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 5}
    info = {"last_token_usage": {**used, "reasoning_output_tokens": 2}}
    count = wrapped("event_msg", type="token_count", info=info, rate_limits={})
    turn = wrapped("turn_context", model="gpt-5-codex", cwd="/")
    lines = [
        META,
        turn,
        message("user", "go"),
        message("assistant", "ok"),
        count,
        count,
    ]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    entries = entries_of(done)
    found = [entry for entry in entries if isinstance(entry, UsageEntry)]
    assert [(one.model, one.usage, one.context_tokens) for one in found] == [
        ("gpt-5-codex", Usage(input=6, cache_read=4, output=5, reasoning=2), 15)
    ]
    models = [e.model for e in entries if isinstance(e, ModelChange)]
    assert models == ["gpt-5-codex"]


def test_a_compaction_keeps_the_users_messages_word_for_word(tmp_path: Path) -> None:
    def told(words: str) -> Json:
        content = [{"type": "input_text", "text": words}]
        return {"type": "message", "role": "user", "content": content}

    compacted = wrapped(
        "compacted",
        message="It was about one.",
        replacement_history=[
            told("<environment_context>x</environment_context>"),
            told("one, please"),
            told("It was about one."),
        ],
    )
    lines = [META, message("user", "one, please"), compacted, message("user", "two")]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    one = compactions(done)[0]
    assert (one.summary, [d.text for d in one.directives]) == (
        "It was about one.",
        ["one, please"],
    )
    assert brief(shown(done)[-1]) == "user two"


def test_what_codex_itself_put_in_the_users_place_is_synthetic(
    tmp_path: Path,
) -> None:
    lines = [
        META,
        message("developer", "Sandbox: none"),
        message("user", "<environment_context>x</environment_context>"),
        message("user", "go"),
    ]

    assert briefs(lines, tmp_path) == [
        "system [developer] Sandbox: none",
        "pod <environment_context>x</enviro",
        "user go",
    ]


def test_a_patch_and_a_local_shell_are_calls_like_others(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n*** End Patch"
    lines = [
        META,
        item("custom_tool_call", call_id="c1", name="apply_patch", input=patch),
        item("custom_tool_call_output", call_id="c1", output="done"),
        item("local_shell_call", call_id="c2", action={"command": ["ls"]}),
        output("c2", {"content": "a.py", "success": False}),
    ]

    assert briefs(lines, tmp_path) == [
        f"call apply_patch {json.dumps({'input': patch}, separators=(',', ':'))}",
        "result done",
        'call local_shell {"command": ["ls"]}',
        "error a.py",
    ]


@pytest.mark.parametrize("arguments", ["[1]", "not json", '{"a":'])
def test_arguments_that_are_no_object_are_kept_as_text(
    tmp_path: Path, arguments: str
) -> None:
    lines = [META, call("c1", arguments=arguments), output("c1", "done")]

    assert briefs(lines, tmp_path)[0] == (
        f"call shell {json.dumps({'input': arguments}, separators=(',', ':'))}"
    )


def test_an_image_that_has_no_place_is_counted(tmp_path: Path) -> None:
    url = "data:image/gif;base64,R0lGODlhAQABAAAAACw="
    content = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": url},
    ]
    kept = {"type": "message", "role": "user", "content": content}
    lines = [
        META,
        item("message", role="developer", content=content),
        message("user", "go"),
        wrapped("compacted", message="so far", replacement_history=[kept]),
    ]

    done = take(write_lines(tmp_path / "x.jsonl", lines), tmp_path)

    assert compactions(done)[0].directives[0].text == "look"
    assert done.tally.losses == {
        "images in messages that can hold none: left out": 2,
    }
