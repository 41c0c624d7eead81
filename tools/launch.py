"""Starting a command: what every tier does, and the way without a sandbox."""

import errno
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tools.programs import find_program


class Supervisor(Struct, frozen=True):
    """The line to a shell that stands between a sandbox and the command in it.

    *status* is read from: b"s" once the sandbox stands, then the command's exit
    code in a line of its own. The shell stays until *control* is closed, so
    that what the command left running can be looked at before it goes.
    """

    status: int
    control: int


class Started(Struct, frozen=True):
    """A command that was just started."""

    process: subprocess.Popen[bytes]
    supervisor: Supervisor | None = None


class Order(Struct, frozen=True):
    """What is to be started: *argv* in *cwd*, with nothing but *env*.

    *stdin*, *stdout* and *stderr* are descriptors. *stamp* is a limit that
    marks all that comes of it (tools.offspring).
    """

    argv: tuple[str | bytes, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: int
    stdout: int
    stderr: int
    stamp: int | None = None


class Launcher(Protocol):
    """Starts commands, each in a session of its own. May block for milliseconds."""

    def start(self, order: Order) -> Started:
        """Start the command. Raises OSError where it cannot be started."""

    def ended(self) -> tuple[str, ...]:
        """Tidy up after a command; return what the model has to be told."""


class Unconfined:
    """Starts commands that can do whatever we can."""

    def start(self, order: Order) -> Started:
        return Started(popen(under(limits(order.stamp), order)))

    def ended(self) -> tuple[str, ...]:
        return ()


def popen(order: Order, pass_fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start what *order* says, as it is."""
    return subprocess.Popen(
        order.argv,
        cwd=order.cwd,
        env=order.env,
        stdin=order.stdin,
        stdout=order.stdout,
        stderr=order.stderr,
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


def under(words: str, order: Order) -> Order:
    """Return *order* so that a shell says *words* first and then becomes the command.

    Where there is no bash, it is as it was. Raises FileNotFoundError where the
    command is not there, which the shell would not tell us.
    """
    path = order.env.get("PATH", os.defpath)
    bash = find_program("bash", outside=(str(order.cwd),), path=path)
    if bash is None:
        return order
    name = order.argv[0]
    if shutil.which(os.fsdecode(name), path=path) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return replace(order, argv=(bash, "-c", f'{words}; exec "$@"', bash, *order.argv))
