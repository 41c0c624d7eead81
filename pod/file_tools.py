"""Which files a tool call reads and changes: Pod's tools, and those of other agents.

In an imported session tools keep their names; this table only lets a compaction
list the files. A tool that is not in it names none.
"""

import re
from typing import Literal

import msgspec
from msgspec import Struct

Use = Literal["read", "modify"]

TOOLS: dict[str, Use] = {
    "read_file": "read",
    "write_file": "modify",
    "edit_file": "modify",
    "read": "read",
    "Read": "read",
    "NotebookRead": "read",
    "view": "read",
    "open": "read",
    "view_image": "read",
    "write": "modify",
    "Write": "modify",
    "edit": "modify",
    "Edit": "modify",
    "MultiEdit": "modify",
    "NotebookEdit": "modify",
    "create": "modify",
    "apply_patch": "modify",
    "str_replace_editor": "modify",
    "str_replace_based_edit_tool": "modify",
}
"""Pod's own; then pi and oh-my-pi (small letters), Claude Code (capitals), Codex (apply_patch,
view_image), SWE-agent (open, create, str_replace_editor)."""

SHELLS = frozenset({"shell", "exec_command", "local_shell", "shell_command"})
"""Codex's shells; a patch comes through them as well."""

_PATCHED = re.compile(r"\*\*\* (?:Add|Update|Delete) File: ([^\n\\\"']+)")
_MOST = 100
"""Files of one call that are kept track of."""


class _Arguments(Struct):
    path: str = ""
    file_path: str = ""
    notebook_path: str = ""
    filename: str = ""
    command: str | list[str] | None = None


_arguments = msgspec.json.Decoder(_Arguments)


def use_of(name: str, arguments: str) -> Use | None:
    """Say what a call of this tool does to the files it names; None: nothing known."""
    if name in SHELLS:
        return "modify" if _PATCHED.search(arguments) else None
    use = TOOLS.get(name)
    if (
        use == "modify"
        and name.startswith("str_replace")
        and _command(arguments) == "view"
    ):
        return "read"
    return use


def paths_of(name: str, arguments: str) -> tuple[str, ...]:
    """Return the paths a call names, as it names them."""
    if use_of(name, arguments) is None:
        return ()
    if name in SHELLS or name == "apply_patch":
        return tuple(dict.fromkeys(_PATCHED.findall(arguments)))[:_MOST]
    try:
        found = _arguments.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return ()
    path = found.file_path or found.path or found.notebook_path or found.filename
    return (path,) if path else ()


def _command(arguments: str) -> str:
    try:
        command = _arguments.decode(arguments).command
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return ""
    return command if isinstance(command, str) else ""
