"""The importers as a target: any file becomes a session that holds, or is refused."""

import json
import tempfile
from pathlib import Path
from random import Random

from pod.importing import (
    build,
    claude_code,
    codex,
    detect,
    importer,
    own,
    pi,
    pi_content,
    plan,
    swe_agent,
    write,
)
from pod.importing.format import NotImportable
from pod.log import read_log
from pod.session import Session
from pod.store import Store
from tests.fuzz.engine import Target
from tests.fuzz.import_seeds import SEEDS
from tests.pod.importing import pi_makers
from tests.soak.kills import in_memory
from worker.history import faults

FOLDER = tempfile.TemporaryDirectory(dir=in_memory(), prefix="pod-fuzz-")


def parse_import(data: bytes) -> None:
    folder = Path(FOLDER.name)
    file = folder / "given"
    file.write_bytes(data)
    store = Store(folder / "sessions", random=Random(1))
    try:
        imported = importer.import_file(file, store, cwd="/", system="", pod="pod")
    except NotImportable as error:
        _check_refusal(str(error), store)
        return
    try:
        scan = read_log(imported.path)
        assert scan.damage == (), f"imported, but {scan.damage}"
        assert scan.torn is None, "imported, but torn"
        with Session.open(imported.path) as session:
            assert faults(session.items) == [], f"{faults(session.items)}"
            assert session.problems == [], f"{session.problems}"
    finally:
        for left in store.folder.iterdir():
            left.unlink()


def _check_refusal(words: str, store: Store) -> None:
    assert words, "a refusal without a word"
    assert "\n" not in words, "a refusal of two lines"
    assert not list(store.sessions()), "refused, and a session is left"


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def pi_session() -> bytes:
    made = pi_makers
    return lines(
        made.header(),
        *made.chained(
            [
                made.user("go"),
                made.answer(made.thinking("hm"), made.call("c1"), stop="toolUse"),
                made.result("c1"),
                made.answer(made.text("done")),
            ]
        ),
    )


def claude_session() -> bytes:
    def record(uuid: str, parent: str | None, **more: object) -> dict[str, object]:
        at = "2026-01-02T03:04:05.678Z"
        base = {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "timestamp": at}
        return {**base, "isSidechain": False, "cwd": "/w", "version": "2.1.0", **more}

    def said(uuid: str, parent: str, block: object) -> dict[str, object]:
        message = {
            "id": "m1",
            "role": "assistant",
            "model": "claude-a",
            "content": [block],
            "usage": {"input_tokens": 3, "output_tokens": 2},
        }
        return record(uuid, parent, type="assistant", message=message)

    answered = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    return lines(
        {"type": "summary", "summary": "x", "leafUuid": "d"},
        record("a", None, type="user", message={"role": "user", "content": "go"}),
        said("b", "a", {"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
        said("c", "b", {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}),
        record("d", "c", type="user", message={"role": "user", "content": [answered]}),
        record(
            "e", None, type="system", subtype="compact_boundary", logicalParentUuid="d"
        ),
        record(
            "f",
            "e",
            type="user",
            isCompactSummary=True,
            message={"role": "user", "content": "so far"},
        ),
    )


def codex_session() -> bytes:
    at = "2026-01-02T03:04:05.678Z"

    def wrapped(kind: str, **payload: object) -> dict[str, object]:
        return {"timestamp": at, "type": kind, "payload": payload}

    def told(role: str, kind: str, text: str) -> dict[str, object]:
        content = [{"type": kind, "text": text}]
        return wrapped("response_item", type="message", role=role, content=content)

    return lines(
        wrapped("session_meta", id="s", cwd="/w", timestamp=at, cli_version="1"),
        wrapped("turn_context", model="gpt-x", cwd="/w"),
        told("user", "input_text", "go"),
        wrapped("response_item", type="reasoning", summary=[], encrypted_content="e"),
        wrapped(
            "response_item",
            type="function_call",
            name="shell",
            arguments="{}",
            call_id="c",
        ),
        wrapped("response_item", type="function_call_output", call_id="c", output="ok"),
        told("assistant", "output_text", "done"),
        wrapped("compacted", message="so far"),
        wrapped("event_msg", type="token_count", info=None),
    )


def swe_agent_session() -> bytes:
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "bash", "arguments": "{}"},
    }
    history = [
        {
            "role": "system",
            "content": "be",
            "agent": "main",
            "message_type": "system_prompt",
        },
        {"role": "user", "content": [{"type": "text", "text": "go"}], "agent": "main"},
        {"role": "assistant", "content": "so", "tool_calls": [call], "agent": "main"},
        {"role": "tool", "content": "ok", "tool_call_ids": ["c"], "agent": "main"},
    ]
    document = {"environment": "main", "trajectory": [], "history": history, "info": {}}
    return json.dumps(document, indent=1).encode()


def importers() -> Target:
    seeds = (pi_session(), claude_session(), codex_session(), swe_agent_session())
    return Target(
        name="import",
        parse=parse_import,
        modules=(
            build,
            claude_code,
            codex,
            detect,
            importer,
            own,
            pi,
            pi_content,
            plan,
            swe_agent,
            write,
        ),
        seeds=(*seeds, *(make() for make in SEEDS), seeds[0][: len(seeds[0]) // 2]),
        words=tuple(
            word.encode()
            for word in (
                '"type":', '"role":', '"content":', '"parentId":null', '"id":"00000001"',
                '"parentUuid":"a"', '"uuid":"b"', '"isSidechain":true', '"tool_use"',
                '"tool_result"', '"toolCall"', '"toolResult"', '"compaction"', '"version":1',
                '"firstKeptEntryId":"00000002"', '"firstKeptEntryIndex":2', '"branch_summary"',
                '"custom_message"', '"compacted"', '"stopReason":"error"', '"image"',
                '"bashExecution"', '"local_shell_call"', '"history":[]', "null", "\n",
            )
        ),
    )  # fmt: skip
