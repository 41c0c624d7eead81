"""``pod demo``: survey a folder, offline and without a key, as a real run."""

import os
import shlex
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import trio
from msgspec import Struct

from pod.cli.demo_report import Place, place_of, takes_files
from pod.cli.failing import UsageError
from pod.cli.folder import working_folder
from pod.cli.options import Options
from pod.cli.output import Output
from pod.cli.receipts import done_line, failed_line
from pod.cli.run import run_parts
from pod.cli.streams import kept_for_results, say, write_result
from pod.entries import AnyEntry, Compaction, CompactionFailed, RunEnd
from pod.exits import Exit
from pod.load_manifest import Loaded
from pod.merge import merge
from pod.session import Session
from pod.setup import assemble
from pod.store import default_folder
from pod.survey import survey
from pod.survey.task import Task, prompt_for
from pod.toml_text import quoted
from tools.text import counted
from worker.client import Client, OpenClient

WINDOW = 1_000_000
"""Tokens. What the survey reads at most has room in it; so large are real ones, too."""

MOST_REQUESTS = 400
"""Several times what a survey takes: it ends by itself, and must not go on for ever."""

TURN_THRESHOLD = 50_000
"""Tokens. Low enough that a survey is compacted several times, high enough that what
it has to see at once, the list of files and a batch of them, has room."""
COMPACTION = (
    f"compaction.turn_threshold={TURN_THRESHOLD}",
    "compaction.retained_tokens=4_000",
    "compaction.auto_read_budget=2_000",
    "compaction.summary_target=1_000",
    "compaction.summary_cap=2_000",
    "compaction.overview_tokens=4_000",
)

BARE = (
    "pod: no sandbox works here (`pod doctor` says why); the demo's commands, which are"
    " Pod's own, run without one"
)
API_KEY = "loopback"
HTTP_MODEL = "claude-survey"


def run_demo(
    folder: Path | None, *, http: bool, output: Path | None, quiet: bool
) -> int:
    """Survey *folder* (None: the current one) into a report; return the exit code.

    The report goes to *output*, or into the folder, or where there is room.
    *http* goes through the loopback server and the SDK. Raises UsageError.
    """
    where = _folder(folder)
    report = place_of(where, output)
    bare = _without_sandbox()
    if bare and not quiet:
        say(BARE)
    demo = _Demo(where, report, (*_settings(where, report, http=http), *bare))
    return trio.run(_run, demo, http, quiet)


class _Demo(Struct, frozen=True):
    """One demo: the folder, the report, and the manifest's values, as for ``-c``."""

    folder: Path
    report: Place
    settings: tuple[str, ...]

    @property
    def loaded(self) -> Loaded:
        merged = merge(None, "", self.settings)
        return Loaded(merged.manifest, merged.sources, self.folder, None)

    @property
    def prompt(self) -> str:
        path = self.report.path
        inside = path.is_relative_to(self.folder)
        shown = path.relative_to(self.folder) if inside else path
        return prompt_for(Task(folder=str(self.folder), report=str(shown)))


def _folder(folder: Path | None) -> Path:
    named = folder or working_folder(None)
    if named.is_file():
        raise UsageError(f"{named} is a file: name a folder to survey")
    if not named.is_dir():
        raise UsageError(f"{named}: there is no such folder to survey")
    where = named.resolve()
    if not os.access(where, os.R_OK | os.X_OK):
        raise UsageError(f"{where} cannot be read: survey another folder")
    try:
        str(where).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{str(where)!r}: the folder's name is no UTF-8, no tool can be told of it"
        ) from None
    return where


def _settings(folder: Path, report: Place, *, http: bool) -> tuple[str, ...]:
    parent = report.path.parent
    root = "." if parent == folder else str(parent)
    model = (
        ('model.provider="anthropic"', f"model.id={quoted(HTTP_MODEL)}")
        if http
        else ('model.provider="scripted"', 'model.id="survey"')
    )
    return (
        *model,
        f"model.context_window={WINDOW}",
        *COMPACTION,
        f"limits.max_requests={MOST_REQUESTS}",
        'permissions.read_roots=["."]',
        f"permissions.write_roots=[{quoted(root)}]",
    )


def _without_sandbox() -> tuple[str, ...]:
    """Return what a demo needs where no sandbox works: its commands are our own."""
    from tools.sandbox.probe import probe

    return () if probe().tier else ('sandbox.mode="off"',)


