"""What a model can do."""

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.base import Tool
    from tools.scope import Scope

FILE_TOOLS = ("read_file", "write_file", "edit_file", "grep", "glob")
"""The tools that `file_tools` makes."""


def file_tools(scope: "Scope", names: Collection[str]) -> "list[Tool]":
    """Make those of the file tools that *names* holds; other names are passed over.

    Together they share one lock, so that no two calls write at a time.
    Blocks shortly: texts are loaded, and ripgrep is looked for.
    """
    # Here, for the search process imports this package and none of them.
    import trio

    from tools.edit_file import EditFile
    from tools.glob import GlobFiles
    from tools.grep import GrepFiles
    from tools.prefilter import find_rg
    from tools.read_file import ReadFile
    from tools.write_file import WriteFile

    lock = trio.Lock()
    tools: list[Tool] = []
    if "read_file" in names:
        tools.append(ReadFile(scope))
    if "write_file" in names:
        tools.append(WriteFile(scope, lock))
    if "edit_file" in names:
        tools.append(EditFile(scope, lock))
    if "grep" in names:
        tools.append(GrepFiles(scope, find_rg(scope.write_roots)))
    if "glob" in names:
        tools.append(GlobFiles(scope))
    return tools
