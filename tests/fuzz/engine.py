"""Runs a target on inputs that it makes of those that ran something new."""

import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from types import FrameType, ModuleType

from msgspec import Struct, field

from tests.fuzz.coverage import Coverage, Lines
from tests.fuzz.mutate import mutated

MOST_SECONDS = 5
"""An input of 20 KB that takes longer has hung."""
MOST_GROWTH = 400 * 1024
"""KiB by which the process may grow over what it had after its seeds."""
_DRAWN = 3
"""Inputs of which the shortest is changed: with 1, the log's run a third as fast."""


class Target(Struct, frozen=True):
    """Something that parses bytes. *parse* raises nothing, or has found a bug.

    *seeds* are inputs that are right, *words* bytes that mean something to it;
    the coverage of *modules* guides.
    """

    name: str
    parse: Callable[[bytes], object]
    modules: tuple[ModuleType, ...]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...]


def quoted(*texts: str) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in texts)


class Bug(Struct, frozen=True):
    """An input that broke a target, and how."""

    data: bytes
    what: str


class Report(Struct):
    """What a run of the fuzzer came to."""

    target: str
    runs: int = 0
    corpus: list[bytes] = field(default_factory=list)
    edges: int = 0
    slowest: float = 0.0
    seconds: float = 0.0
    lines: list[Lines] = field(default_factory=list)
    bugs: list[Bug] = field(default_factory=list)

    def __str__(self) -> str:
        ran, of = sum(m.ran for m in self.lines), sum(m.of for m in self.lines)
        modules = ", ".join(f"{m.module} {m.ran}/{m.of}" for m in self.lines)
        return (
            f"{self.target}: {self.runs} inputs in {self.seconds:.0f} s,"
            f" {len(self.corpus)} kept, {self.edges} edges, slowest {self.slowest:.2f} s,"
            f" lines {ran}/{of} ({ran / max(of, 1):.0%}: {modules}),"
            f" bugs: {len(self.bugs)}"
        )


class Hung(Exception):
    """The parser did not come back."""


def fuzz(
    target: Target,
    *,
    seconds: float,
    seed: int,
    most_bugs: int = 5,
    longest: float = MOST_SECONDS,
) -> Report:
    """Run *target* for so many seconds on inputs made from *seed*."""
    random = Random(seed)
    coverage = Coverage(target.modules)
    report = Report(target.name)
    corpus: list[bytes] = []
    known: set[str] = set()
    started = time.monotonic()
    allowed = 0
    for data in _inputs(target, corpus, random):
        if time.monotonic() - started > seconds or len(report.bugs) >= most_bugs:
            break
        before = time.monotonic()
        new, bug = run(target, data, coverage, longest)
        report.slowest = max(report.slowest, time.monotonic() - before)
        report.runs += 1
        if report.runs == len(target.seeds):
            allowed = _resident() + MOST_GROWTH
        elif allowed and _resident() > allowed:
            bug = bug or Bug(data, f"the process grew by {MOST_GROWTH} KiB")
        if new or len(corpus) < len(target.seeds):
            corpus.append(data)
        if bug and _kind(bug) not in known:
            known.add(_kind(bug))
            report.bugs.append(bug)
    report.corpus, report.edges = corpus, coverage.edges
    report.lines, report.seconds = coverage.lines(), time.monotonic() - started
    return report


def run(
    target: Target, data: bytes, coverage: Coverage, longest: float = MOST_SECONDS
) -> tuple[int, Bug | None]:
    """Give *data* to the target; return how much of it was new, and what broke."""
    try:
        with _deadline(longest), warnings.catch_warnings(action="error"):
            return coverage.run(lambda: _discard(target.parse(data))), None
    except Hung:
        return 0, Bug(data, f"no end after {longest} s")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return 0, Bug(data, "".join(traceback.format_exception(error)))


def _inputs(target: Target, corpus: Sequence[bytes], random: Random) -> Iterator[bytes]:
    yield from target.seeds
    while True:
        # Newer ones more often: they are at the edge of what is known. And the
        # shortest of a few: most of what a long one does is what others did.
        few = [corpus[_newer(random, len(corpus))] for _ in range(_DRAWN)]
        yield mutated(min(few, key=len), corpus, target.words, random)


def _newer(random: Random, size: int) -> int:
    return size - 1 - int(random.expovariate(4 / size)) % size


def _kind(bug: Bug) -> str:
    """Return what two findings of the same bug have in common."""
    lines = bug.what.splitlines()
    places = [line.strip() for line in lines if line.lstrip().startswith("File ")]
    return (places or lines)[-1]


def _discard(result: object) -> None:
    """Take a result that nobody asks for."""


def _resident() -> int:
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size // 1024 if sys.platform == "darwin" else size


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
