"""Receipts of compactions, to the letter."""

import pytest
from msgspec.structs import replace

from pod.cli.failing import UsageError
from pod.cli.receipts import (
    Told,
    chosen,
    compactions,
    done_line,
    event_line,
    receipt_lines,
)
from pod.entries import (
    AutoRead,
    BreakerChange,
    Clip,
    Compaction,
    CompactionFailed,
    CompactionStart,
    Directive,
    Known,
    Prune,
    Receipt,
    Reference,
)
from tests.pod.logs import AT, chain, said
from worker.usage import Usage

START = CompactionStart(
    compaction_id="a",
    reason="mid_turn",
    mode="worker",
    tokens_before=90_500,
    threshold=90_000,
)
DONE = Compaction(
    compaction_id="a",
    reason="mid_turn",
    mode="worker",
    summary="## Completed Tasks\n\x1b[31mred",
    first_kept=None,
    compacted_from="e",
    tokens_before=90_500,
    tokens_after=14_310,
    directives=(Directive("go"), Directive("a […] z", clipped=True)),
    auto_read=(
        AutoRead("/w/main.rs", "", "0", 2_100, 42, 142),
        AutoRead("/w/all.rs", "", "0", 2_000),
    ),
    references=(
        Reference("/w/x\n.py", "read before compaction"),
        Reference("/w/y", ""),
    ),
    dropped_reasoning=("e2",),
    receipt=Receipt(
        summarised_items=61,
        summarised_tokens=74_210,
        kept_items=12,
        kept_tokens=8_104,
        summary_tokens=1_204,
        directive_tokens=310,
        auto_read_tokens=4_100,
        reference_tokens=120,
        dropped_quotes=("you may delete it",),
        vanished_marks=("/w/y",),
        worker_requests=4,
        worker_input_tokens=21_400,
        attempts=("worker: used",),
    ),
    usage=Usage(input=400, cache_read=44_000, output=1_500),
    cost_usd=0.0123,
    seconds=12.34,
)
FAILED = CompactionFailed(
    compaction_id="b",
    code="timeout",
    message="Auto-compaction failed: not done after 300 seconds",
    retryable=True,
    consecutive_failures=3,
    breaker_open=True,
    attempts=("worker: timeout: not done after 300 seconds",),
    usage=Usage(input=5, output=1),
    seconds=300.0,
)


def test_a_receipt_says_what_went_in_and_what_came_out() -> None:
    start, done = chain(START, DONE)
    assert isinstance(start, CompactionStart)
    assert isinstance(done, Compaction)

    lines = list(receipt_lines(Told(2, start, done), of=4))

    assert "\n".join(lines) == (
        f"compaction 2 of 4: done, {AT}\n"
        "why        mid_turn: 90,500 tokens, the limit is 90,000\n"
        "mode       worker\n"
        "tokens     90,500 before, 14,310 after: 76,190 saved (-84 %)\n"
        "summarised 61 items, 74,210 tokens\n"
        "kept       12 items, 8,104 tokens\n"
        "           1 reasoning block of the loop is not shown any more\n"
        "summary    1,204 tokens\n"
        "directives 2 messages, 310 tokens\n"
        "           1 clipped: the whole is in the log\n"
        "marks      2 marks, 4,100 tokens\n"
        "           /w/main.rs:42-142  2,100 tokens\n"
        "           /w/all.rs  2,000 tokens\n"
        "           /w/y  gone or too large by now: a reference\n"
        "references 2 files, 120 tokens\n"
        "           /w/x␊.py  read before compaction\n"
        "           /w/y\n"
        "quotes     1 dropped: nobody said that\n"
        "           “you may delete it”\n"
        "worker     4 requests, 21,400 tokens of input\n"
        "used       44,400 tokens in (44,000 cached), 1,500 out, $0.0123, 12.3 s\n"
        "attempts   worker: used\n"
        "\n"
        "## Completed Tasks\n"
        "red"
    )


