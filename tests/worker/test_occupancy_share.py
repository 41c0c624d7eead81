"""Results of one batch share what is left of the window."""

from collections.abc import Sequence

import trio
from hypothesis import given, strategies as st
from msgspec import Raw

from tests.strategies import histories, modest
from worker.api import ToolSpec
from worker.items import Item
from worker.model import Model
from worker.occupancy import LEAST_RESULT, Occupancy

SYSTEM = "You are a test."
SPECS = (ToolSpec(name="do", description="does", input_schema=Raw(b"{}")),)


class Tally:
    """Counts a token a byte, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        self.asked.append(text)
        return len(text.encode("utf-8", "replace"))


class Case:
    def __init__(self, window: int | None, max_tokens: int) -> None:
        self.counter = Tally()
        self.occupancy = Occupancy(
            model=Model(
                provider="scripted", id="m", window=window, max_tokens=max_tokens
            ),
            system=SYSTEM,
            specs=SPECS,
            counter=self.counter,
        )

    def share(self, items: Sequence[Item], results: int, most: int) -> int:
        async def ask() -> int:
            return await self.occupancy.share(items, results=results, most=most)

        return trio.run(ask)


windows = st.none() | st.integers(2_000, 300_000)


@modest
@given(
    items=histories(),
    window=windows,
    results=st.integers(1, 40),
    most=st.integers(1, 50_000),
)
def test_a_share_is_never_above_the_cap_nor_below_what_says_anything(
    items: list[Item], window: int | None, results: int, most: int
) -> None:
    share = Case(window, 1_000).share(items, results, most)

    assert min(most, LEAST_RESULT) <= share <= most


def test_shares_of_a_batch_fit_behind_what_is_there() -> None:
    case = Case(100_000, 10_000)
    case.occupancy.measured(50_000, [])

    assert case.share([], 2, 16_000) == 16_000
    assert case.share([], 10, 16_000) == 4_000
    assert case.share([], 1_000, 16_000) == LEAST_RESULT