def _takes_sessions(folder: Path) -> bool:
    """Tell whether a session can be kept in *folder*, which may not be there yet."""
    there = next(f for f in (folder, *folder.parents) if f.exists())
    return takes_files(there)


async def _run(demo: _Demo, http: bool, quiet: bool) -> int:
    is_kept = _takes_sessions(default_folder())
    options = Options(settings=demo.settings, quiet=quiet, ephemeral=not is_kept)
    with kept_for_results() as stdout:
        output = _DemoOutput(demo, options, stdout, http=http)
        if not http:
            parts = assemble(demo.loaded, demo.folder)
            demo.report.clear()
            return await run_parts(parts, options, demo.prompt, output)
        from worker.loopback.server import serve

        async with serve(survey(), window=WINDOW, api_key=API_KEY) as server:
            parts = assemble(demo.loaded, demo.folder, _client_of(server.base_url))
            demo.report.clear()
            return await run_parts(parts, options, demo.prompt, output)


def _client_of(base_url: str) -> OpenClient:
    def open_client() -> AbstractAsyncContextManager[Client]:
        from worker.anthropic_client import AnthropicClient

        return AnthropicClient(api_key=API_KEY, base_url=base_url)

    return open_client


class _DemoOutput(Output):
    """A run's output that ends with what the run did and where to look."""

    def __init__(
        self, demo: _Demo, options: Options, stdout: int, *, http: bool
    ) -> None:
        super().__init__(options, stdout)
        self._demo = demo
        self._http = http
        self._receipts: list[str] = []

    def entry(self, entry: AnyEntry) -> None:
        super().entry(entry)
        if isinstance(entry, Compaction):
            self._receipts.append(done_line(entry))
        elif isinstance(entry, CompactionFailed):
            self._receipts.append(f"failed: {failed_line(entry)}")

    def finish(self, end: RunEnd, session: Session) -> int:
        is_done = end.outcome == "finished"
        text = f"{end.text.strip()}\n\n" if is_done else ""
        text += "".join(self._lines(end, session))
        is_given = write_result(self._stdout, text)
        if end.exit_code != Exit.DONE:
            self._say(f"{end.message or end.reason} ({end.outcome})")
        if end.interrupted and session.path is not None:
            self._say(f"go on with: {self._resume(session)}")
        if end.exit_code == Exit.DONE and not is_given:
            return Exit.FAILED
        return end.exit_code

    def _lines(self, end: RunEnd, session: Session) -> list[str]:
        report = self._demo.report
        way = (
            "the Anthropic SDK and a server on this machine"
            if self._http
            else "a scripted model in this process"
        )
        usage = end.usage
        there = report.path if report.path.exists() else "not written"
        return [
            f"Report   {there}{f' ({report.why})' if report.why else ''}\n",
            (
                f"Run      {end.outcome} after {end.seconds:.1f} s: {counted(end.requests, 'request')},"
                f" {counted(end.tool_calls, 'tool call')} ({end.tool_errors} failed)\n"
            ),
            (
                f"Tokens   {usage.prompt:,} in ({usage.cache_read:,} of them cached),"
                f" {usage.output:,} out; played by {way}, nothing was paid\n"
            ),
            *self._compactions(),
            f"Session  {self._whereabouts(session)}\n",
        ]

    def _compactions(self) -> list[str]:
        if not self._receipts:
            stayed = f"the context stayed under {TURN_THRESHOLD:,} tokens"
            return [f"Compact  not once: {stayed}\n"]
        return [
            f"Compact  {number}: {receipt}\n"
            for number, receipt in enumerate(self._receipts, 1)
        ]

    def _whereabouts(self, session: Session) -> str:
        if session.path is None:
            return f"not kept: nothing can be written in {default_folder()}"
        return f"{session.id}: look at it with  pod session show {session.id}"

    def _resume(self, session: Session) -> str:
        """Return the command that goes on, with the scripted model in any case."""
        settings = _settings(self._demo.folder, self._demo.report, http=False)
        flags = [word for setting in settings for word in ("-c", setting)]
        return shlex.join(
            [
                *("pod", "run", "--resume", session.id),
                *("--cd", str(self._demo.folder), *flags),
            ]
        )
