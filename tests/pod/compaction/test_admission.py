from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from pod.compaction.admission import Admission, Refused, admit
from pod.compaction.breaker import Refusal
from pod.compaction.cut import Cut
from pod.compaction.ground import Ground
from pod.entries import FileDetails, Mode
from pod.view import Window

BOTH: Sequence[Mode] = ("worker", "mechanical")
GROUND = Ground(
    window=Window(None, (), ()),
    cut=Cut(
        index=3,
        first_kept="e4",
        dropped_reasoning=(),
        clips=(),
        summarised_tokens=60_000,
        kept_tokens=9_000,
    ),
    system=18_000,
    tools=15_000,
    directives=(),
    directive_tokens=400,
    details=FileDetails(),
)


def admitted(
    rungs: Sequence[Mode] = BOTH,
    *,
    start: Ground = GROUND,
    low_water: int | None = 56_000,
    refusal: Refusal | None = None,
) -> Admission | Refused:
    refusals: dict[Mode, Refusal] = {"worker": refusal} if refusal else {}
    return admit(start, rungs, low_water=low_water, refusals=refusals)


def test_it_begins_with_all_rungs() -> None:
    assert admitted() == Admission(("worker", "mechanical"), ())
    assert admitted(low_water=None) == Admission(("worker", "mechanical"), ())


@pytest.mark.parametrize(("low_water", "is_refused"), [(42_500, True), (42_501, False)])
def test_a_floor_that_leaves_no_room_for_a_summary_is_refused(
    low_water: int, is_refused: bool
) -> None:
    found = admitted(low_water=low_water)

    assert isinstance(found, Refused) is is_refused
    if isinstance(found, Refused):
        assert found.reason == "floor"
        assert found.message == (
            "the context cannot be made smaller than 42,400 tokens, and the limit is"
            " 42,500. Its parts: system prompt 18,000; tools 15,000; user directives"
            " 400; kept history 9,000. The largest is the system prompt: shorten"
            " [prompt], or raise compact_threshold or the window."
        )


@pytest.mark.parametrize(
    ("refusal", "reason"), [("open", "breaker_open"), ("same_input", "same_input")]
)
def test_a_worker_that_must_not_be_asked_is_left_out(
    refusal: Refusal, reason: str
) -> None:
    found = admitted(refusal=refusal)

    assert isinstance(found, Admission)
    assert found.rungs == ("mechanical",)
    assert [text.split(": ")[:2] for text in found.left_out] == [["worker", reason]]


@pytest.mark.parametrize(
    ("refusal", "reason"), [("open", "breaker_open"), ("same_input", "same_input")]
)
def test_without_another_rung_nothing_is_begun(refusal: Refusal, reason: str) -> None:
    found = admitted(["worker"], refusal=refusal)

    assert isinstance(found, Refused)
    assert found.reason == reason
    assert "pod compact" in found.message  # what to do


def test_the_breaker_is_the_workers_alone() -> None:
    assert admitted(["mechanical"], refusal="open") == Admission(("mechanical",), ())


def test_where_clips_alone_make_room_no_worker_is_asked() -> None:
    start = replace(GROUND, cut=replace(GROUND.cut, index=0))

    assert admitted(start=start) == Admission(("mechanical",), ())
