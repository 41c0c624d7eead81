import runpy
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from worker.known_models import find_known, hints, normal_id, resolve, suited
from worker.model import Model
from worker.model_table import KNOWN

SCRIPT = Path(__file__).parents[2] / "scripts" / "update_models.py"


def test_the_table_is_what_the_installed_price_data_gives() -> None:
    if not SCRIPT.exists():
        pytest.skip("scripts/ is not part of the distribution")

    script = runpy.run_path(str(SCRIPT))

    assert script["table"]() == KNOWN, "run scripts/update_models.py"


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-sonnet-4.5:beta", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("anthropic.claude-opus-4-1-20250805-v1:0", "claude-opus-4-1"),
        ("claude-opus-4-0", "claude-opus-4"),
        ("claude-opus-4-20250514", "claude-opus-4"),
        ("claude-4-opus-20250514", "claude-opus-4"),
        ("claude-3-5-sonnet-latest", "claude-sonnet-3-5"),
        ("claude-3-7-sonnet-20250219", "claude-sonnet-3-7"),
        ("claude-opus-5", "claude-opus-5"),
        ("claude-opus-5-2026-07-24", "claude-opus-5"),
        ("claude-sonnet-5-5[1m]", "claude-sonnet-5-5"),
        (" Claude-Haiku-5-5 ", "claude-haiku-5-5"),
        ("qwen2.5-coder:32b-instruct", "qwen2-5-coder:32b-instruct"),
    ],
)
def test_the_ways_to_name_a_model_are_one(name: str, normal: str) -> None:
    assert normal_id(name) == normal


@given(st.sampled_from(sorted(KNOWN)))
def test_every_known_id_finds_itself(id: str) -> None:
    assert find_known(id) == KNOWN[id]
    assert find_known(f"eu.anthropic.{id}-20270101-v2:0") == KNOWN[id]


def test_a_newer_version_is_not_taken_for_an_older_one() -> None:
    assert find_known("claude-opus-5-9") is None
    assert find_known("claude-opus-50") is None


def test_a_known_model_is_filled_in() -> None:
    model = resolve("anthropic", "claude-opus-5-5", thinking="adaptive")

    assert model == Model(
        provider="anthropic",
        id="claude-opus-5-5",
        window=1_000_000,
        max_tokens=32_000,
        thinking="adaptive",
        system_messages=True,
        prefill=False,
    )


def test_a_declared_window_stands_against_the_catalogue() -> None:
    model = resolve("anthropic", "claude-opus-5-5", context_window=32_768)

    assert (model.window, model.max_tokens) == (32_768, 16_384)


@pytest.mark.parametrize(
    ("id", "window", "asked", "max_tokens"),
    [
        ("claude-opus-5-5", None, 64_000, 64_000),
        ("claude-opus-5-5", None, 339_835, 128_000),  # gemini-cli#7784
        ("claude-sonnet-4-5", None, 128_000, 64_000),
        ("claude-3-haiku-20240307", None, 32_000, 4_096),
        ("unheard-of", None, 32_000, 32_000),
        ("unheard-of", 8_192, 32_000, 4_096),
        ("unheard-of", 1, 32_000, 1),
    ],
)
def test_no_answer_is_asked_for_that_the_model_cannot_give(
    id: str, window: int | None, asked: int, max_tokens: int
) -> None:
    model = resolve("anthropic", id, context_window=window, max_tokens=asked)

    assert model.max_tokens == max_tokens


def test_an_unknown_model_has_no_window_and_no_manners() -> None:
    model = resolve("anthropic", "llama-4")

    assert (model.window, model.system_messages, model.prefill) == (None, False, False)


def test_a_scripted_model_is_not_looked_up() -> None:
    assert resolve("scripted", "claude-opus-5-5").window is None


def test_a_mistyped_name_is_met_with_a_near_one() -> None:
    (text,) = hints(resolve("anthropic", "claude-sonet-5-5"))

    assert text == (
        'nothing is known of a model called "claude-sonet-5-5": did you mean '
        '"claude-sonnet-5-5"? Set [model] context_window to its window in tokens'
    )


def test_a_foreign_name_is_only_asked_for_its_window() -> None:
    (text,) = hints(resolve("anthropic", "llama-4"))

    assert text == (
        'nothing is known of a model called "llama-4": '
        "set [model] context_window to its window in tokens"
    )
    assert hints(resolve("anthropic", "llama-4", context_window=8_192)) == (
        'nothing is known of a model called "llama-4"',
    )


def test_a_right_choice_is_not_commented() -> None:
    assert hints(resolve("scripted", "x")) == ()
    assert hints(resolve("anthropic", "claude-opus-5-5")) == ()


@pytest.mark.parametrize(
    ("id", "thinking", "names"),
    [
        ("claude-opus-5-5", 8_000, '"adaptive"'),
        ("claude-sonnet-4-5", "adaptive", "a number of tokens"),
    ],
)
def test_a_kind_of_thinking_the_model_does_not_take_is_named(
    id: str, thinking: int, names: str
) -> None:
    (text,) = hints(resolve("anthropic", id, thinking=thinking))

    assert names in text


def test_another_model_is_asked_to_think_only_as_it_is_known_to() -> None:
    """pi#1793: an option for reasoning was sent to a model that does not reason."""
    own = resolve("anthropic", "claude-sonnet-5-5", thinking=4_000)
    takes = next(k for k in KNOWN.values() if k.budget)
    adaptive = next(k for k in KNOWN.values() if k.adaptive and not k.budget)
    for id, thinking, left in (
        (takes.id, 4_000, 4_000),
        (adaptive.id, 4_000, None),
        (adaptive.id, "adaptive", "adaptive"),
        ("my-own-model", 4_000, None),
        ("my-own-model", "off", "off"),
        (own.id, 4_000, 4_000),
    ):
        other = replace(own, id=id, thinking=thinking)
        assert suited(other, own).thinking == left
