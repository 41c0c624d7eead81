import pytest
from msgspec.structs import replace

from pod.compaction.job import failure_text
from pod.compaction.verdict import Figures, Rejection, judge
from pod.entries import Reason

GOOD = Figures(
    before=90_000,
    after=30_000,
    limit=56_000,
    min_gain=0.1,
    summary=1_500,
    summary_cap=4_000,
)


def test_a_compaction_that_makes_room_is_good() -> None:
    assert judge("done", GOOD) is None
    assert judge("done", replace(GOOD, limit=None)) is None
    assert judge("done", replace(GOOD, after=55_999)) is None


@pytest.mark.parametrize(
    ("summary", "figures", "rejection"),
    [
        (" \n", GOOD, Rejection("no_summary", "the summary is empty")),
        (
            "done",
            replace(GOOD, summary=4_001),
            Rejection("too_large", "the summary has 4,001 tokens, the cap is 4,000"),
        ),
        (
            "done",
            replace(GOOD, after=56_000),
            Rejection(
                "does_not_fit",
                "the context would have 56,000 tokens, and has to be under 56,000",
            ),
        ),
        (
            # gemini-cli#6563: 750k to 750k, again and again.
            "done",
            replace(GOOD, before=60_000, after=54_001),
            Rejection(
                "no_gain",
                "the context would go from 60,000 to 54,001 tokens, less than min_gain ="
                " 0.1 of it",
            ),
        ),
    ],
)
def test_what_does_not_help_is_refused(
    summary: str, figures: Figures, rejection: Rejection
) -> None:
    assert judge(summary, figures) == rejection


@pytest.mark.parametrize("after", [0, 100, 107, 200])
def test_the_same_size_is_no_gain_however_little_is_asked(after: int) -> None:
    """openclaw#150447: 107 tokens to 107, a success."""
    figures = replace(GOOD, before=100, after=after, min_gain=0.0001)

    rejection = judge("done", figures)

    assert (rejection is None) == (after < 100)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("overflow", "Context overflow recovery failed: it is"),
        ("mid_turn", "Auto-compaction failed: it is"),
        ("post_run", "Auto-compaction failed: it is"),
        ("model_switch", "Auto-compaction failed: it is"),
        ("manual", "Compaction failed: it is"),
    ],
)
def test_the_words_of_a_failure_depend_on_why_it_was_tried(
    reason: Reason, text: str
) -> None:
    assert failure_text(reason, "it is") == text
