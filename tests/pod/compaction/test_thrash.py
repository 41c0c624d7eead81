from pod.compaction.thrash import Sizes, Thrash, thrash_of, too_large_message
from pod.entries import Compaction, CompactionStart, Known, Reason, UsageEntry
from tests.pod.logs import chain, said


def start(reason: Reason = "mid_turn") -> CompactionStart:
    return CompactionStart(
        compaction_id="k", reason=reason, mode="worker", tokens_before=90_000
    )


DONE = Compaction(
    compaction_id="k",
    reason="mid_turn",
    mode="worker",
    summary="s",
    first_kept=None,
    compacted_from="e1",
    tokens_before=90_000,
    tokens_after=20_000,
)


def answered(response: str = "r") -> UsageEntry:
    return UsageEntry(
        response=response,
        model="m",
        stop_reason="end_turn",
        usage=None,
        context_tokens=None,
    )


def after(*entries: Known) -> Thrash:
    return thrash_of(chain(said("a"), *entries))


def test_the_first_compaction_is_none() -> None:
    assert after(start()) == Thrash(None, 0)


def test_over_the_limit_twice_in_a_row_before_two_responses_is_thrash() -> None:
    once = (start(), DONE, answered(), start())

    assert not after(*once).is_thrash
    assert after(*once, DONE, answered(), start()).is_thrash
    assert after(*once, DONE, start()).is_thrash


def test_two_responses_in_between_are_progress() -> None:
    soon = (start(), DONE, answered(), start(), DONE)

    assert not after(*soon, answered(), answered(), start()).is_thrash
    assert after(*soon, answered(), answered(), start()).in_a_row == 0


def test_what_a_failed_request_used_is_no_response() -> None:
    soon = (start(), DONE, answered(), start(), DONE)

    assert after(*soon, answered(""), answered(""), start()).is_thrash


def test_a_compaction_by_hand_or_behind_a_run_is_none() -> None:
    soon = (start(), DONE, start("manual"), DONE, start("post_run"), DONE)

    assert after(*soon).in_a_row == 0


def test_the_message_names_the_parts_and_what_to_do() -> None:
    sizes = Sizes(system=18_000, tools=15_000, summary=1_500, kept=9_000)

    assert too_large_message(sizes, 33_536) == (
        "the context cannot be made smaller than 43,500 tokens, and the limit is 33,536."
        " Its parts: system prompt 18,000; tools 15,000; summary 1,500; kept history"
        " 9,000. The largest is the system prompt: shorten [prompt], or raise"
        " compact_threshold or the window."
    )
