"""How full the context is: measured, counted and bounded."""

import weakref
from collections.abc import Sequence
from random import Random

import pytest
import trio
from hypothesis import example, given, strategies as st
from msgspec import Raw

from worker.api import ToolSpec
from worker.items import (
    AssistantText,
    Item,
    Reasoning,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.model import Model
from worker.occupancy import INLINE_BYTES, Occupancy, Parts, Room
from worker.tokens import CALL_ENVELOPE, ENVELOPE, OTHER_TOKENIZER, RESULT_ENVELOPE
from worker.usage import Usage


class Letters:
    """Counts a token a character, and remembers what it was given."""

    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, text: str) -> int:
        self.counted.append(text)
        return len(text)


SYSTEM = "You are a test."
TOOL = ToolSpec("do", "Does.", Raw(b'{"type":"object"}'))
OVERHEAD = len(SYSTEM) + ENVELOPE + len("do\nDoes.\n") + len('{"type":"object"}')
F = OTHER_TOKENIZER


def case(
    *, window: int | None = 100_000, max_tokens: int = 1_000, counter: Letters
) -> Occupancy:
    model = Model(provider="anthropic", id="m", window=window, max_tokens=max_tokens)
    return Occupancy(model=model, system=SYSTEM, specs=[TOOL], counter=counter)