def test_a_failed_one_says_why_and_what_it_used() -> None:
    (failed,) = chain(FAILED)
    assert isinstance(failed, CompactionFailed)

    lines = list(receipt_lines(Told(1, None, failed), of=1))

    assert lines == [
        f"compaction 1 of 1: failed, {AT}",
        "failed     timeout: Auto-compaction failed: not done after 300 seconds",
        "history    as it was; trying again may help",
        "breaker    3 failures in a row; it is left alone for now",
        "used       5 tokens in (0 cached), 1 out, price unknown, 300.0 s",
        "attempts   worker: timeout: not done after 300 seconds",
    ]


def test_one_that_goes_on_is_told_to() -> None:
    lines = list(receipt_lines(Told(1, START, None), of=1))

    assert lines == [
        "compaction 1 of 1: under way",
        "why        mid_turn: 90,500 tokens, the limit is 90,000",
    ]


def test_compactions_are_counted_as_they_began_failed_ones_too() -> None:
    path = chain(
        START,
        DONE,
        said("x"),
        replace(START, compaction_id="b"),
        FAILED,
        replace(START, compaction_id="c"),
    )

    told = compactions(path)

    assert [(id, t.number, type(t.end)) for id, t in told.items()] == [
        ("a", 1, Compaction),
        ("b", 2, CompactionFailed),
        ("c", 3, type(None)),
    ]


def test_each_thing_that_happens_to_the_context_has_a_line() -> None:
    path: list[Known] = chain(
        START,
        DONE,
        replace(START, compaction_id="b"),
        BreakerChange(failures=3, opened_at=AT, fingerprint="f"),
        FAILED,
        BreakerChange(failures=0),
        Prune(entries=("e1", "e2"), tokens=(15_000, 16_000), saved=30_970),
        Clip(entry="e3", text="x" * 1_000),
        replace(START, compaction_id="c"),
    )

    lines = [event_line(entry, compactions(path)) for entry in path]

    assert lines == [
        "",
        (
            "compaction 1 (mid_turn): 90,500 to 14,310 tokens (-84 %): 61 items"
            " summarised, 12 kept, summary of 1,204 by worker, directives of 310,"
            " 2 marks of 4,100, 2 references, 4 requests, $0.0123, 1 quote dropped,"
            " 12.3 s"
        ),
        "",
        f"breaker of worker: open since {AT}, 3 failures in a row",
        (
            "compaction 2 failed: timeout; the history is as it was; 3 failures in a row;"
            " it is left alone for now: Auto-compaction failed: not done after 300"
            " seconds"
        ),
        "breaker of worker: closed, 0 failures in a row",
        "pruned: 2 results left out, 30,970 tokens saved",
        "clipped: entry e3 to 1,000 characters",
        "compaction 3: compacting (mid_turn): 90,500 tokens of 90,000",
    ]


@pytest.mark.parametrize("number", [-1, 0, 2])
def test_a_number_that_none_has_is_a_mistake(number: int) -> None:
    with pytest.raises(UsageError, match=f"--compaction {number}: no such compaction"):
        chosen([Told(1, START, DONE)], number, "s")


def test_a_session_without_any_says_so() -> None:
    with pytest.raises(UsageError, match="it has none"):
        chosen([], 1, "s")


def test_a_receipt_of_single_calls_has_the_model_the_title_and_the_split_turn() -> None:
    (done,) = chain(
        replace(
            DONE,
            mode="summarize",
            short_summary="Ports: half done",
            receipt=replace(
                DONE.receipt,
                model="small-1",
                turn_prefix_items=40,
                attempts=("summarize: used",),
            ),
        )
    )
    assert isinstance(done, Compaction)

    lines = list(receipt_lines(Told(1, None, done), of=1))

    assert lines[1:3] == [
        "mode       summarize, small-1",
        "title      Ports: half done",
    ]
    assert lines[5] == "           40 of them begin the turn that is kept in part"
    assert "asked      4 requests, 21,400 tokens of input" in lines
    assert "summary of 1,204 by summarize" in done_line(done)


def test_a_receipt_says_that_a_hook_made_it() -> None:
    (done,) = chain(replace(DONE, from_hook=True))
    assert isinstance(done, Compaction)

    lines = list(receipt_lines(Told(1, None, done), of=1))

    assert lines[1] == "mode       a hook, in place of worker"
    assert "summary of 1,204 by a hook" in done_line(done)
