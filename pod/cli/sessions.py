"""``pod session``: list, show, repair."""

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from pod.cli.flags import Workplace
from pod.cli.folder import load_in
from pod.cli.receipts import Told, chosen, compactions, event_line, receipt_lines
from pod.cli.streams import give, say
from pod.entries import (
    AnyEntry,
    BranchSummary,
    CustomMessage,
    HandedBack,
    InputEntry,
    ItemEntry,
    Label,
    Leaf,
    ModelChange,
    NavigationFailed,
    Notice,
    Permission,
    PromptChange,
    RunEnd,
    RunStart,
    SandboxChange,
    SessionInfo,
    ToolStart,
    TurnAbandoned,
    UsageEntry,
)
from pod.events import line
from pod.exits import Exit
from pod.log import read_log
from pod.path_text import path_text
from pod.repair import repair
from pod.scan import Damage, Scan
from pod.store import Listed, Store
from tools.text import counted, short_line
from worker.items import (
    AssistantText,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)

WIDTH = 100
"""Characters of a text that a line of ``show`` has room for."""
BYTE = re.compile(r" \(byte \d+\)")
"""How a decoder ends its message."""


def store_of(place: Workplace) -> Store:
    """Return the store of the manifest's sessions. Raises UsageError, ManifestError."""
    _, loaded = load_in(place)
    return Store(loaded.session_dir)


def list_all(place: Workplace, *, everywhere: bool, as_json: bool) -> int:
    """Print the sessions of the working folder, or all; the newest first."""
    cwd, loaded = load_in(place)
    store = Store(loaded.session_dir)
    found = [
        one
        for one in store.sessions()
        if everywhere or one.header is None or one.header.cwd == path_text(cwd)
    ]
    if as_json:
        for one in found:
            give(msgspec.json.encode(_plain(one)).decode() + "\n")
        return Exit.DONE
    for one in found:
        give(_listed_line(one, everywhere=everywhere) + "\n")
    if not found:
        where = store.folder if everywhere else f"{cwd} in {store.folder}"
        say(f"pod: no session of {where}\n")
    return Exit.DONE


class _Plain(msgspec.Struct, frozen=True):
    """One line of ``list --json``."""

    id: str
    path: str
    cwd: str | None
    modified: str
    size: int
    entries: int
    outcome: str
    name: str
    prompt: str
    broken: str
    damaged: bool


