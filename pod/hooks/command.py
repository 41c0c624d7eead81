"""Hooks that are commands: the event as JSON on stdin, the answer as JSON on stdout."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec
import trio

from pod.hooks.answers import MOST_BYTES
from pod.hooks.hook import Ask, HookError
from pod.hooks.payloads import AnyPayload
from tools.process import run
from tools.text import clean

SHOWN_ERRORS = 2_000
"""Bytes of the end of stderr that the message of a failure has."""


def ask_command(words: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Ask:
    """Return what asks the command *words*, run in *cwd* with the environment *env*.

    An exit code other than 0 is a failure, and so is more than an answer may
    have. It is ended with all it has started: once its first process has ended,
    when its output gets too long, and on a cancel.
    """

    async def ask(payload: AnyPayload) -> object:
        asked, returncode = _Asked(), 0
        with await trio.to_thread.run_sync(_input, payload) as stdin:
            with asked.reading:
                ended = await run(
                    words,
                    cwd=cwd,
                    env=env,
                    receive=asked.hear,
                    receive_errors=asked.hear_error,
                    stdin=stdin.fileno(),
                )
                returncode = ended.returncode
        if asked.reading.cancel_called:
            raise HookError(f"it said more than {MOST_BYTES:,} bytes")
        if returncode != 0:
            raise HookError(asked.failure(returncode))
        return bytes(asked.said)

    return ask


class _Asked:
    """One command under way: what it has said so far."""

    def __init__(self) -> None:
        self.said = bytearray()
        self.errors = b""
        self.reading = trio.CancelScope()
        """Cancelled when it has said too much."""

    async def hear(self, chunk: bytes) -> None:
        if len(self.said) + len(chunk) > MOST_BYTES:
            self.reading.cancel()
        else:
            self.said += chunk

    async def hear_error(self, chunk: bytes) -> None:
        self.errors = (self.errors + chunk)[-SHOWN_ERRORS:]

    def failure(self, returncode: int) -> str:
        how = f"exit code {returncode}"
        if returncode < 0:
            how = f"killed by signal {-returncode}"
        errors = clean(self.errors.decode(errors="replace").strip()).text
        return f"{how}: {errors}" if errors else how


def _input(payload: AnyPayload) -> IO[bytes]:
    """Return a file, nowhere in a folder, with *payload* as one line of JSON.

    A file and not a pipe: a command that reads none of it keeps nobody waiting.
    """
    if hasattr(os, "memfd_create"):  # Linux: not even a disk sees it
        file: IO[bytes] = os.fdopen(os.memfd_create("pod-hook"), "w+b")
    else:
        file = TemporaryFile()  # noqa: SIM115  the caller closes it
    try:
        file.write(msgspec.json.encode(payload) + b"\n")
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file
