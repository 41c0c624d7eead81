"""The bash tool: one command line in a shell of its own, and what came of it."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated

import trio
from msgspec import Meta, Struct

from tools.arguments import parse, schema_of
from tools.base import Call, ToolError, ToolOutput
from tools.capture import Capture
from tools.launch import Launcher
from tools.process import UNCONFINED, Exit, SandboxFailed, run
from tools.programs import find_program
from tools.terminal import displayed
from tools.text import clean, decode, one_line

MAX_TIMEOUT = 3600.0
CAP = 60 * 1024
"""Bytes of output shown; what surrounds them still fits into the loop's 64 KiB."""
ARGUMENT_LIMIT = 100_000
"""Bytes of a command passed as an argument; Linux takes 128 KiB (MAX_ARG_STRLEN)."""
PROGRESS_INTERVAL = 0.5
PROGRESS_LENGTH = 200
SUMMARY_LENGTH = 80
LINE_BYTES = 1024
"""Up to this length a line at the cut is left out whole."""

INHERITED = (
    "PATH",
    "HOME",
    "LANG",
    "TERM",
    "TZ",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "SHELL",
)
UNATTENDED = {
    "DEBIAN_FRONTEND": "noninteractive",
    "EDITOR": "true",
    "GIT_CONFIG_COUNT": "1",
    # A detached clean-up would be ended with the command, half done.
    "GIT_CONFIG_KEY_0": "gc.autoDetach",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "MANPAGER": "cat",
    "PAGER": "cat",
    "PIP_NO_INPUT": "1",
    "SYSTEMD_PAGER": "cat",
    "VISUAL": "true",
}
"""So that no program waits for a person."""


