"""The tools that work on files, over one scope."""

from collections.abc import Callable, Collection

import trio

from tools.base import Tool
from tools.edit_file import EditFile
from tools.read_file import ReadFile
from tools.scope import Scope
from tools.write_file import WriteFile


def file_tools(scope: Scope, names: Collection[str]) -> list[Tool]:
    """Return the file tools among *names*, all over the same *scope*.

    Those that change files share a lock: calls of one response run at the same
    time, and two edits of one file must not undo each other.
    """
    lock = trio.Lock()
    makers: dict[str, Callable[[], Tool]] = {
        "read_file": lambda: ReadFile(scope),
        "write_file": lambda: WriteFile(scope, lock),
        "edit_file": lambda: EditFile(scope, lock),
    }
    return [make() for name, make in makers.items() if name in names]
