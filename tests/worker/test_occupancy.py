"""How full the context is: never counted in vain, never more asked for than fits."""

from collections.abc import Sequence
from math import ceil

import trio
from hypothesis import given, strategies as st
from msgspec import Raw

from tests.strategies import histories, modest
from worker.api import ToolSpec
from worker.items import Item, UserText
from worker.model import Model
from worker.occupancy import LEAST_OUTPUT, LEAST_RESULT, Occupancy, Room
from worker.tokens import ENVELOPE, factor_for

SYSTEM = "You are a test."
SPECS = (ToolSpec(name="do", description="does", input_schema=Raw(b"{}")),)
FACTOR = factor_for("m")


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

    def room(self, items: Sequence[Item]) -> Room:
        return trio.run(self.occupancy.room, items)

    def share(self, items: Sequence[Item], results: int, most: int) -> int:
        async def ask() -> int:
            return await self.occupancy.share(items, results=results, most=most)

        return trio.run(ask)


windows = st.none() | st.integers(2_000, 300_000)
outputs = st.integers(1, 128_000)


@modest
@given(items=histories(), window=windows, most=outputs)
def test_never_more_is_asked_for_than_the_model_gives_or_the_window_leaves(
    items: list[Item], window: int | None, most: int
) -> None:
    room = Case(window, most).room(items)

    assert 1 <= room.max_tokens <= most
    if room.estimate is None:
        assert room.max_tokens == most
    else:
        assert window is not None
        assert room.max_tokens <= max(LEAST_OUTPUT, window - room.estimate)


@modest
@given(items=histories(), most=st.integers(1, 1_000))
def test_nothing_is_counted_while_the_bytes_prove_that_there_is_room(
    items: list[Item], most: int
) -> None:
    case = Case(10_000_000, most)

    room = case.room(items)

    assert room == Room(None, most)
    assert case.counter.asked == []


@modest
@given(items=histories(), cuts=st.lists(st.integers(0, 30), max_size=5))
def test_each_item_is_counted_once_however_often_the_room_is_asked_for(
    items: list[Item], cuts: list[int]
) -> None:
    case = Case(100, 100)  # so small that it always has to count
    stops = sorted(min(cut, len(items)) for cut in cuts)

    for stop in [*stops, len(items)]:
        case.room(items[:stop])
    again = case.counter.asked
    once = Case(100, 100)
    once.room(items)

    assert sorted(again) == sorted(once.counter.asked)


def test_what_the_provider_measured_takes_the_place_of_every_estimate() -> None:
    case = Case(50_000, 10_000)
    items: list[Item] = [UserText(text="x" * 100_000)]
    case.room(items)

    case.occupancy.measured(30_000, 1)
    fits = case.room(items)
    items.append(UserText(text="y" * 15_000))
    full = case.room(items)

    estimate = 30_000 + ceil((15_000 + ENVELOPE) * FACTOR)
    assert fits == Room(None, 10_000)
    assert full == Room(estimate, max(LEAST_OUTPUT, 50_000 - estimate))


def test_a_response_without_figures_leaves_the_estimate_as_it_was() -> None:
    case = Case(100, 100)
    items = [UserText(text="x" * 1_000)]
    before = case.room(items)

    case.occupancy.measured(None, 1)

    assert case.room(items) == before


def test_a_small_model_is_not_asked_for_more_than_it_gives() -> None:
    assert Case(2_000, 500).room([UserText(text="x" * 9_000)]).max_tokens == 500


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
    case.occupancy.measured(50_000, 0)

    assert case.share([], 2, 16_000) == 16_000
    assert case.share([], 10, 16_000) == 4_000
    assert case.share([], 1_000, 16_000) == LEAST_RESULT
