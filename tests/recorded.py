"""What other processes of a test run told, held to the published schema like its own.

Every process that a test starts writes its event lines down (tests/recorder). A start
of Pod's code that would not is refused, so that none can be forgotten.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from pod import events
from tests.events_check import Checker
from tests.recorder.sitecustomize import VARIABLE

ROOT = Path(__file__).resolve().parents[1]
RECORDER = ROOT / "tests" / "recorder"


def recording(folder: Path) -> dict[str, str]:
    """Return the environment in which a process writes its event lines into *folder*."""
    return {"PYTHONPATH": f"{RECORDER}{os.pathsep}{ROOT}", VARIABLE: str(folder)}


def inherited() -> dict[str, str]:
    """Return what a process of ours has to have in its environment, to record as we do."""
    folder = os.environ.get(VARIABLE)
    return {"PYTHONPATH": str(ROOT)} if folder is None else recording(Path(folder))


class Recorded:
    """Reads what processes write into *folder*, each line once, while they write it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}

    def take(self, check: Callable[[bytes], None]) -> None:
        """Give *check* each whole line that came since the last time."""
        paths = sorted(self._folder.iterdir(), key=_order)
        for path, next in zip_longest(paths, paths[1:]):
            is_full = next is not None and next.stem == path.stem
            over = is_full or not _is_alive(int(path.stem))
            start = self._read.get(path.name, 0)
            with path.open("rb") as file:
                file.seek(start)
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path.name] = start + len(whole) + len(newline)
            for line in (whole + newline).splitlines(keepends=True):
                check(line)
            if over:  # what is left of a torn line went nowhere
                path.unlink()
                del self._read[path.name]


def _order(path: Path) -> tuple[int, int]:
    """Bring the files of a process into the order it wrote them in."""
    return int(path.stem), int(path.suffix.removeprefix("."))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Held:
    """What was wrong with the events of a command and of all that it starts."""

    def __init__(self, recorded: Recorded, checker: Checker) -> None:
        self._recorded = recorded
        self._checker = checker

    @property
    def checked(self) -> int:
        """How many events were looked at."""
        return self._checker.checked

    def wrong(self) -> list[str]:
        """Look at what came since the last time; return all that was wrong so far."""
        self._recorded.take(self._checker)
        return list(self._checker.wrong)


@contextmanager
def holding() -> Iterator[Held]:
    """Hold the events of this process, and of those it starts, to the schema.

    For commands: in a run of pytest conftest.py does so for all tests.
    """
    with tempfile.TemporaryDirectory(prefix="pod-test-events-") as folder:
        checker = Checker()
        events.checks.append(checker)
        before = {name: os.environ.get(name) for name in recording(Path(folder))}
        os.environ.update(recording(Path(folder)))
        try:
            yield Held(Recorded(Path(folder)), checker)
        finally:
            events.checks.remove(checker)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


_POD = re.compile(
    r"-m (pod|tests)\b|\b(import|from) (pod|tests)\b|(^|[\s;&|(/])pod [a-z]"
)
"""Looks like a command that runs our code, other than in isolation (-I)."""


class NotRecorded(RuntimeError):
    """A test started Pod's code in a way that hides its events from the schema's test."""


def refuse_what_is_not_recorded() -> None:
    """From here on raise NotRecorded where Pod's code is started without the recorder.

    For the rest of the process: an audit hook cannot be taken away.
    """
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event != "subprocess.Popen":
        return
    _, command, _, environment = arguments
    words = [command] if isinstance(command, str | bytes) else command
    assert isinstance(words, Iterable)
    given = os.environ if environment is None else environment
    assert isinstance(given, Mapping)
    text = " ".join(os.fsdecode(word) for word in words)
    if _POD.search(text) and not _is_recorded(given):
        raise NotRecorded(
            f"{text[:200]}: give it the environment of tests.command.environment,"
            " or add tests.recorded.inherited() to its own"
        )


def _is_recorded(environment: Mapping[object, object]) -> bool:
    path = os.fsdecode(str(environment.get("PYTHONPATH", "")))
    return VARIABLE in environment and path.split(os.pathsep)[0] == str(RECORDER)
