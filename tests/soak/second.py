"""A second process at a session that another one has: ``python -m tests.soak.second``.

It stays, so that asking it takes milliseconds: each line it reads is a log to go
at, each line it writes is what came of that.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import msgspec
from msgspec import Struct

from pod.entries import ItemEntry
from pod.errors import SessionError
from pod.log import read_log
from pod.session import Session
from pod.store import Store
from tests.recorded import ROOT, inherited
from tests.soak.promises import broken


class Visit(Struct, frozen=True):
    """What to go at: a log, and a folder for a copy of it."""

    log: str
    forks: str


class Sight(Struct, frozen=True):
    """What came of it.

    *refused* is what it was told when it would write, "" where nobody kept it
    from that. *ids* are the entries it read, by number; *wrong* are the promises
    that its copy breaks.
    """

    refused: str
    ids: dict[int, str]
    wrong: list[str]


def look(visit: Visit) -> Sight:
    """Try to write to a session that somebody else has; read it, and copy it."""
    log, refused = Path(visit.log), ""
    try:
        Session.open(log).close()
    except SessionError as error:
        refused = str(error)
    wrong: list[str] = []
    try:
        entries = read_log(log).entries
        ids = {entry.seq: entry.id for entry in entries}
        if items := [entry.id for entry in entries if isinstance(entry, ItemEntry)]:
            fork = Store(visit.forks).fork(log, items[-1])
            wrong = [f"in its copy: {each}" for each in broken(fork, {})]
            fork.unlink()
    except SessionError as error:
        return Sight(refused, {}, [f"cannot be read: {error}"])
    return Sight(refused, ids, wrong)


class SecondProcess:
    """A process of its own that goes at sessions, one at a time."""

    def __init__(self, process: "subprocess.Popen[bytes]", forks: Path) -> None:
        self.pid = process.pid
        self._process = process
        self._forks = forks
        self._one = Lock()

    def look(self, log: Path) -> Sight:
        """Have it go at *log*. Blocks; several threads take turns."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        visit = Visit(log=str(log), forks=str(self._forks))
        with self._one:
            stdin.write(msgspec.json.encode(visit) + b"\n")
            stdin.flush()
            return msgspec.json.decode(stdout.readline(), type=Sight)


@contextmanager
def second_process(forks: Path) -> Iterator[SecondProcess]:
    """Start the second process; its copies come and go in the folder *forks*."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.soak.second"],
        cwd=ROOT,
        env={**os.environ, **inherited()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            yield SecondProcess(process, forks)
        finally:
            process.kill()


def main() -> None:
    for line in sys.stdin.buffer:
        try:
            sight = look(msgspec.json.decode(line, type=Visit))
        except Exception as error:  # noqa: BLE001  to be told with its seed
            sight = Sight("", {}, [f"raised: {error!r}"])
        sys.stdout.buffer.write(msgspec.json.encode(sight) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
