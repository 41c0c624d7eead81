from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from pod.entries import (
    Clip,
    Compaction,
    ItemEntry,
    Known,
    ModelChange,
    PromptChange,
    Prune,
    RunStart,
    UsageEntry,
)
from pod.measured import calibration_of, last_measured
from worker.calibration import Calibration
from worker.items import AssistantText, Item, ToolResult, UserText
from worker.usage import Usage

MODEL = "claude-opus-4-8"
FIRST = Calibration(MODEL).factor


def told(prompt: int, estimate: int | None = None, model: str = MODEL) -> UsageEntry:
    """Make the usage of an answer of 100 tokens."""
    return UsageEntry(
        response="r",
        model=f"{model}-20270101",
        stop_reason="tool_use",
        usage=Usage(input=prompt, output=100),
        context_tokens=prompt + 100,
        estimate=estimate,
    )


def user(text: str) -> ItemEntry:
    return ItemEntry(item=UserText(text))


def said(text: str) -> ItemEntry:
    return ItemEntry(item=AssistantText(text, "r"))


START = RunStart(model=MODEL)
FAILED = UsageEntry(
    response="",
    model=MODEL,
    stop_reason="failed:truncated",
    usage=Usage(input=5),
    context_tokens=None,
)
COMPACTION = Compaction(
    compaction_id="c",
    reason="manual",
    mode="mechanical",
    summary="s",
    first_kept=None,
    compacted_from="e1",
    tokens_before=9,
    tokens_after=3,
)


def path(*entries: Known) -> list[Known]:
    return [replace(entry, id=f"e{number}") for number, entry in enumerate(entries)]


def test_what_the_last_answer_measured_goes_with_the_items_it_had() -> None:
    entries = path(
        START,
        user("a"),
        said("b"),
        told(1_000),
        user("c"),
        said("d"),
        FAILED,
        user("e"),
    )

    assert last_measured(MODEL, entries) == (
        1_100,
        [UserText("a"), AssistantText("b", "r")],
    )


def test_nothing_is_measured_on_a_path_without_an_answer() -> None:
    assert last_measured(MODEL, path(START, user("a"))) is None
    assert last_measured(MODEL, []) is None


@pytest.mark.parametrize(
    "void",
    [
        COMPACTION,
        Prune(entries=("e1",), tokens=(5,), saved=5),
        Clip(entry="e1", text="c"),
        PromptChange(system="another"),
        ModelChange(model="another"),
        RunStart(model="another"),
    ],
    ids=lambda entry: type(entry).__name__,
)
def test_what_changes_the_prompt_voids_what_was_measured(void: Known) -> None:
    before: list[Known] = [START, user("a"), said("b"), told(1_000)]

    assert last_measured(MODEL, path(*before, void)) is None


def test_the_answer_of_another_model_measures_nothing() -> None:
    other = RunStart(model="another")
    entries = path(
        START, user("a"), said("b"), told(900), other, user("c"), said("d"), told(1_000)
    )

    assert last_measured(MODEL, entries) is None
    assert last_measured("another", entries) is not None


def learned(*pairs: tuple[int, int]) -> float:
    calibration = Calibration(MODEL)
    for estimate, measured in pairs:
        calibration.learn(estimate, measured)
    return calibration.factor


def test_the_factor_is_learned_again_from_the_log() -> None:
    new: Sequence[Item] = [ToolResult("t", "s", content="x")]
    entries = path(
        START,
        told(10_000, 9_000),
        *(ItemEntry(item=item) for item in new),
        told(12_100, 10_100 + round(1_000 * FIRST)),
    )

    assert calibration_of(MODEL, entries).factor == learned((1_000, 2_000))


def test_a_compaction_voids_the_measurement_and_not_the_factor() -> None:
    second = told(12_100, 10_100 + round(1_000 * FIRST))
    entries = path(START, told(10_000), second, COMPACTION, told(4_000, 9_000))

    assert calibration_of(MODEL, entries).factor == learned((1_000, 2_000))
