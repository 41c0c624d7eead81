import pytest
from hypothesis import given, strategies as st

from worker.calibration import (
    HIGHEST,
    LOWEST,
    SMALLEST,
    Calibration,
    Measurement,
    prompt_tokens,
    relearn,
)
from worker.tokens import factor_for
from worker.usage import Usage

MODEL = "claude-opus-4-8"
FIRST = factor_for(MODEL)


def test_the_first_factor_is_the_guess_for_the_model() -> None:
    assert Calibration(MODEL).factor == FIRST
    assert Calibration("qwen3-coder").factor == factor_for("qwen3-coder")


def test_the_factor_goes_to_what_is_measured() -> None:
    calibration = Calibration(MODEL)

    for _ in range(60):
        calibration.learn(1_000, 1_250)

    assert calibration.factor == pytest.approx(1.25, abs=0.01)


def test_later_measurements_count_more() -> None:
    calibration = Calibration(MODEL)

    for ratio in [1.1] * 40 + [1.6] * 40:
        calibration.learn(1_000, round(1_000 * ratio))

    assert calibration.factor == pytest.approx(1.6, abs=0.01)


@given(st.lists(st.tuples(st.integers(-(10**7), 10**7), st.integers(-(10**7), 10**7))))
def test_nothing_that_is_measured_takes_the_factor_out_of_its_bounds(
    pairs: list[tuple[int, int]],
) -> None:
    calibration = Calibration(MODEL)

    for estimate, measured in pairs:
        calibration.learn(estimate, measured)

    assert LOWEST <= calibration.factor <= HIGHEST


def test_a_tiny_part_teaches_nothing() -> None:
    calibration = Calibration(MODEL)

    calibration.learn(SMALLEST - 1, 10_000)
    calibration.learn(0, 500)
    calibration.learn(-4_000, -6_000)

    assert calibration.factor == FIRST


def test_a_prompt_that_shrank_teaches_nothing() -> None:
    calibration = Calibration(MODEL)

    calibration.learn(4_000, -20_000)
    calibration.learn(4_000, 0)

    assert calibration.factor == FIRST


def test_one_giant_part_does_not_outvote_all_others() -> None:
    one, many = Calibration(MODEL), Calibration(MODEL)

    for _ in range(20):
        one.learn(2_000, 2_400)
        many.learn(2_000, 2_400)
    one.learn(1_000_000, 2_500_000)
    many.learn(8_000, 20_000)

    assert one.factor == many.factor


def test_a_prompt_is_known_where_the_bill_is_of_one_prompt() -> None:
    usage = Usage(input=10, cache_read=200, cache_write=30, output=60)

    assert prompt_tokens(300, usage) == 240
    assert prompt_tokens(200, usage) is None
    assert prompt_tokens(300, None) is None


def measurement(prompt: int, output: int, estimate: int | None) -> Measurement:
    usage = Usage(input=prompt, output=output)
    return Measurement(estimate, prompt + output, usage)


PARTS = st.tuples(st.integers(0, 20_000), st.floats(0.5, 3), st.integers(0, 4_000))
"""New o200k tokens of a request, what the model makes of one, its answer."""


@given(st.lists(PARTS, max_size=30), st.integers(0, 29))
def test_the_log_teaches_what_the_run_had_learned(
    parts: list[tuple[int, float, int]], void: int
) -> None:
    live = Calibration(MODEL)
    log: list[Measurement | None] = []
    before: int | None = None
    context = 5_000
    for number, (new, ratio, output) in enumerate(parts):
        if number == void:
            log.append(None)
            before = None
        prompt = context + round(new * ratio)
        known = context if before is None else before
        log.append(measurement(prompt, output, known + round(new * live.factor)))
        if before is not None:
            live.learn(new, prompt - before)
        before = context = prompt + output

    learned = relearn(MODEL, log)

    # A part of about SMALLEST tokens may fall to the other side of it by rounding.
    assert learned.factor == pytest.approx(live.factor, abs=0.02)


def test_a_break_voids_the_measurement_and_not_the_factor() -> None:
    learned = relearn(
        MODEL,
        [
            measurement(10_000, 100, None),
            measurement(12_100, 100, 10_100 + round(1_000 * FIRST)),
            None,
            measurement(3_000, 100, 90_000),
        ],
    )
    only = Calibration(MODEL)
    only.learn(1_000, 2_000)

    assert learned.factor == only.factor


def test_requests_without_figures_teach_nothing() -> None:
    learned = relearn(
        MODEL,
        [
            measurement(10_000, 100, None),
            Measurement(12_000, None, None),
            Measurement(14_000, 20_000, None),
            measurement(25_000, 10, None),
            # over two iterations: its prompt is not known
            Measurement(30_000, 26_000, Usage(input=50_000, output=10)),
        ],
    )

    assert learned.factor == FIRST
