"""oh-my-pi (v18), made from the facts of its format."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from pod.entries import Compaction, Custom, ModelChange, SessionInfo
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
from tests.pod.importing.pi_makers import (
    AT,
    answer,
    call,
    chained,
    compaction,
    header,
    message,
    result,
    text,
    user,
)
from worker.items import UserText

PICTURE = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"


def title(words: str) -> Json:
    """Return the first line: a slot of 256 bytes that is written over in place."""
    line = {"type": "title", "v": 1, "title": words, "source": "auto", "updatedAt": AT}
    return {**line, "pad": " " * 60}


def of_kind(kind: str, **more: object) -> Json:
    return {"type": kind, "timestamp": AT, **more}


def session(lines: list[Json], folder: Path) -> Path:
    """Put a session where oh-my-pi has it, beside its blob store."""
    file = folder / "agent" / "sessions" / "-project" / "1_s.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    head = header(3, title="Fix it", titleSource="auto", additionalDirectories=[])
    return write_lines(file, [title("Fix it"), head, *lines])


def test_the_title_slot_is_the_sessions_name(tmp_path: Path) -> None:
    done = take(session(chained([user("go")]), tmp_path), tmp_path)

    assert done.origin.agent == "oh-my-pi"
    names = [e.name for e in entries_of(done) if isinstance(e, SessionInfo)]
    assert names == ["Fix it"]


def test_every_extra_kind_is_in_the_log_and_none_is_shown(tmp_path: Path) -> None:
    extra = [
        of_kind("thinking_level_change", thinkingLevel="high", configured="auto"),
        of_kind("service_tier_change", serviceTier="priority"),
        of_kind("ttsr_injection", injectedRules=["a"]),
        of_kind("credential_pin", provider="anthropic", hash="ab"),
        of_kind("session_init", systemPrompt="You are", task="do", tools=["read"]),
        of_kind("mode_change", mode="plan", data={}),
        of_kind("archive", targetId="a1", archived=True),
        of_kind("model_usage", model="x"),
        of_kind("custom", customType="tool_execution_start", data={"id": "c1"}),
        of_kind("custom", customType="session_exit", data={"kind": "fatal"}),
    ]
    lines = chained([user("go"), *extra, answer(text("done"))])

    done = take(session(lines, tmp_path), tmp_path)

    assert wrongs(entries_of(done)) == []
    assert [brief(item) for item in shown(done)] == ["user go", "said done"]
    kept = [entry.kind for entry in entries_of(done) if isinstance(entry, Custom)]
    wanted = [str(one.get("customType") or one["type"]) for one in extra]
    assert kept == [*wanted, "import"]


def test_a_model_is_named_with_its_provider(tmp_path: Path) -> None:
    change = of_kind("model_change", model="anthropic/claude-b", role="default")

    done = take(session(chained([user("go"), change]), tmp_path), tmp_path)

    models = [e.model for e in entries_of(done) if isinstance(e, ModelChange)]
    assert models == ["claude-b"]


def test_a_title_that_changed_is_the_name_from_then_on(tmp_path: Path) -> None:
    lines = chained([user("go"), of_kind("title_change", title="Better")])

    done = take(session(lines, tmp_path), tmp_path)

    names = [e.name for e in entries_of(done) if isinstance(e, SessionInfo)]
    assert names == ["Fix it", "Better"]


def test_a_compaction_brings_its_extras(tmp_path: Path) -> None:
    one = compaction(
        "so far",
        firstKeptEntryId="a2",
        shortSummary="fixed it",
        preserveData={"remote": [1]},
        fromExtension=True,
        tokensAfter=300,
        method="remote",
        details={"readFiles": ["a.py"], "modifiedFiles": ["b.py"]},
    )
    lines = chained([user("one"), user("two"), one, user("three")])

    done = take(session(lines, tmp_path), tmp_path)

    found = compactions(done)[0]
    assert (found.short_summary, found.preserve_data, found.from_hook) == (
        "fixed it",
        '{"remote": [1]}',
        True,
    )
    assert (found.tokens_after, found.details.modified_files) == (300, ("b.py",))
    assert [brief(item) for item in shown(done)][1:] == ["user two", "user three"]


def test_behind_a_reset_nothing_of_before_is_shown(tmp_path: Path) -> None:
    lines = chained([user("old"), of_kind("reset_boundary"), user("new")])

    done = take(session(lines, tmp_path), tmp_path)

    assert [brief(item) for item in shown(done)] == ["user new"]
    assert done.tally.compactions == 0
    assert any(isinstance(entry, Compaction) for entry in entries_of(done))


def pictured(data: str) -> list[Json]:
    image = {"type": "image", "data": data, "mimeType": "image/gif"}
    return chained([message({"role": "user", "content": [text("look"), image]})])


def images_of(done_items: list[object]) -> list[str]:
    return [
        image.data
        for item in done_items
        if isinstance(item, UserText)
        for image in item.images
    ]


def test_an_image_is_taken_from_the_blob_store(tmp_path: Path) -> None:
    name = sha256(PICTURE).hexdigest()
    file = session(pictured(f"blob:sha256:{name}"), tmp_path)
    (tmp_path / "agent" / "blobs").mkdir()
    (tmp_path / "agent" / "blobs" / name).write_bytes(PICTURE)

    done = take(file, tmp_path)

    assert images_of([*shown(done)]) == [b64encode(PICTURE).decode()]


def test_a_blob_that_is_not_what_its_name_says_is_left_out_and_named(
    tmp_path: Path,
) -> None:
    name = "0" * 64
    file = session(pictured(f"blob:sha256:{name}"), tmp_path)
    (tmp_path / "agent" / "blobs").mkdir()
    (tmp_path / "agent" / "blobs" / name).write_bytes(PICTURE)

    done = take(file, tmp_path)

    assert images_of([*shown(done)]) == []
    assert done.tally.losses == {"images that are not in the file: left out": 1}


def test_a_crash_before_a_result_is_answered(tmp_path: Path) -> None:
    started = of_kind("custom", customType="tool_execution_start", data={})
    lines = chained([user("go"), answer(call("c1"), call("c2")), started, result("c2")])

    done = take(session(lines, tmp_path), tmp_path)

    assert wrongs(entries_of(done)) == []
    assert [brief(item) for item in shown(done)][1:] == [
        "call read {}",
        "call read {}",
        "error Error: the session that this o",
        "result done",
    ]