def _plain(one: Listed) -> _Plain:
    return _Plain(
        id=one.id,
        path=path_text(one.path),
        cwd=None if one.header is None else one.header.cwd,
        modified=_moment(one.modified),
        size=one.size,
        entries=one.entries,
        outcome=one.outcome,
        name=one.name,
        prompt=one.prompt,
        broken=one.broken,
        damaged=one.damaged,
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _listed_line(one: Listed, *, everywhere: bool) -> str:
    if one.broken:
        return f"{one.id}  broken: {one.broken}"
    where = f"  {one.header.cwd}" if everywhere and one.header else ""
    said = one.name or one.prompt
    state = "damaged" if one.damaged else one.outcome or "open"
    local = datetime.fromtimestamp(one.modified)
    return (
        f"{one.id}  {local:%Y-%m-%d %H:%M}"
        f"  {state:9}  {one.entries:5} entries{where}"
        f"  {short_line(said, 60)}"
    )


def show_one(
    session: str, place: Workplace, *, compaction: int | None, as_json: bool
) -> int:
    """Print what a session consists of; as JSON the same events its run gave.

    With *compaction* only the receipt of that one, or its events. Raises
    UsageError where there is none of that number.
    """
    path = store_of(place).find(session)
    scan = read_log(path)
    told = compactions(scan.entries)
    if compaction is not None:
        one = chosen([*told.values()], compaction, path.stem)
        _print_compaction(one, path, of=len(told), as_json=as_json)
        return Exit.DONE
    if as_json:
        for entry in scan.entries:
            give(line(entry, session=path.stem).decode())
        return Exit.DONE
    _print_head(path, scan)
    for entry in scan.entries:
        if text := entry_line(entry) or event_line(entry, told):
            give(f"{entry.seq:5}  {entry.id}  {text}\n")
    for damage in scan.damage:
        say(f"pod: {path}:{damage.line}: {damage_text(damage)}\n")
    if scan.damage:
        say(
            f"pod: 'pod session repair {path.stem}' puts a mended log in its place"
            " and keeps the damaged one beside it\n"
        )
    return Exit.FAILED if scan.damage else Exit.DONE


def damage_text(damage: Damage) -> str:
    """Return the reason, and the byte in the file unless it is told already.

    A decoder names the byte in the line, which misleads beside the other.
    """
    reason = BYTE.sub("", damage.reason)
    return f"{reason} (byte {damage.offset})"


def _print_compaction(told: Told, path: Path, *, of: int, as_json: bool) -> None:
    if not as_json:
        give("\n".join(receipt_lines(told, of=of)) + "\n")
        return
    for entry in (told.start, told.end):
        if entry is not None:
            give(line(entry, session=path.stem).decode())


def _print_head(path: Path, scan: Scan) -> None:
    header = scan.header
    if header is None:
        return
    of = f", a fork of {header.parent_session}" if header.parent_session else ""
    give(
        f"session {header.id} of {header.pod or 'pod'}{of}\n"
        f"begun   {header.at} in {header.cwd}\n"
        f"log     {path}\n\n"
    )


def entry_line(entry: AnyEntry) -> str:
    """Return an entry in a line for a person; "" for one that only programs need."""
    match entry:
        case ItemEntry():
            return item_line(entry.item)
        case InputEntry():
            return ""
        case RunStart():
            return f"run begins with {entry.model}" + (
                ", resumed" if entry.resumed else ""
            )
        case RunEnd():
            cost = "" if entry.cost_usd is None else f", ${entry.cost_usd:.4f}"
            said = f": {short_line(entry.message, WIDTH)}" if entry.message else ""
            return (
                f"run {entry.outcome} ({entry.reason}) after {entry.seconds:.1f} s,"
                f" {counted(entry.requests, 'request')},"
                f" {entry.usage.total:,} tokens{cost}{said}"
            )
        case UsageEntry():
            usage = entry.usage
            tokens = (
                "usage unknown"
                if usage is None
                else f"{usage.prompt:,} in ({usage.cache_read:,} cached),"
                f" {usage.output:,} out"
            )
            return f"  request: {tokens}, {entry.stop_reason}, {entry.seconds:.1f} s"
        case HandedBack(texts=texts):
            said = "; ".join(short_line(text, WIDTH) for text in texts)
            return f"  handed back: {said}"
        case TurnAbandoned():
            return "the open turn was given up"
        case Permission(tool=tool, decision=decision, by=by, rule=rule):
            word = {"allow": "allowed", "deny": "denied", "stop": "stopped the run"}
            told = f" ({rule})" if rule else ""
            return f"  permission: {tool} {word[decision]} by {by}{told}"
        case ToolStart():
            return ""
        case ModelChange():
            return f"model: {entry.previous} to {entry.model}"
        case SandboxChange():
            return f"sandbox: {entry.previous} to {entry.tier}"
        case PromptChange():
            return f"system prompt changed: {short_line(entry.system, WIDTH)}"
        case SessionInfo():
            return f"named {entry.name!r}"
        case Label():
            return f"label of {entry.target}: {entry.label!r}"
        case Leaf():
            return f"goes on from {entry.target or 'the beginning'}"
        case BranchSummary(from_id=left, summary=text):
            return short_line(f"branch summary of {left}: {text}", WIDTH)
        case NavigationFailed(target=target, code=code, message=text):
            where = target or "the beginning"
            return short_line(f"! did not go to {where}: {code}: {text}", WIDTH)
        case CustomMessage():
            return short_line(f"{entry.kind}: {entry.text}", WIDTH)
        case Notice():
            return f"! {entry.message}"
        case _:
            return ""


def item_line(item: Item) -> str:
    """Return an item in a line for a person."""
    match item:
        case SystemText(text=text):
            return f"system     {short_line(text, WIDTH)}"
        case UserText(text=text):
            who = "pod as user" if item.synthetic else "user"
            return f"{who:10} {short_line(text, WIDTH)}"
        case AssistantText(text=text):
            return f"assistant  {short_line(text, WIDTH)}"
        case Reasoning(text=text):
            return f"reasoning  {short_line(text or '(redacted)', WIDTH)}"
        case ToolCall():
            return f"call       {short_line(f'{item.name} {item.arguments}', WIDTH)}"
        case ToolResult():
            mark = "error " if item.is_error else "result"
            return f"{mark}     {short_line(item.summary, WIDTH)}"
        case Opaque(json=json):
            return f"block      {short_line(json, WIDTH)}"


def repair_one(session: str, place: Workplace) -> int:
    """Repair a session's log and say what was lost."""
    path = store_of(place).find(session)
    repaired = repair(path)
    for text in repaired.report:
        give(text + "\n")
    if repaired.damaged is None:
        give(f"{path} is whole: nothing to repair\n")
    else:
        give(f"repaired; the damaged log is kept as {repaired.damaged}\n")
    return Exit.DONE
