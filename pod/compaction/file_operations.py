"""Which files the summarised part of a session read and changed."""

from collections.abc import Iterable, Sequence

from pod.entries import (
    AnyEntry,
    BranchSummary,
    Compaction,
    FileDetails,
    ItemEntry,
)
from pod.file_tools import Use, paths_of, use_of
from worker.items import Item, ToolCall, ToolResult


def file_details(
    head: Sequence[Item],
    previous: Compaction | None,
    branches: Iterable[BranchSummary] = (),
) -> FileDetails:
    """Return the files of *head*, added to those of the compaction before.

    *branches* are the summaries of other branches in it. What a hook made of
    any of these does not count. Only calls that succeeded do. The file touched
    last comes last; one that was also modified is not among those read.
    """
    touched = _Touched()
    for entry in (previous, *branches):
        if entry is not None and not entry.from_hook:
            touched.details(entry.details)
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
        for use, paths in _operations(items):
            self._touch(self._modified if use == "modify" else self._read, paths)

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


def _operations(items: Sequence[Item]) -> Iterable[tuple[Use, tuple[str, ...]]]:
    """Give the use and the paths of each successful call that names files."""
    calls = {item.call_id: item for item in items if isinstance(item, ToolCall)}
    for item in items:
        if not isinstance(item, ToolResult) or item.is_error:
            continue
        call = calls.get(item.call_id)
        use = None if call is None else use_of(call.name, call.arguments)
        if call is None or use is None:
            continue
        paths = item.referenced_files or paths_of(call.name, call.arguments)
        if paths:
            yield use, paths
