"""What is fuzzed: each target parses bytes and holds the result to what is promised."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pod import (
    codec,
    manifest_errors,
    mend,
    merge,
    scan,
    toml_document,
    toml_positions,
    toml_text,
)
from pod.context import context
from pod.entries import (
    FORMAT,
    Compaction,
    CompactionStart,
    DeliveredEntry,
    Entry,
    Header,
    InputEntry,
    ItemEntry,
    Label,
    Leaf,
    Prune,
    RunEnd,
    RunStart,
    ToolStart,
    UsageEntry,
)
from pod.errors import NewerFormat
from pod.manifest_errors import ManifestError
from pod.protocol import messages, reading
from pod.tree import Tree
from tests.fuzz import outside
from tests.fuzz.engine import Target, quoted
from tests.fuzz.importing import importers
from tools import arguments, bash, edit_file, glob, grep, read_file, write_file
from tools.base import ToolError
from worker import blocks, sse, stream
from worker.client import ProviderError, Response
from worker.history import mend as mend_history
from worker.items import AssistantText, ToolCall, ToolResult, UserText
from worker.usage import Usage

ROOT = Path(__file__).resolve().parents[2]


def _check_words(lines: Sequence[str]) -> None:
    assert lines, "an error without a word"
    assert all(lines), "an error with an empty line"
    assert all("\n" not in line for line in lines), "an error of two lines"


def _check_length(error: str) -> None:
    assert len(error) < 4_000, "an error as long as what was wrong"


# The manifest.


def parse_manifest(data: bytes) -> None:
    try:
        merged = merge.merge(data, "pod.toml", [])
    except ManifestError as error:
        _check_words(error.lines)
        return
    assert all(source.place for source in merged.sources.values())


def manifest() -> Target:
    example = (ROOT / "manifest.example.toml").read_bytes()
    tables = example.split(b"\n[")
    return Target(
        name="manifest",
        parse=parse_manifest,
        modules=(merge, manifest_errors, toml_document, toml_positions, toml_text),
        seeds=(
            example.replace(b"\n#", b"\n"),
            *(b"[" + table for table in tables[1:]),
            b'[model]\nid = "m"\nmax_tokens = 1_000\ntemperature = 0.5\n',
            b'[tools]\nbuiltin = ["bash", "grep"]\npython = [\n "a.py:f", # c\n]\n',
            b'[[hooks]]\nevent = "run_end"\ncommand = ["true"]\n',
            b'a.b = {c = "\\u00e9", d = \'\'\'x\ny\'\'\'}\n"q r" = 1979-05-27T07:32:00Z\n',
        ),
        words=quoted(
            "[model]", "[[hooks]]", "[a.b]", " = ", "'''", '"""', "#", "{", "}", "[", "]",
            "true", "inf", "nan", "0x1F", "1_0", "\\u", "\\U0001F600", ".", ",", "\n",
            "id", "provider", "max_tokens", "compaction", "compact_threshold",
        ),
    )  # fmt: skip


# The session log.


def parse_log(data: bytes) -> None:
    try:
        whole = scan.scan([data])
        pieces = scan.scan(data[at : at + 7] for at in range(0, len(data), 7))
    except NewerFormat:
        return
    assert whole == pieces, "in pieces it reads another way"
    tree = Tree(whole.entries)
    context(tree.path(tree.leaf))
    if whole.header is None and not whole.entries:
        return
    mender = mend.Mend("s")
    lines = list(mender.lines(scan.read([data])))
    mended = scan.scan([*lines, mender.notice("2026-01-01T00:00:00.000Z", "ffffffff")])
    assert mended.header is not None, "mended without a header"
    assert mended.damage == (), f"mended, but {mended.damage}"
    assert mended.torn is None, "mended, but torn"
    tree = Tree(mended.entries)
    context(tree.path(tree.leaf))


def log_lines(*entries: Entry) -> bytes:
    header = Header(
        format=FORMAT, id="s", at="2026-01-01T00:00:00.000Z", cwd="/", system=""
    )
    return codec.encode(header) + b"".join(_chained(entries))


def _chained(entries: tuple[Entry, ...]) -> Iterator[bytes]:
    parent: str | None = None
    for seq, entry in enumerate(entries, start=1):
        placed = replace(
            entry,
            seq=seq,
            id=f"{seq:08x}",
            parent=parent,
            at="2026-01-01T00:00:00.000Z",
        )
        if not isinstance(entry, Label | Leaf):
            parent = placed.id
        yield codec.encode(placed)  # type: ignore[arg-type]  # any kind of entry


