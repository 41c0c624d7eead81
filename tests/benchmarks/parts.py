"""What one request costs, part by part, at three sizes of the history.

Each figure is that of a request in the middle of a turn loop: the one before
it was made from the same history less its last turn.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import httpx2
import trio
from msgspec import Raw

from pod.entries import FORMAT, Header, ItemEntry, Known, ToolStart, UsageEntry
from pod.events import line
from pod.session import Session
from tests.benchmarks.made import history, turn
from tests.benchmarks.provider import USAGE, answer
from tests.benchmarks.table import Cell, show, times
from worker.anthropic_client import AnthropicClient
from worker.api import ToolSpec
from worker.client import Delta
from worker.counters import O200k
from worker.encode import Encoded, encode_request
from worker.items import Item
from worker.model import Model
from worker.occupancy import Occupancy
from worker.stream import Fold
from worker.validate import Checked, problems
from worker.wire import Memory, to_request

SIZES = {"20 KB": 7, "200 KB": 74, "1 MB": 380}
"""Turns of a history of this size."""
REQUESTS = 9
"""Requests of which the median counts; each has one turn more than the last."""
MODEL = Model("anthropic", "claude-sonnet-5-5", window=10_000_000, max_tokens=8_000)
SPECS = (ToolSpec("read_file", "Reads a file.", Raw(b'{"type":"object"}')),)
SYSTEM = "You work alone."


def main() -> None:
    """Print a column for each size, and how the last grew over the first."""
    columns = [trio.run(_parts, turns) for turns in SIZES.values()]
    rows: list[Sequence[Cell]] = []
    for name in columns[0]:
        figures = [column[name] for column in columns]
        rows.append([name, *figures, times(figures[-1], figures[0])])
    show(
        "One request, part by part, ms",
        ["", *SIZES, "largest/smallest"],
        rows,
    )


class Watch:
    """Sums the milliseconds of parts, a list for each; by CPU time of this thread."""

    def __init__(self) -> None:
        self.taken: dict[str, list[float]] = {}

    @contextmanager
    def on(
        self, name: str, clock: Callable[[], float] = time.thread_time
    ) -> Iterator[None]:
        """Take the time of what is done inside."""
        started = clock()
        yield
        self.taken.setdefault(name, []).append(1_000 * (clock() - started))

    def medians(self) -> dict[str, float]:
        """Return the median of each part."""
        return {name: median(taken) for name, taken in self.taken.items()}


async def _parts(turns: int) -> dict[str, float]:
    """Grow a history of *turns* turn by turn, and take the time of each part."""
    watch = Watch()
    items = history(turns)
    transport = httpx2.MockTransport(_answer)
    async with AnthropicClient(api_key="none", transport=transport) as client:
        requests = _Requests(watch, client)
        with TemporaryDirectory(prefix="pod-bench-") as name:
            with _session(Path(name), items) as session:
                for number in range(turns, turns + REQUESTS + 1):
                    await requests.make(items)
                    await _turn(watch, session, turn(number))
                    items += turn(number)
    return watch.medians()


class _Requests:
    """The requests of one history, as the turn loop makes them."""

    def __init__(self, watch: Watch, client: AnthropicClient) -> None:
        self._watch = watch
        self._client = client
        self._occupancy = Occupancy(
            model=MODEL, system=SYSTEM, specs=SPECS, counter=O200k()
        )
        self._memory = Memory()
        self._checked = Checked()
        self._encoded = Encoded()

    async def make(self, items: Sequence[Item]) -> None:
        on = self._watch.on
        with on("occupancy"):
            await self._occupancy.room(items)
        with on("to_request"):
            request = to_request(
                items,
                system=SYSTEM,
                tools=SPECS,
                model=MODEL,
                previous_length=len(items) - 3,
                memory=self._memory,
            )
        with on("problems"):
            assert not problems(request, model=MODEL, checked=self._checked)
        with on("encode_request"):
            encode_request(request, encoded=self._encoded)
        with on("client.ask, encode_request included"):
            await self._client.ask(request, _ignore)
        with on("  of that: reading the stream"):
            Fold().feed(STREAM)
        self._occupancy.measured(50_000, items)


async def _turn(watch: Watch, session: Session, items: Sequence[Item]) -> None:
    *said, result = [ItemEntry(item=item) for item in items]
    with watch.on("log: append"):
        session.append(*said)
        session.append(_USED)
        session.append(ToolStart(call_id="toolu_1", name="read_file"))
        session.append(result)
    with watch.on("log: commit (wall)", time.perf_counter):
        await session.commit()
    with watch.on("event lines"):
        entries: list[Known] = [*said, _USED, result]
        for entry in entries:
            line(entry, session="s")


def _session(folder: Path, items: Sequence[Item]) -> Session:
    header = Header(
        format=FORMAT, id="s", at="2026-01-01T00:00:00.000Z", cwd="/", system=SYSTEM
    )
    session = Session.create(folder / "s.jsonl", header)
    session.append(*(ItemEntry(item=item) for item in items))
    return session


def _answer(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(
        200, headers={"content-type": "text/event-stream"}, content=_pieces()
    )


async def _pieces() -> AsyncIterator[bytes]:
    await trio.lowlevel.checkpoint()
    yield STREAM


def _ignore(delta: Delta) -> None:
    """Listen to nothing."""


STREAM = answer(0, 1).partition(b"\r\n\r\n")[2]
_USED = UsageEntry(
    response="r",
    model=MODEL.id,
    stop_reason="tool_use",
    usage=USAGE,
    context_tokens=USAGE.total,
)
