"""Imports files in tests, and looks at what came of it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pod.context import context
from pod.entries import AnyEntry, Compaction
from pod.importing.format import NotImportable
from pod.importing.importer import Imported, import_file
from pod.log import read_undamaged
from pod.store import Store
from pod.tree import Tree
from pod.view import View
from worker.history import faults, unanswered
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

Json = Mapping[str, object]


def write_lines(file: Path, lines: Sequence[Json]) -> Path:
    """Write JSON lines as other agents do."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    file.write_text(text, encoding="utf-8")
    return file


def take(file: Path, folder: Path) -> Imported:
    """Import *file* into a store in *folder*."""
    return import_file(
        file, Store(folder / "sessions"), cwd="/work", system="You are a Pod.", pod="p"
    )


def taken(file: Path, folder: Path) -> Imported | str:
    """Import a file, or return why it is refused."""
    try:
        return take(file, folder)
    except NotImportable as error:
        return str(error)


def entries_of(done: Imported) -> list[AnyEntry]:
    """Return the log's entries; the log is whole."""
    _, scan = read_undamaged(done.path)
    assert scan.torn is None
    return scan.entries


def shown(done: Imported) -> list[Item]:
    """Return the context at the leaf."""
    tree = Tree(entries_of(done))
    return context(tree.path(tree.leaf))


def wrongs(entries: Sequence[AnyEntry]) -> list[str]:
    """Return what breaks an invariant on the path to any tip of the tree."""
    tree = Tree(entries)
    parents = {entry.parent for entry in entries}
    tips = [entry.id for entry in entries if entry.id not in parents]
    found: list[str] = []
    for tip in [tree.leaf, *tips]:
        view = View(tree.path(tip))
        found += [problem.message for problem in view.problems]
        found += [fault.message for fault in faults(view.items)]
        found += [f"{call.name} unanswered" for call in unanswered(view.items)]
    return found


def compactions(done: Imported) -> list[Compaction]:
    return [entry for entry in entries_of(done) if isinstance(entry, Compaction)]


def brief(item: Item) -> str:
    """Return an item in a few characters: its kind and how it begins."""
    match item:
        case SystemText(text=text):
            return f"system {text[:30]}"
        case UserText(text=text):
            return f"{'pod' if item.synthetic else 'user'} {text[:30]}"
        case AssistantText(text=text):
            return f"said {text[:30]}"
        case Reasoning(text=text):
            return f"thought {text[:30]}"
        case ToolCall():
            return f"call {item.name} {item.arguments}"
        case ToolResult():
            mark = "error" if item.is_error else "result"
            return f"{mark} {(item.content or item.summary)[:30]}"
        case Opaque():
            return "block"
