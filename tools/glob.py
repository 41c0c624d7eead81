"""The tool that lists files by their names."""

from contextlib import ExitStack
from typing import Annotated

import trio
from msgspec import Meta, Struct

from tools.arguments import parse, schema_of
from tools.base import Call, ToolError, ToolOutput
from tools.descriptions import description_of
from tools.patterns import split_base
from tools.scope import Scope
from tools.search import End, Glob as Request, Listed
from tools.search_process import SECONDS, Found, run_search
from tools.start import Start, open_start
from tools.text import one_line

MOST_PATHS = 500
"""What one call lists."""


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[
        str, Meta(min_length=1, description='Like "**/*.py", "src/*", "*.{md,txt}".')
    ]
    path: Annotated[str, Meta(description="The folder the pattern begins in.")] = "."


class GlobFiles:
    """glob: the files that match, in the order of their paths, at most 500.

    Rules: .gitignore counts (outside of repositories too), version control
    folders and symbolic links are left out, other hidden files are listed.
    Folders are listed (with "/") where the pattern has no "**".
    """

    name = "glob"
    has_effects = False

    def __init__(self, scope: Scope, *, seconds: float = SECONDS) -> None:
        """Look in *scope*; after *seconds* what was found so far is the answer."""
        self._scope = scope
        self._seconds = seconds
        self.description = description_of(self.name)
        self.parameters = schema_of(Arguments)

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        """List files. Raises ToolError."""
        wanted = parse(Arguments, arguments)
        base, pattern = split_base(wanted.pattern)
        folder = base if base.startswith("/") else f"{wanted.path}/{base}"
        paths: list[str] = []

        def found(frame: Found) -> None:
            if isinstance(frame, Listed):
                paths.append(frame.path)

        end: End | None = None
        with ExitStack() as stack:
            start = await trio.to_thread.run_sync(
                stack.enter_context, open_start(self._scope, folder)
            )
            if not start.is_folder:
                raise ToolError(f"{start.shown} is no folder: use read_file")
            request = Request(start.fd, start.above, pattern or "*", MOST_PATHS)
            with trio.move_on_after(self._seconds):
                end = await run_search(request, [start.fd], found)
        return _answer(wanted, start, paths, end, self._seconds)


def _answer(
    wanted: Arguments, start: Start, paths: list[str], end: End | None, seconds: float
) -> ToolOutput:
    count = end.files if end is not None else len(paths)
    pattern = one_line(wanted.pattern)[:80]
    summary = f'glob "{pattern}" in {one_line(wanted.path)}: {count or "no"} files'
    if end is None:
        summary += " so far"
    notes = []
    if end is None:
        notes.append(f"stopped after {seconds:g} s: look in a smaller folder")
    elif end.is_cut:
        notes.append(
            f"these are the first {len(paths)} of {count}: use a narrower pattern"
        )
    if not paths:
        if end is not None and "**" not in pattern:
            notes.append('"**/" before a name looks at any depth')
        return ToolOutput("; ".join([summary, *notes]))
    tail = f"\n[{'; '.join(notes)}]" if notes else ""
    shown = "\n".join(start.prefix + path for path in paths)
    return ToolOutput(summary, content=shown + tail)
