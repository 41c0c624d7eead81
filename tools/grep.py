"""The tool that looks for a pattern in files."""

from contextlib import ExitStack
from typing import Annotated

import trio
from msgspec import Meta, Struct

from tools.arguments import parse, schema_of
from tools.base import Call, ToolOutput
from tools.descriptions import description_of
from tools.scope import Scope
from tools.search import End, FileMatches, Grep as Request, Line
from tools.search_process import SECONDS, Found, run_search
from tools.start import Start, open_start
from tools.text import one_line


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[
        str, Meta(min_length=1, description="A regular expression, Python's syntax.")
    ]
    path: Annotated[str, Meta(description="The folder or file to search.")] = "."
    glob: Annotated[
        str | None,
        Meta(
            description='Only files like this: "*.py", "src/**/*.{ts,tsx}", "!*.min.js".'
        ),
    ] = None
    ignore_case: Annotated[
        bool, Meta(description="Take upper and lower case as the same.")
    ] = False
    context: Annotated[
        int, Meta(ge=0, le=20, description="Lines to show around each match.")
    ] = 0
    max_matches: Annotated[
        int, Meta(ge=1, le=1000, description="Stop after so many matching lines.")
    ] = 100


class GrepFiles:
    """grep: matching lines of the files below a folder, in the order of their paths.

    Each line is searched by itself, and a pattern means what it means to
    Python's `re`. With *rg* (a path) ripgrep sorts out beforehand the files
    that cannot match, which is faster and changes nothing else, but that a
    file on which Python takes too long may be out before. Rules:
    .gitignore counts (outside of repositories too), version control folders
    are left out, other hidden files are searched; binary files, symbolic
    links and files over 50 MiB are not.
    """

    name = "grep"
    has_effects = False

    def __init__(
        self, scope: Scope, rg: str | None = None, *, seconds: float = SECONDS
    ) -> None:
        """Search in *scope*; after *seconds* what was found so far is the answer."""
        self._scope = scope
        self._rg = rg
        self._seconds = seconds
        self.description = description_of(self.name)
        self.parameters = schema_of(Arguments)

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        """Search. Raises ToolError."""
        wanted = parse(Arguments, arguments)
        matches: list[FileMatches] = []

        def found(frame: Found) -> None:
            if isinstance(frame, FileMatches):
                matches.append(frame)
                call.progress(f"matches in {len(matches)} files")

        end: End | None = None
        with ExitStack() as stack:
            start = await trio.to_thread.run_sync(
                stack.enter_context, open_start(self._scope, wanted.path)
            )
            with trio.move_on_after(self._seconds):
                end = await run_search(self._request(wanted, start), [start.fd], found)
        return _answer(wanted, start, matches, end, self._seconds)

    def _request(self, wanted: Arguments, start: Start) -> Request:
        return Request(
            start=start.fd,
            is_folder=start.is_folder,
            name=start.shown,
            above=start.above,
            pattern=wanted.pattern,
            ignore_case=wanted.ignore_case,
            glob=wanted.glob,
            context=wanted.context,
            max_matches=wanted.max_matches,
            rg=self._rg,
        )


def _answer(
    wanted: Arguments,
    start: Start,
    matches: list[FileMatches],
    end: End | None,
    seconds: float,
) -> ToolOutput:
    count = sum(line.is_match for file in matches for line in file.lines)
    pattern = one_line(wanted.pattern)
    summary = f'grep "{pattern[:80]}" in {start.shown}: '
    if count:
        summary += f"{count} matching lines in {len(matches)} files"
        summary += " so far" if end is None else ""
    elif end is not None:
        summary += f"no match in {end.files} files"
    notes = []
    if end is None:
        notes.append(
            f"stopped after {seconds:g} s: search a smaller folder, "
            "or with a glob or a simpler pattern"
        )
    elif end.is_cut:
        notes.append("there are more matches: search more narrowly")
    if end is not None and end.too_large:
        notes.append(f"{end.too_large} files over 50 MiB were not searched")
    if end is not None and end.too_slow:
        notes.append(
            f"{end.too_slow} files were given up, where this pattern takes too long: "
            "use a simpler one"
        )
    if end is not None and not end.files:
        notes.append("files that .gitignore leaves out are not searched")
    summary += "".join(f"; {note}" for note in notes) if not count else ""
    if not count:
        return ToolOutput(summary)
    texts = [
        _shown(start.prefix + file.path, file.lines, has_gaps=wanted.context > 0)
        for file in matches
    ]
    tail = f"\n[{'; '.join(notes)}]" if notes else ""
    return ToolOutput(summary, content="\n\n".join(texts) + tail)


def _shown(path: str, lines: tuple[Line, ...], *, has_gaps: bool) -> str:
    shown = [path]
    last = lines[0].number
    for line in lines:
        if has_gaps and line.number > last + 1:
            shown.append("--")
        last = line.number
        shown.append(f"{line.number}{':' if line.is_match else '-'}{line.text}")
    return "\n".join(shown)