def command_environment(
    names: Collection[str] = (),
    *,
    withheld: Collection[str] = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    source: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return what a command may see of *source*: a short list, and *names*.

    *withheld* are the variables that hold the provider's key; they are left
    out even where they are named.
    """
    allowed = {*INHERITED, *names} - {*withheld}
    inherited = {
        name: value
        for name, value in source.items()
        if name in allowed or (name.startswith("LC_") and name not in withheld)
    }
    return {"PATH": os.defpath, **UNATTENDED, **inherited}


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[
        str, Meta(min_length=1, description="The command line, for bash.")
    ]
    timeout: (
        Annotated[
            float,
            Meta(
                gt=0,
                le=MAX_TIMEOUT,
                description="Time limit in seconds, at most 3600, if the usual one "
                "does not do.",
            ),
        ]
        | None
    ) = None


class Bash:
    """Runs commands in *cwd*, each within a time limit in seconds.

    A command sees *environment* and nothing else of ours (command_environment()
    where none is given). *launcher* holds it to what it may do, and *told* is
    what the model is told of that.
    """

    name = "bash"
    has_effects = True
    parameters = schema_of(Arguments)

    def __init__(
        self,
        cwd: Path,
        default_timeout: float = 120.0,
        environment: Mapping[str, str] | None = None,
        *,
        launcher: Launcher = UNCONFINED,
        told: str = "",
    ) -> None:
        self._cwd = cwd
        self._default_timeout = default_timeout
        self._launcher = launcher
        self._environment = dict(
            command_environment() if environment is None else environment
        )
        text = Path(__file__).with_name("bash.md").read_text(encoding="utf-8")
        description = text.strip().format(
            cwd=cwd, timeout=f"{default_timeout:g} seconds"
        )
        self.description = f"{description}\n- {told}" if told else description

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        asked = parse(Arguments, arguments)
        limit = asked.timeout or self._default_timeout
        argv = [self._bash(), *_script(asked.command, call)]
        capture = Capture(CAP, call.spill, "bash")
        progress = _Progress(call.progress)

        async def receive(chunk: bytes) -> None:
            progress.show(chunk)
            await capture.add(chunk)

        started = trio.current_time()
        exit_: Exit | None = None
        try:
            with trio.move_on_after(limit):
                exit_ = await run(
                    argv,
                    cwd=self._cwd,
                    env=self._environment,
                    receive=receive,
                    launcher=self._launcher,
                )
        except SandboxFailed as error:
            said = " ".join(decode(capture.ends()[0]).split()) or str(error)
            raise ToolError(
                f"the command was not run, its sandbox could not be set up: {said}"
            ) from error
        except OSError as error:
            raise ToolError(self._explain(error)) from error
        finally:
            with trio.CancelScope(shield=True):
                await capture.close()
        seconds = trio.current_time() - started
        outcome = _outcome(exit_, seconds) if exit_ else _timed_out(limit)
        return ToolOutput(
            summary=f"bash: {outcome}: {_shortened(asked.command)}",
            content="\n".join([*_shown(capture), *_left(exit_), f"[{outcome}]"]),
        )

    def _bash(self) -> str:
        path = self._environment.get("PATH", os.defpath)
        found = find_program("bash", outside=(str(self._cwd),), path=path)
        if found is None:
            raise ToolError(
                f"there is no bash on this machine (looked in {path}): no command can "
                "be run, use the other tools"
            )
        return found

    def _explain(self, error: OSError) -> str:
        if not self._cwd.is_dir():
            return f"the working directory {self._cwd} is gone: no command can be run"
        return f"the command could not be started: {error.strerror or error}"


def _script(command: str, call: Call) -> list[str | bytes]:
    """Return what comes after "bash" on the command line to run *command*."""
    text = command.encode()
    if b"\0" in text:
        raise ToolError(
            "command: it contains a NUL, which no command line can: write \\0 for "
            "printf, say"
        )
    if len(text) <= ARGUMENT_LIMIT:
        return ["-c", "--", text]
    try:
        path, file = call.spill.open("command")
        with file:
            file.write(text)
    except OSError as error:
        raise ToolError(
            f"a command of {len(text)} bytes needs a file, and that failed: "
            f"{error.strerror or error}. Send at most {ARGUMENT_LIMIT} bytes."
        ) from error
    return ["--", str(path)]


class _Progress:
    """Tells listeners the newest line, a few times a second at most."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._next = 0.0

    def show(self, chunk: bytes) -> None:
        now = trio.current_time()
        if now < self._next:
            return
        text = displayed(chunk[-4 * PROGRESS_LENGTH :].decode(errors="replace"))
        lines = clean(text).text.split("\n")
        line = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if line:
            self._tell(line[:PROGRESS_LENGTH])
            self._next = now + PROGRESS_INTERVAL


def _outcome(exit_: Exit, seconds: float) -> str:
    code = exit_.returncode
    if code < 0:
        return f"killed by {_signal_name(-code)} after {seconds:.1f} s"
    # A shell says so when a command of its own died by a signal.
    meaning = f" ({_signal_name(code - 128)})" if 128 < code <= 128 + 64 else ""
    return f"exit {code}{meaning} after {seconds:.1f} s"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal, or none at all
        return f"signal {number}"


def _timed_out(limit: float) -> str:
    return f"timed out after {limit:g} s"


def _shown(capture: Capture) -> list[str]:
    """Return the output as lines and blocks, with notes on what was done to it."""
    head, tail = capture.ends()
    if capture.total == 0:
        return ["[no output]"]
    if not tail:
        cleaned = clean(displayed(decode(head)))
        return [*_block(cleaned.text), *_bracketed(cleaned.notes)]
    head, tail = head[: _line_end(head)], tail[_line_start(tail) :]
    first = clean(displayed(decode(head)))
    last = clean(displayed(tail.decode(errors="replace")))
    left_out = capture.total - len(head) - len(tail)
    return [
        *_block(first.text),
        f"[… {left_out} bytes left out …]",
        *_block(last.text),
        *_bracketed(first.notes or last.notes),
        _whereabouts(capture),
    ]


def _whereabouts(capture: Capture) -> str:
    if capture.path is None:
        return f"[the complete output was not kept: {capture.trouble}]"
    where = f"[the complete output ({capture.total} bytes) is in {capture.path}"
    return f"{where}, but {capture.trouble}]" if capture.trouble else f"{where}]"


def _block(text: str) -> list[str]:
    stripped = text.rstrip("\n")
    return [stripped] if stripped else []


def _bracketed(notes: str) -> list[str]:
    return [f"[{notes}]"] if notes else []


def _line_end(head: bytes) -> int:
    """Where to cut so that no line, and no character, is torn; long ones are."""
    end = head.rfind(b"\n") + 1
    return end if len(head) - end <= LINE_BYTES else len(head)


def _line_start(tail: bytes) -> int:
    start = tail.find(b"\n") + 1
    return start if start <= LINE_BYTES else 0


def _left(exit_: Exit | None) -> list[str]:
    if exit_ is None:
        return ["[everything the command had started was ended]"]
    notes = [f"[{one_line(note)}]" for note in exit_.notes]
    if not exit_.left:
        return notes
    names = [
        f"{one_line(name)} ({number})" if number > 1 else one_line(name)
        for name, number in Counter(exit_.left).most_common(10)
    ]
    count = len(exit_.left)
    processes = "1 process" if count == 1 else f"{count} processes"
    ended = f"[{processes} left in the background ended too: {', '.join(names)}]"
    return [ended, *notes]


def _shortened(command: str) -> str:
    first, *more = one_line(command.strip()).split("␊")
    if len(first) > SUMMARY_LENGTH:
        return first[:SUMMARY_LENGTH] + "…"
    return f"{first} …" if more else first
