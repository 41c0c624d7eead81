"""A tool output of 100 MB on its way to the model, beside one of a tenth of it.

Cleaned, saved in full, cut to what the model may see. While that goes on the
loop has other things to do: the longest time it could not is told too.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from tests.benchmarks.made import source_text
from tests.benchmarks.table import Cell, show, times
from tests.fakes import FakeTool, MemoryHistory
from tools.base import Call, Tool, ToolOutput
from tools.bash import Bash
from tools.spill import SpillFolder
from worker.calls import OutputLimits, Toolbox, answer_calls
from worker.counters import O200k
from worker.events import Live
from worker.items import ToolCall, ToolResult

SIZES = (10_000_000, 100_000_000)
TICK = 0.001


def main() -> None:
    """Have a Python tool and a command give much, and take the time."""
    rows: list[Sequence[Cell]] = []
    for title, times_of in (("a Python tool's text", _returned), ("bash", _printed)):
        seconds: list[float] = []
        for size in SIZES:
            took, gap = trio.run(times_of, size)
            seconds.append(took)
            rows.append(
                [
                    f"{title}, {size // 1_000_000} MB",
                    1_000 * took,
                    size / 1e6 / took,
                    1_000 * gap,
                    times(took, seconds[0]),
                ]
            )
    show(
        "A long tool output",
        ["", "ms", "MB/s", "longest pause of the loop, ms", "x 10 MB"],
        rows,
    )


async def _returned(size: int) -> tuple[float, float]:
    text = source_text(2_700) * (size // 2_700)

    async def give(call: Call) -> ToolOutput:
        return ToolOutput(summary="much", content=text)

    return await _taken(lambda _: FakeTool("much", give), "{}")


async def _printed(size: int) -> tuple[float, float]:
    return await _taken(Bash, f'{{"command":"yes \'a line of it\' | head -c {size}"}}')


async def _taken(
    tool_in: Callable[[Path], Tool], arguments: str
) -> tuple[float, float]:
    """Return how long one call took, and the longest time the loop stood still."""
    counter = O200k()
    counter.count("load it")
    history = MemoryHistory()
    with TemporaryDirectory(prefix="pod-bench-") as name:
        tool = tool_in(Path(name))
        toolbox = Toolbox(
            tools={tool.name: tool},
            spill=SpillFolder(Path(name) / "files"),
            output=OutputLimits(65_536, 16_000, counter.count),
        )
        gaps: list[float] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_tick, gaps)
            await trio.sleep(0.01)
            started = time.perf_counter()
            call = ToolCall("toolu_1", tool.name, arguments, "r")
            await answer_calls([call], toolbox, record=history, listen=_ignore)
            took = time.perf_counter() - started
            nursery.cancel_scope.cancel()
    (result,) = history.items
    assert isinstance(result, ToolResult)
    assert not result.is_error, result.summary
    return took, max(gaps) - TICK


async def _tick(gaps: list[float]) -> None:
    while True:
        before = time.perf_counter()
        await trio.sleep(TICK)
        gaps.append(time.perf_counter() - before)


def _ignore(event: Live) -> None:
    """Listen to nothing."""