def log() -> Target:
    call = ToolCall(call_id="c", name="bash", arguments="{}", response="r")
    run = log_lines(
        RunStart(run="1", model="m"),
        InputEntry(input="i", text="go"),
        ItemEntry(item=UserText(text="go")),
        DeliveredEntry(inputs=("i",)),
        ItemEntry(item=call),
        UsageEntry(
            response="r",
            model="m",
            stop_reason="tool_use",
            usage=Usage(input=3, output=1),
            context_tokens=4,
        ),
        ToolStart(call_id="c", name="bash"),
        ItemEntry(item=ToolResult(call_id="c", summary="ok", content="x" * 80)),
        Prune(entries=("00000008",), tokens=(20,), saved=20),
        ItemEntry(item=AssistantText(text="done", response="s")),
        Label(target="00000003", label="start"),
        CompactionStart(
            compaction_id="k", reason="manual", mode="mechanical", tokens_before=9
        ),
        Compaction(
            compaction_id="k",
            reason="manual",
            mode="mechanical",
            summary="s",
            first_kept="0000000a",
            compacted_from="0000000c",
            tokens_before=9,
            tokens_after=3,
        ),
        RunEnd(run="1", outcome="finished", reason="done", exit_code=0),
        Leaf(target="0000000a"),
        ItemEntry(item=UserText(text="again")),
    )
    lines = run.splitlines(keepends=True)
    return Target(
        name="log",
        parse=parse_log,
        modules=(scan, codec, mend),
        seeds=(run, lines[0], b"".join(lines[:5]), b"".join(lines[:3]) + lines[2][:40]),
        words=quoted(
            '"seq":', '"id":"00000003"', '"parent":"00000002"', '"parent":null',
            '"type":"item"', '"type":"leaf"', '"type":"new"', '"target":', "\n", "\0" * 9,
            '"first_kept":"00000003"', '"entries":["00000008"]', '"format":2', "}{",
        ),
    )  # fmt: skip


# An answer's event stream.


def parse_stream(data: bytes) -> None:
    whole = _answer([data])
    pieces = _answer([data[at : at + 5] for at in range(0, len(data), 5)])
    assert whole == pieces, "in pieces it reads another way"
    if isinstance(whole, Response):
        items = [UserText(text="go"), *whole.items]
        mend_history(items, "cut off")


def _answer(pieces: list[bytes]) -> Response | str:
    fold = stream.Fold(limit=8_000)
    try:
        for piece in pieces:
            fold.feed(piece)
        return fold.end()
    except ProviderError as error:
        return error.failure.kind


def events(*told: dict[str, object]) -> bytes:
    return b"".join(
        b"event: %s\ndata: %s\n\n"
        % (str(event["type"]).encode(), json.dumps(event).encode())
        for event in told
    )


def event_stream() -> Target:
    start: dict[str, object] = {
        "type": "message_start",
        "message": {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
        },
    }
    stop: tuple[dict[str, object], ...] = (
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    )
    blocks_of: tuple[dict[str, object], ...] = (
        _block(0, {"type": "thinking", "thinking": "", "signature": ""}),
        _delta(0, {"type": "thinking_delta", "thinking": "hm"}),
        _delta(0, {"type": "signature_delta", "signature": "c2ln"}),
        {"type": "content_block_stop", "index": 0},
        _block(1, {"type": "text", "text": ""}),
        _delta(1, {"type": "text_delta", "text": "on it"}),
        {"type": "content_block_stop", "index": 1},
        {"type": "ping"},
        _block(2, {"type": "tool_use", "id": "t1", "name": "bash", "input": {}}),
        _delta(2, {"type": "input_json_delta", "partial_json": '{"command": "l'}),
        _delta(2, {"type": "input_json_delta", "partial_json": 's"}'}),
        {"type": "content_block_stop", "index": 2},
        _block(3, {"type": "redacted_thinking", "data": "eA=="}),
        {"type": "content_block_stop", "index": 3},
    )
    error: dict[str, object] = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
    }
    return Target(
        name="stream",
        parse=parse_stream,
        modules=(sse, stream, blocks),
        seeds=(
            events(start, *blocks_of, *stop),
            events(start, *blocks_of[4:7], *stop),
            events(start, *blocks_of[4:6], error),
            events(start, *blocks_of[8:11]),
            b'{"type":"error","error":{"type":"api_error","message":"no"}}',
            b": comment\r\n\r\ndata: x\rdata\nid: 1\nretry: 3\n\n",
        ),
        words=quoted(
            "event: ", "data: ", "\n\n", "\r\n\r\n", '"type":"text_delta"', '"index":1',
            '"index":-1', '"input_json_delta"', '"partial_json":"', "content_block_start",
            "message_stop", "message_start", '"usage":null', '"output_tokens":1e3', "ping",
            '"server_tool_use"', '"citations"', '"stop_reason":"end_turn"', "compaction",
        ),
    )  # fmt: skip


