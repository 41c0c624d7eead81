"""The four tools of a compact worker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import trio
from msgspec import Meta, Struct

from prompts import load
from tools.arguments import parse, schema_of
from tools.base import Call, Tool, ToolError, ToolOutput
from tools.read_file import PAGE_BYTES, Arguments as ReadArguments, ReadFile
from tools.scope import FolderError, Scope
from worker.compact.auto_read import BYTES_PER_TOKEN, FileLines, read_lines
from worker.compact.budget import AutoReadBudget
from worker.compact.draft import Draft
from worker.compact.guard import InputGuard
from worker.compact.order import CallOrder
from worker.compact.task import Mark

READS = 5
"""So many reads of the largest size fit before the warning: the default references."""

LEAST_READ = 200
"""Tokens; a read that may show less than this is not worth its request."""

_TRIES = 6

Count = Callable[[str], int]


Positive = Annotated[int, Meta(ge=1)]


class MarkArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file; relative to the working folder.")]
    offset: Annotated[
        Positive | None, Meta(description="The first line, counted from 1.")
    ] = None
    limit: Annotated[Positive | None, Meta(description="How many lines.")] = None


class PathArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file; relative to the working folder.")]


class SummaryArguments(Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(description="The whole summary, in Markdown.")]


class Read:
    """read_file: text only, at most *max_tokens* a call, less where less has room."""

    name = "read_file"
    has_effects = False

    def __init__(
        self, scope: Scope, *, max_tokens: int, guard: InputGuard, count: Count
    ) -> None:
        self._scope = scope
        self._max_tokens = max_tokens
        self._guard = guard
        self._count = count
        self.description = load("compact_read_file")
        self.parameters = ReadFile(scope).parameters

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        """Read lines; the page is made smaller until it fits. Raises ToolError."""
        with _no_folders(self._scope, parse(ReadArguments, arguments).path):
            return await self._run(arguments, call)

    async def _run(self, arguments: bytes, call: Call) -> ToolOutput:
        max_tokens = min(self._max_tokens, self._guard.room)
        if max_tokens < LEAST_READ:
            raise ToolError(self._guard.refusal())
        max_bytes = min(PAGE_BYTES, max_tokens * 4)
        for _ in range(_TRIES):
            tool = ReadFile(self._scope, max_bytes=max_bytes)
            output = await tool.run(arguments, call)
            if output.images:
                raise ToolError(
                    f"{output.summary}; pictures are not shown here. Name it with"
                    " add_reference if it matters."
                )
            tokens = self._count(output.content or output.summary)
            if tokens <= max_tokens:
                return output
            max_bytes = max_bytes * max_tokens * 9 // (tokens * 10)
        raise ToolError(
            "these lines are too long to be shown here. Mark them unseen, or name"
            " the file with add_reference."
        )


@contextmanager
def _no_folders(scope: Scope, path: str) -> Iterator[None]:
    """Say what to do about a folder: there is no tool here that lists one."""
    try:
        yield
    except FolderError:
        text = f"{scope.shown(path)} is a folder: give a file in it"
        raise ToolError(text) from None


class MarkReadRequired:
    """mark_read_required: lines that will be put in front of the model."""

    name = "mark_read_required"
    has_effects = False

    def __init__(
        self,
        scope: Scope,
        budget: AutoReadBudget,
        *,
        max_tokens: int,
        cost: Callable[[FileLines], int],
        marked: Callable[[], None],
    ) -> None:
        self._scope = scope
        self._budget = budget
        self._max_tokens = max_tokens
        self._cost = cost
        self._marked = marked
        self.description = load("compact_mark_read_required")
        self.parameters = schema_of(MarkArguments)

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        """Mark lines. Raises ToolError where the budget or the file does not allow it."""
        wanted = parse(MarkArguments, arguments)
        with _no_folders(self._scope, wanted.path):
            lines = await trio.to_thread.run_sync(
                self._read,
                wanted,
                trio.from_thread.check_cancelled,
                abandon_on_cancel=True,
            )
        mark = Mark(lines.path, lines.start, lines.end, self._tokens(lines))
        answer = self._budget.mark(mark)
        self._marked()
        return ToolOutput(answer, referenced_files=(lines.path,))

    def _read(self, wanted: MarkArguments, check: Callable[[], None]) -> FileLines:
        start = wanted.offset
        end = None if wanted.limit is None else (start or 1) + wanted.limit - 1
        max_bytes = self._max_tokens * BYTES_PER_TOKEN
        return read_lines(
            self._scope, wanted.path, start, end, max_bytes=max_bytes, check=check
        )

    def _tokens(self, lines: FileLines) -> int:
        tokens = self._cost(lines)
        # What is cut has more than any budget has, however few tokens are seen.
        return max(tokens, self._max_tokens + 1) if lines.is_cut else tokens


class AddReference:
    """add_reference: a file by name."""

    name = "add_reference"
    has_effects = False

    def __init__(self, scope: Scope, budget: AutoReadBudget) -> None:
        self._scope = scope
        self._budget = budget
        self.description = load("compact_add_reference")
        self.parameters = schema_of(PathArguments)

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        """Name a file. Raises ToolError for what is none."""
        path = parse(PathArguments, arguments).path
        absolute = self._scope.absolute(path)
        if absolute not in self._budget.known:
            with _no_folders(self._scope, path):
                await trio.to_thread.run_sync(self._check, path)
        done = self._budget.add_reference(absolute)
        back = f" {done.refunded} tokens given back." if done.refunded else ""
        files = "file" if done.length == 1 else "files"
        return ToolOutput(f"Referenced. The list has {done.length} {files}.{back}")

    def _check(self, path: str) -> None:
        self._scope.open_read(path).file.close()


class WriteSummary:
    """write_summary: the last text counts."""

    name = "write_summary"
    has_effects = False

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.description = load("compact_write_summary")
        self.parameters = schema_of(SummaryArguments)

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        """Take the summary. Raises ToolError where it is empty."""
        await trio.lowlevel.checkpoint()
        text = parse(SummaryArguments, arguments).text
        if not text.strip():
            raise ToolError("the summary is empty: call write_summary with its text")
        return ToolOutput(self._draft.write(text))


class Guarded:
    """A tool whose results are admitted against the input cap, and carry notes.

    Its calls must be expected by *order*. *admitted* learns the id of each call
    whose result was counted here.
    """

    def __init__(
        self,
        tool: Tool,
        *,
        guard: InputGuard,
        budget: AutoReadBudget,
        count: Count,
        order: CallOrder,
        admitted: Callable[[str], None],
    ) -> None:
        self._tool = tool
        self._order = order
        self._guard = guard
        self._budget = budget
        self._count = count
        self._admitted = admitted
        self.name = tool.name
        self.description = tool.description
        self.parameters = tool.parameters
        self.has_effects = tool.has_effects

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        """Run the tool when it is its turn, unless the end is near. Raises ToolError."""
        async with self._order.turn(call.call_id):
            return await self._run(arguments, call)

    async def _run(self, arguments: bytes, call: Call) -> ToolOutput:
        if self._guard.is_closing and self.name != WriteSummary.name:
            raise ToolError(self._guard.refusal())
        output = await self._tool.run(arguments, call)
        text = output.content or output.summary
        tokens = self._count(text)
        if self.name != Read.name:  # it is done, and its answer is short
            self._guard.add(tokens)
        elif not self._guard.admit(tokens):
            raise ToolError(self._guard.no_room(tokens))
        self._admitted(call.call_id)
        return self._noted(output, text)

    def _noted(self, output: ToolOutput, text: str) -> ToolOutput:
        notes = [n for n in (self._budget.reminder(), self._guard.warning()) if n]
        if not notes:
            return output
        self._guard.add(sum(self._count(note) + 1 for note in notes))
        return ToolOutput(
            summary=output.summary,
            content="\n".join([text, *notes]),
            referenced_files=output.referenced_files,
        )
