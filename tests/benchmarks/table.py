"""Figures as a table, and how they are taken."""

import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

Cell = str | float


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table: names to the left, figures to the right."""
    shown = [list(head), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in shown
    ]
    rule = "-" * len(lines[0])
    sys.stdout.write("\n".join([f"\n{title}", rule, lines[0], rule, *lines[1:], ""]))
    sys.stdout.flush()


def cpu_ms(work: Callable[[], object], passes: int = 9) -> float:
    """Return the CPU milliseconds of this thread that *work* takes: a median."""
    taken: list[float] = []
    for _ in range(passes):
        started = time.thread_time()
        work()
        taken.append(time.thread_time() - started)
    return 1_000 * median(taken)


def times(figure: float, base: float) -> str:
    """Return how many times *base* a figure is."""
    return f"{figure / base:.1f}x" if base else "-"


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell:,.0f}" if cell >= 100 else f"{cell:.2f}"
