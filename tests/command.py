"""Runs the real command in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio
from msgspec import Struct

from tests.recorded import inherited
from tests.secret import KEY, VARIABLE

ROOT = Path(__file__).resolve().parents[1]
POD = (sys.executable, "-P", "-m", "pod")


class Done(Struct, frozen=True):
    """What a finished command left behind."""

    code: int
    out: str
    err: str


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment in which nothing of this machine's user shows."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        **inherited(),
        "LANG": "C.UTF-8",
        VARIABLE: KEY,
        **more,
    }


async def pod(
    *arguments: str,
    cwd: Path,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> Done:
    """Run ``pod`` with *arguments* in *cwd* and wait for its end."""
    done = await trio.run_process(
        [*POD, *arguments],
        cwd=cwd,
        stdin=stdin,
        env=environment(cwd) | dict(env or {}),
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def start(arguments: Sequence[str], cwd: Path) -> subprocess.Popen[bytes]:
    """Start ``pod`` with *arguments*; the caller talks to it and waits for it."""
    return subprocess.Popen(
        [*POD, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(cwd),
    )
