"""Which files the summarised part of a session read and changed."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from pod.entries import (
    AnyEntry,
    BranchSummary,
    Compaction,
    FileDetails,
    ItemEntry,
)
from worker.items import Item, ToolCall, ToolResult

READ = frozenset({"read_file"})
MODIFY = frozenset({"write_file", "edit_file"})


def file_details(head: Sequence[Item], previous: Compaction | None) -> FileDetails:
    """Return the files of *head*, added to those of the compaction before.

    What a hook made of a compaction before does not count. Only calls that
    succeeded do. The file touched last comes last; one that was also modified
    is not among those read.
    """
    touched = _Touched()
    if previous is not None and not previous.from_hook:
        touched.details(previous.details)
    touched.items(head)
    return touched.found()


def branch_details(entries: Iterable[AnyEntry]) -> FileDetails:
    """Return the files of a whole branch, whatever of it a summary has room for.

    What its own compactions and branch summaries say is in it, what hooks made
    of them is not. Otherwise as file_details.
    """
    touched = _Touched()
    stretch: list[Item] = []
    for entry in entries:
        if isinstance(entry, ItemEntry):
            stretch.append(entry.item)
        elif isinstance(entry, Compaction | BranchSummary) and not entry.from_hook:
            touched.items(stretch)
            stretch = [item for item in stretch if isinstance(item, ToolCall)]
            touched.details(entry.details)
    touched.items(stretch)
    return touched.found()


class _Touched:
    """Files in the order in which they were touched last."""

    def __init__(self) -> None:
        self._read: dict[str, None] = {}
        self._modified: dict[str, None] = {}

    def items(self, items: Sequence[Item]) -> None:
        for name, paths in _operations(items):
            self._touch(self._modified if name in MODIFY else self._read, paths)

    def details(self, details: FileDetails) -> None:
        self._touch(self._read, details.read_files)
        self._touch(self._modified, details.modified_files)

    def _touch(self, touched: dict[str, None], paths: Iterable[str]) -> None:
        for path in paths:
            touched.pop(path, None)
            touched[path] = None

    def found(self) -> FileDetails:
        return FileDetails(
            read_files=tuple(p for p in self._read if p not in self._modified),
            modified_files=tuple(self._modified),
        )


def _operations(items: Sequence[Item]) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Give the tool and the paths of each successful call that names files."""
    calls = {item.call_id: item for item in items if isinstance(item, ToolCall)}
    for item in items:
        if not isinstance(item, ToolResult) or item.is_error:
            continue
        call = calls.get(item.call_id)
        if call is None or call.name not in READ | MODIFY:
            continue
        if paths := item.referenced_files or _named(call):
            yield call.name, paths


class _Path(Struct):
    path: str = ""


def _named(call: ToolCall) -> tuple[str, ...]:
    try:
        path = msgspec.json.decode(call.arguments, type=_Path).path
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return ()
    return (path,) if path else ()