def scaled(tokens: int, factor: float = F) -> int:
    return -int(-tokens * factor // 1)


def user(length: int, letter: str = "u") -> UserText:
    return UserText(letter * length)


def result(length: int, id: str = "a") -> ToolResult:
    return ToolResult(id, "short", content="r" * length)


def answer(length: int, response: str = "r1") -> tuple[Item, ...]:
    return (
        Reasoning("hm", response=response, model="m", signature="s"),
        AssistantText("a" * length, response=response),
        ToolCall("a", "do", "{}", response=response),
    )


async def test_before_the_first_answer_bytes_prove_the_room_and_nothing_loads() -> None:
    counter = Letters()
    occupancy = case(counter=counter)

    room = await occupancy.room([user(50_000)])

    assert room == Room(None, 1_000)
    assert counter.counted == []
    assert not occupancy.has_counted


async def test_what_bytes_cannot_prove_is_counted_with_prompt_and_tools() -> None:
    occupancy = case(counter=Letters(), window=69_100, max_tokens=2_000)

    room = await occupancy.room([user(60_000)])

    tokens = scaled(60_000 + ENVELOPE + OVERHEAD)
    assert room == Room(tokens, 1_024)


async def test_letters_of_many_bytes_are_counted_and_not_refused() -> None:
    occupancy = case(counter=Letters(), window=100_000)

    over = await occupancy.over([user(30_000, "中")], 40_000)

    assert over is None


async def test_what_was_measured_and_a_few_bytes_need_no_tokenizer() -> None:
    counter = Letters()
    occupancy = case(counter=counter)
    occupancy.measured(90_000, [user(10)])

    assert await occupancy.room([user(10), user(5_000)]) == Room(None, 1_000)
    assert counter.counted == []


async def test_once_counted_every_request_has_an_estimate() -> None:
    occupancy = case(counter=Letters())
    items = [user(10), *answer(20)]
    await occupancy.estimate(items[:1])
    occupancy.measured(500, items)

    room = await occupancy.room([*items, result(100)])

    assert room == Room(500 + scaled(100 + RESULT_ENVELOPE), 1_000)


async def test_without_a_window_there_is_an_estimate_and_no_clamp() -> None:
    occupancy = case(counter=Letters(), window=None)
    before = await occupancy.room([user(10**6)])
    await occupancy.estimate([user(10**6)])
    occupancy.measured(500, [user(10**6)])

    after = await occupancy.room([user(10**6), user(10)])

    assert before == Room(None, 1_000)
    assert after == Room(500 + scaled(10 + ENVELOPE), 1_000)


async def test_a_provider_that_tells_nothing_leaves_everything_to_the_estimate() -> (
    None
):
    occupancy = case(counter=Letters())
    items = [user(10), *answer(20)]
    occupancy.measured(None, items)

    estimate = await occupancy.estimate([*items, user(5)])

    # what is said; the call's name and arguments; envelopes
    items_tokens = 10 + 2 + 20 + 4 + 5 + 4 * ENVELOPE + CALL_ENVELOPE
    assert estimate == scaled(items_tokens + OVERHEAD)
    assert occupancy.last is None


async def test_an_answer_without_figures_leaves_the_measurement_before() -> None:
    occupancy = case(counter=Letters())
    first = [user(10), *answer(20)]
    occupancy.measured(500, first)
    second = [*first, result(30), *answer(40, "r2")]
    occupancy.measured(None, second)

    estimate = await occupancy.estimate(second)

    result_tokens = 30 + RESULT_ENVELOPE
    answer_tokens = 2 + 40 + 4 + 2 * ENVELOPE + CALL_ENVELOPE
    assert estimate == 500 + scaled(result_tokens + answer_tokens)


async def test_the_room_is_never_less_than_an_answer_needs() -> None:
    occupancy = case(counter=Letters(), window=10_000, max_tokens=2_000)
    occupancy.measured(9_990, [user(1)])

    assert (await occupancy.room([user(1)])).max_tokens == 1_024


async def test_what_is_left_of_the_window_is_the_room() -> None:
    occupancy = case(counter=Letters(), window=10_000, max_tokens=2_000)
    occupancy.measured(8_500, [user(1)])

    assert (await occupancy.room([user(1)])).max_tokens == 1_500


async def test_no_more_output_is_asked_for_than_the_model_gives() -> None:
    occupancy = case(counter=Letters(), window=10_000, max_tokens=500)
    occupancy.measured(9_990, [user(1)])

    assert (await occupancy.room([user(1)])).max_tokens == 500


async def test_a_window_that_was_learned_bounds_the_room() -> None:
    occupancy = case(counter=Letters(), window=None, max_tokens=2_000)
    occupancy.measured(8_500, [user(1)])

    occupancy.window = 10_000

    assert (await occupancy.room([user(1)])).max_tokens == 1_500


@pytest.mark.parametrize(("limit", "over"), [(649, 650), (650, None), (10**6, None)])
async def test_over_a_limit_means_more_than_it(limit: int, over: int | None) -> None:
    occupancy = case(counter=Letters())
    occupancy.measured(500, [user(1)])
    new = (129 - ENVELOPE, 1)  # 130 * 1.15, rounded up, is 150

    items = [user(1), UserText("é" * new[0] + "e")]

    assert await occupancy.over(items, limit) == over


async def test_bytes_prove_that_a_limit_is_not_reached() -> None:
    counter = Letters()
    occupancy = case(counter=counter)
    occupancy.measured(500, [user(1)])

    over = await occupancy.over([user(1), user(1_000)], 5_000)

    assert over is None
    assert counter.counted == []


async def test_each_item_is_counted_once_over_requests_and_a_compaction() -> None:
    counter = Letters()
    occupancy = case(counter=counter)
    items: list[Item] = [user(10), *answer(20)]
    await occupancy.estimate(items)
    occupancy.measured(500, items)
    items.append(result(30))
    await occupancy.estimate(items)
    occupancy.reset()
    await occupancy.estimate([user(99, "s"), *items[2:]])
    await occupancy.estimate([user(99, "s"), *items[2:]])

    assert len(counter.counted) == len(set(counter.counted))
    assert sorted(map(len, counter.counted)) == sorted(
        [10, 2, 20, 4, 30, 99, len(SYSTEM), OVERHEAD - len(SYSTEM) - ENVELOPE]
    )


async def test_items_read_again_from_the_log_are_not_counted_again() -> None:
    counter = Letters()
    occupancy = case(counter=counter)
    await occupancy.estimate([user(10), result(2_000)])
    counted = len(counter.counted)

    occupancy.reset()
    await occupancy.estimate([result(2_000)])

    assert len(counter.counted) == counted


async def test_a_compaction_voids_the_measurement_and_not_the_factor() -> None:
    occupancy = case(counter=Letters())
    for _ in range(20):
        occupancy.calibration.learn(4_000, 8_000)
    factor = occupancy.calibration.factor
    occupancy.measured(80_000, [user(10), user(20)])
    occupancy.reset()

    estimate = await occupancy.estimate([user(20)])

    assert occupancy.last is None
    assert occupancy.calibration.factor == factor > 1.9
    assert estimate == scaled(20 + ENVELOPE + OVERHEAD, factor)


async def test_what_was_pruned_is_taken_off_the_measurement() -> None:
    occupancy = case(counter=Letters())
    items = [user(10), *answer(20), result(3_000), *answer(5, "r2")]
    occupancy.measured(10_000, items)
    pruned = [ToolResult("a", "gone") if i == result(3_000) else i for i in items]

    estimate = await occupancy.estimate([*pruned, user(6)])

    # measured, less 3 000, plus "gone" and the new one with its envelope
    assert estimate == 10_000 + scaled(4 + 6 + ENVELOPE - 3_000)


async def test_items_that_left_the_history_leave_memory() -> None:
    class Text(str):
        """A str that a weak reference can point to."""

        __slots__ = ("__weakref__",)

    text = Text("gone")
    gone = weakref.ref(text)
    counter = Letters()
    occupancy = case(counter=counter)
    await occupancy.estimate([UserText(text), user(5)])
    counter.counted.clear()
    occupancy.measured(100, [UserText(text), user(5)])
    del text

    occupancy.reset()
    await occupancy.estimate([user(5)])

    assert gone() is None


async def test_the_factor_learns_from_what_was_new_in_the_request() -> None:
    occupancy = case(counter=Letters())
    items: list[Item] = [user(10), *answer(20)]
    occupancy.measured(500, items, usage=Usage(input=400, output=100))
    items.append(result(1_000 - RESULT_ENVELOPE))
    await occupancy.estimate(items)
    items += answer(30, "r2")
    occupancy.measured(2_550, items, usage=Usage(input=2_500, output=50))

    learned = occupancy.calibration.factor

    expected = case(counter=Letters()).calibration
    expected.learn(1_000, 2_000)
    assert learned == expected.factor > F


async def learned(
    *, reset: bool = False, pruned: bool = False, usage: Usage | None = None
) -> float:
    """Return the factor after an answer that was twice what was counted."""
    occupancy = case(counter=Letters())
    items: list[Item] = [user(10), *answer(20)]
    occupancy.measured(500, items, usage=Usage(input=400, output=100))
    if reset:
        occupancy.reset()
    if pruned:
        items[0] = user(2)
    items.append(result(1_000))
    await occupancy.estimate(items)
    items += answer(30, "r2")
    occupancy.measured(2_550, items, usage=usage)
    return occupancy.calibration.factor


async def test_nothing_is_learned_from_what_cannot_be_compared() -> None:
    one_prompt = Usage(input=2_500, output=50)
    two_prompts = Usage(input=4_000, output=50)

    assert await learned(usage=one_prompt) > F
    assert await learned(usage=None) == F
    assert await learned(usage=two_prompts) == F
    assert await learned(usage=one_prompt, reset=True) == F
    assert await learned(usage=one_prompt, pruned=True) == F


async def test_the_parts_are_named_for_whoever_must_make_them_smaller() -> None:
    occupancy = case(counter=Letters())

    parts = await occupancy.parts([user(10), user(20)])

    assert parts == Parts(
        system=scaled(len(SYSTEM)),
        tools=scaled(OVERHEAD - len(SYSTEM)),
        items=scaled(30 + 2 * ENVELOPE),
    )
    assert parts.total == parts.system + parts.tools + parts.items


async def test_the_size_of_each_item_is_known() -> None:
    occupancy = case(counter=Letters())

    sizes = await occupancy.sizes([user(10), user(20), user(10)])

    assert sizes == (scaled(17), scaled(27), scaled(17))


async def test_much_text_is_counted_beside_the_loop() -> None:
    main = trio.lowlevel.current_task()

    class Watching(Letters):
        def count(self, text: str) -> int:
            try:
                self.counted.append(f"here {trio.lowlevel.current_task() is main}")
            except RuntimeError:
                self.counted.append("elsewhere")
            return len(text)

    counter = Watching()
    occupancy = case(counter=counter)

    await occupancy.estimate([])
    await occupancy.estimate([user(10)])
    await occupancy.estimate([user(10), user(INLINE_BYTES)])

    assert counter.counted == ["elsewhere", "elsewhere", "here True", "elsewhere"]


LENGTHS = st.lists(st.tuples(st.sampled_from("eé中"), st.integers(0, 50)), max_size=8)


def texts(lengths: Sequence[tuple[str, int]]) -> list[Item]:
    return [user(length, letter) for letter, length in lengths]


@example([], [], None, 45)  # where the envelope of a tool decides
@given(LENGTHS, LENGTHS, st.none() | st.integers(1, 2_000), st.integers(0, 3_000))
def test_over_agrees_with_the_estimate_whatever_bytes_prove(
    view: list[tuple[str, int]],
    items: list[tuple[str, int]],
    measured: int | None,
    limit: int,
) -> None:
    async def both() -> tuple[int | None, int]:
        occupancy = case(counter=Letters())
        occupancy.measured(measured, texts(view))
        over = await occupancy.over(texts(items), limit)
        return over, await occupancy.estimate(texts(items))

    over, estimate = trio.run(both)

    assert over == (estimate if estimate > limit else None)


@given(st.lists(LENGTHS, max_size=6), st.randoms(use_true_random=False))
def test_an_estimate_does_not_depend_on_what_was_asked_before(
    views: list[list[tuple[str, int]]], random: Random
) -> None:
    async def both(view: list[Item], before: list[list[Item]]) -> tuple[int, int]:
        used, fresh = case(counter=Letters()), case(counter=Letters())
        for items in before:
            await used.over(items, random.randrange(500))
            await used.estimate(items)
            if random.random() < 0.3:
                used.reset()
        return await used.estimate(view), await fresh.estimate(view)

    last = texts(views[-1]) if views else []
    used, fresh = trio.run(both, last, [texts(view) for view in views[:-1]])

    assert used == fresh
