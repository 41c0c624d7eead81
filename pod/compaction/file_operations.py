"""Which files the summarised part of a session read and changed."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from pod.entries import Compaction, FileDetails
from worker.items import Item, ToolCall, ToolResult

READ = frozenset({"read_file"})
MODIFY = frozenset({"write_file", "edit_file"})


def file_details(head: Sequence[Item], previous: Compaction | None) -> FileDetails:
    """Return the files of *head*, added to those of the compaction before.

    What a hook made of a compaction before does not count. Only calls that
    succeeded do. The file touched last comes last; one that was also modified
    is not among those read.
    """
    read: dict[str, None] = {}
    modified: dict[str, None] = {}
    if previous is not None and not previous.from_hook:
        read |= dict.fromkeys(previous.details.read_files)
        modified |= dict.fromkeys(previous.details.modified_files)
    for name, paths in _operations(head):
        for path in paths:
            touched = modified if name in MODIFY else read
            touched.pop(path, None)
            touched[path] = None
    return FileDetails(
        read_files=tuple(path for path in read if path not in modified),
        modified_files=tuple(modified),
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
