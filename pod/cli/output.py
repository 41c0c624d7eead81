"""Where a run's output goes: the answer or the events to stdout, the rest to stderr."""

import shlex
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TextIO, cast

from rich.console import Console

from pod.cli.options import Options
from pod.cli.progress import Progress
from pod.cli.streams import Forgiving, say, write_result
from pod.clock import now
from pod.entries import AnyEntry, Notice, RunEnd, RunStart
from pod.events import Event, Init, PodLive, line
from pod.exits import Exit
from pod.outbox import Outbox
from pod.pod import Pod
from pod.session import Session
from worker.client import ReasoningDelta, TextDelta, ToolInputDelta
from worker.events import Live

Partial = TextDelta | ReasoningDelta | ToolInputDelta


class Output:
    """One run's output. stdout carries the result or the events, nothing else."""

    def __init__(self, options: Options, stdout: int) -> None:
        """Write results and events to the descriptor *stdout*."""
        self._options = options
        self._stdout = stdout
        self._streams = options.output_format == "stream-json"
        self._outbox = Outbox(stdout)
        console = Console(
            file=cast(TextIO, Forgiving(sys.stderr)), highlight=False, emoji=False
        )
        self._progress = Progress(
            console, quiet=options.quiet, answers=options.output_format == "text"
        )
        self._session = ""
        self._run: str | None = None
        self._begun = False
        self._closed = False

    def shown(self) -> AbstractContextManager[object]:
        """Return the context in which a live status is on the terminal."""
        return self._progress.shown()

    def begin(self, session: str, init: Init) -> None:
        """Start the stream with its first event."""
        self._session = session
        self._begun = True
        self._put(init, live=False)
        self._progress(init)

    def entry(self, entry: AnyEntry) -> None:
        """Take in an entry of the log. What came before the run stays out."""
        if isinstance(entry, RunStart):
            self._run = entry.run
        if self._begun:
            self._put(entry, live=False)
            self._progress(entry)
        elif isinstance(entry, Notice):
            self._progress(entry)

    def live(self, event: Live | PodLive) -> None:
        """Take in a live event."""
        if self._options.partial or not isinstance(event, Partial):
            self._put(event, live=True)
        self._progress(event)

    def warn(self, text: str) -> None:
        """Tell a person something before the run."""
        self._say(text)

    async def settled(self) -> None:
        """Wait until stdout has taken everything, or nobody reads it any more."""
        await self._outbox.drain()

    async def write(self, agent: Pod) -> None:
        """Write events to stdout until cancelled; stop the run when nobody reads."""
        if self._streams:
            await self._outbox.write()
            agent.stop("broken_pipe")

    def close(self, end: RunEnd) -> None:
        """See to it that the stream's last event is the result, written or not."""
        if not self._closed:
            self._put(end, live=False)

    def finish(self, end: RunEnd, session: Session) -> int:
        """Print the answer where that is wanted, and how it ended; the exit code."""
        is_given = self._give(end, session)
        self._progress.end(end, session.id if session.path else None)
        if end.exit_code != Exit.DONE:
            self._say(f"{end.message or end.reason} ({end.outcome})")
        if end.interrupted and session.path is not None:
            self._say(f"go on with: {resume_command(self._options, session.id)}")
        if self._outbox.dropped:
            self._say(f"{self._outbox.dropped} live events were left out: slow reader")
        if end.exit_code == Exit.DONE and not is_given:
            return Exit.FAILED
        return end.exit_code

    def _give(self, end: RunEnd, session: Session) -> bool:
        """Give the answer to stdout and the file; whether all got it."""
        is_given = True
        match self._options.output_format:
            case "text":
                if end.text:
                    text = end.text.rstrip("\n") + "\n"
                    is_given = write_result(self._stdout, text)
            case "json":
                text = line(end, session=session.id, at=now()).decode()
                is_given = write_result(self._stdout, text)
            case "stream-json":
                pass
        if self._options.answer_file is not None:
            try:
                _write(self._options.answer_file, end.text)
            except OSError as error:
                self._say(f"-o {self._options.answer_file}: {error.strerror}")
                is_given = False
        return is_given

    def _put(self, event: Event, *, live: bool) -> None:
        if self._closed or not self._begun:
            return
        if isinstance(event, RunEnd):
            self._closed = True
        if self._streams:
            text = line(event, session=self._session, at=now(), run=self._run)
            self._outbox.put(text, live=live)

    def _say(self, text: str) -> None:
        say(f"pod: {text}")


def resume_command(options: Options, session: str) -> str:
    """Return the command that goes on where a run was broken off.

    With what was set for it, limits apart: one of them may be what ended it.
    """
    words = ["pod", "run", "--resume", session]
    if options.cd is not None:
        words += ["--cd", str(options.cd)]
    if options.manifest is not None:
        words += ["-m", str(options.manifest)]
    for setting in options.settings:
        if not setting.lstrip().startswith("limits."):
            words += ["-c", setting]
    return shlex.join(words)


def _write(path: Path, text: str) -> None:
    """Write *text* to *path*, whole or not at all where that is a file."""
    whole = text if text.endswith("\n") else text + "\n"
    data = whole.encode("utf-8", "replace")
    if path.exists() and not path.is_file():  # a pipe, /dev/stdout
        path.write_bytes(data)
        return
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    part.replace(path)
