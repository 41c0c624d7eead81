"""Starting a command: what every tier does, and the way without a sandbox."""

import contextlib
import errno
import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from msgspec import Struct

PIPE_BYTES = 1 << 20
"""Linux lets any user have this much by default (fs.pipe-max-size)."""


class Supervisor(Struct, frozen=True):
    """The line to a shell that stands between a sandbox and the command in it.

    *status* is read from: b"s" once the sandbox stands, then the command's exit
    code in a line of its own. The shell stays until *control* is closed, so
    that what the command left running can be looked at before it goes.
    """

    status: int
    control: int


class Started(Struct, frozen=True):
    """A command that was just started; *output* is the pipe with all it says."""

    process: subprocess.Popen[bytes]
    output: int
    supervisor: Supervisor | None = None


class Launcher(Protocol):
    """Starts commands, each in a session of its own. May block for milliseconds."""

    def start(
        self,
        argv: Sequence[str | bytes],
        cwd: Path,
        env: Mapping[str, str],
        stamp: int | None,
    ) -> Started:
        """Start *argv* with *stamp* (tools.offspring) on it.

        Raises OSError where it cannot be started.
        """

    def ended(self) -> tuple[str, ...]:
        """Tidy up after a command; return what the model has to be told."""


class Unconfined:
    """Starts commands that can do whatever we can."""

    def start(
        self,
        argv: Sequence[str | bytes],
        cwd: Path,
        env: Mapping[str, str],
        stamp: int | None,
    ) -> Started:
        limited = under(limits(stamp), argv, env)
        with OutputPipe() as pipe:
            process = popen(limited, cwd=cwd, env=env, output=pipe.write)
            return Started(process, pipe.keep())

    def ended(self) -> tuple[str, ...]:
        return ()


def popen(
    argv: Sequence[str | bytes],
    *,
    cwd: Path | str,
    env: Mapping[str, str],
    output: int,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start *argv* without an input."""
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        pass_fds=pass_fds,
    )


def limits(
    stamp: int | None, *, processes: int | None = None, memory: int | None = None
) -> str:
    """Return the words that set a shell's limits; no core dumps in any case.

    *memory* (bytes) is what one process may have of its own (RLIMIT_DATA).
    """
    words = ["ulimit -c 0"]
    if stamp is not None:
        words.append(f"ulimit -q {stamp}")
    if processes is not None:
        words.append(f"ulimit -u {processes}")
    if memory is not None:
        words.append(f"ulimit -d {max(memory // 1024, 1)}")
    return "; ".join(words)


def under(
    words: str, argv: Sequence[str | bytes], env: Mapping[str, str]
) -> list[str | bytes]:
    """Return *argv* so that a shell says *words* first and then becomes the command.

    Where there is no bash, *argv* is all there is. Raises FileNotFoundError
    where the command is not there, which the shell would not tell us.
    """
    path = env.get("PATH", os.defpath)
    bash = shutil.which("bash", path=path)
    if bash is None:
        return list(argv)
    if shutil.which(os.fsdecode(argv[0]), path=path) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    return [bash, "-c", f'{words}; exec "$@"', bash, *argv]


class OutputPipe:
    """A pipe for a command's output; what nobody keeps is closed with it."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        self._is_kept = False
        with contextlib.suppress(AttributeError, OSError):  # not Linux; no quota left
            fcntl.fcntl(self._read, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def keep(self) -> int:
        """Return the end to read from; it is the caller's now."""
        self._is_kept = True
        return self._read

    def close(self) -> None:
        os.close(self.write)
        if not self._is_kept:
            os.close(self._read)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