def _block(index: int, block: dict[str, object]) -> dict[str, object]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, delta: dict[str, object]) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


# The arguments of a call.

TOOLS: tuple[type[Struct], ...] = (
    bash.Arguments,
    edit_file.Arguments,
    glob.Arguments,
    grep.Arguments,
    read_file.Arguments,
    write_file.Arguments,
)


def parse_arguments(data: bytes) -> None:
    for type_ in TOOLS:
        try:
            arguments.parse(type_, data)
        except ToolError as error:
            _check_words([str(error)[:80].replace("\n", " ")])
            _check_length(str(error))


def tool_arguments() -> Target:
    return Target(
        name="arguments",
        parse=parse_arguments,
        modules=(arguments,),
        seeds=quoted(
            '{"command": "ls", "timeout": 3.5}',
            '{"path": "a", "edits": [{"old_text": "x", "new_text": "y"}]}',
            '{"pattern": "x", "path": ".", "glob": "*.py", "context": 2}',
            '{"path": "a", "offset": 1, "limit": 20}',
            '{"path": "a", "content": "b"}',
            "",
        ),
        words=quoted(
            '"command"', '"path"', '"edits"', '"old_text"', '"file_path"', ":", ",", "[{",
            "}]", "null", '"\\ud83d"', "3.0", "1e400", '"offset":', "-1", '"5"',
        ),
    )  # fmt: skip


# A line of the protocol, to a Pod and from one.


def parse_protocol(data: bytes) -> None:
    for line in data.split(b"\n"):
        try:
            request = messages.parse(line)
        except messages.BadRequest as error:
            _check_words([error.code, str(error)[:80].replace("\n", " ")])
            _check_length(str(error))
        else:
            again = messages.parse(messages.encode_request(request).rstrip(b"\n"))
            assert again == request, "written again it is another request"
        with suppress(reading.BadMessage):
            reading.read(line)


def protocol() -> Target:
    return Target(
        name="protocol",
        parse=parse_protocol,
        modules=(messages, reading),
        seeds=quoted(
            '{"id":1,"method":"prompt","params":{"text":"go"}}',
            '{"id":"a","method":"compact","params":{"instructions":"x","mode":"worker"}}',
            '{"id":2,"method":"navigate","params":{"target":"e1","summarize":true}}',
            '{"method":"subscribe","params":{"from_seq":0,"types":["item"]}}',
            '{"id":3,"method":"get_state"}\r\n{"id":4,"method":"shutdown"}',
            '{"id":1,"ok":true,"data":{"run":"r"}}',
            '{"id":1,"ok":false,"error":{"code":"busy","message":"no"}}',
            '{"v":1,"seq":3,"at":"","session":"s","run":"r","type":"input","id":"e",'
            '"input":"i","text":"go"}',
            '{"v":1,"session":"s","type":"compact_start","compaction_id":"c",'
            '"reason":"manual","mode":"worker","tokens_before":9,"seq":4,"id":"f"}',
        ),
        words=quoted(
            '"id":', '"method":', '"params":', '"ok":true', '"type":', "get_entries", "steer",
            "interrupt", "set_model", "answer_permission", '"snapshot"', '"compact_done"',
            "null", "-1", "[1]", '"seq":', '"text":',
        ),
    )  # fmt: skip


TARGETS: dict[str, Callable[[], Target]] = {
    "manifest": manifest,
    "log": log,
    "stream": event_stream,
    "arguments": tool_arguments,
    "protocol": protocol,
    "import": importers,
    "hooks": outside.hooks,
    "summary": outside.summaries,
    "errors": outside.errors,
    "gitignore": outside.gitignores,
    "overrides": outside.settings,
    "permissions": outside.permission_rules,
    "files": outside.files,
}
