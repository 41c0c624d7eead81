"""What a person sees: lines, whatever is in them, and nothing when it is to be quiet."""

import re
from io import StringIO

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from rich.console import Console

from pod.cli.progress import Progress
from pod.entries import (
    BranchSummary,
    Compaction,
    CompactionFailed,
    CompactionStart,
    ItemEntry,
    Leaf,
    NavigationFailed,
    Notice,
    Prune,
    Receipt,
    Reference,
    RunEnd,
    RunStart,
    UsageEntry,
)
from pod.events import CompactProgress, CompactSkipped, Event, NavigateStart
from worker.events import RequestStart, Retry, ToolProgress, Warning
from worker.items import AssistantText, Item, ToolCall, ToolResult
from worker.usage import Usage


def shown(
    *events: Event | Item,
    quiet: bool = False,
    terminal: bool = False,
    answers: bool = False,
    end: RunEnd | None = None,
) -> str:
    stream = StringIO()
    console = Console(
        file=stream, highlight=False, emoji=False, force_terminal=terminal, width=60
    )
    progress = Progress(console, quiet=quiet, answers=answers)
    with progress.shown():
        for event in events:
            progress(ItemEntry(item=event) if isinstance(event, Item) else event)
    if end is not None:
        progress.end(end)
    return stream.getvalue()


CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def call(name: str = "bash", arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id="c", name=name, arguments=arguments, response="r")


ONE_OF_EACH: list[Event | Item] = [
    RunStart(model="m"),
    RequestStart(request=1, model="m", items=1, max_tokens=5, estimate=None),
    AssistantText(text="Let me\nlook.", response="r"),
    call(arguments='{"command": "ls", "timeout": 5}'),
    ToolProgress(call_id="c", name="bash", text="half way"),
    ToolResult(call_id="c", summary="bash: exit 0"),
    ToolResult(call_id="d", summary="bash failed: no", is_error=True),
    Retry(
        attempt=1, attempts=8, wait=1.25, kind="overloaded", status=529, message="busy"
    ),
    UsageEntry(
        response="r",
        model="m",
        stop_reason="end_turn",
        usage=Usage(input=5),
        context_tokens=5,
        cost_usd=0.5,
    ),
]


def test_without_a_terminal_only_whole_lines_are_written() -> None:
    assert shown(*ONE_OF_EACH) == (
        "Let me look.\n"
        '→ bash command="ls" timeout=5\n'
        "← bash: exit 0\n"
        "✗ bash failed: no\n"
        "! overloaded: busy; attempt 2 of 8 in 1.2 s\n"
    )


COMPACTIONS: list[Event | Item] = [
    CompactionStart(
        compaction_id="a",
        reason="mid_turn",
        mode="worker",
        tokens_before=90_500,
        threshold=90_000,
    ),
    CompactProgress(
        compaction_id="a",
        requests=2,
        worker_input_tokens=6_000,
        auto_read_tokens=300,
        auto_read_budget=8_000,
        references=5,
        has_summary=False,
    ),
    Compaction(
        compaction_id="a",
        reason="mid_turn",
        mode="worker",
        summary="…",
        first_kept=None,
        compacted_from="e",
        tokens_before=90_500,
        tokens_after=14_310,
        receipt=Receipt(
            summarised_items=61,
            kept_items=12,
            summary_tokens=1_204,
            directive_tokens=310,
            dropped_quotes=("you may",),
            worker_requests=4,
        ),
        references=(Reference("/a", "used lately"),),
        cost_usd=0.0123,
        seconds=12.34,
    ),
    CompactionFailed(
        compaction_id="b",
        code="timeout",
        message="Auto-compaction failed: not done in time",
        consecutive_failures=3,
        breaker_open=True,
    ),
    Prune(entries=("e", "f"), tokens=(15_000, 16_000), saved=30_970),
    CompactSkipped(reason="all_kept", message="there is nothing to summarise"),
]


def test_a_navigation_is_told_in_a_line_for_each_of_its_parts() -> None:
    assert shown(
        NavigateStart(
            target="t", old_leaf="o", new_leaf="t", entries=1_200, summarize=True
        ),
        Leaf(target="t", behind=1),
        BranchSummary(from_id="o", summary="## Goal\nParser."),
        NavigateStart(
            target=None, old_leaf="o", new_leaf=None, entries=3, summarize=False
        ),
        Leaf(target=None),
        NavigationFailed(target="t", code="timeout", message="not done"),
    ) == (
        "↶ summarising the branch that is left (1,200 entries)\n"
        "↶ on from t\n"
        "↶ branch summary: ## Goal Parser.\n"
        "↶ on from the beginning\n"
        "✗ not moved: timeout: not done\n"
    )


def test_a_compaction_is_told_in_a_line_at_each_end() -> None:
    assert shown(*COMPACTIONS) == (
        "⇣ compacting (mid_turn): 90,500 tokens of 90,000\n"
        "⇣ 90,500 to 14,310 tokens (-84 %): 61 items summarised, 12 kept, summary of"
        " 1,204 by worker, directives of 310, 0 marks of 0, 1 reference, 4 requests,"
        " $0.0123, 1 quote dropped, 12.3 s\n"
        "✗ compaction failed: timeout; the history is as it was; 3 failures in a"
        " row; it is left alone for now\n"
        "⇣ 2 results left out, 30,970 tokens saved\n"
        "! not compacted: there is nothing to summarise\n"
    )


def test_on_a_terminal_it_says_how_far_the_compact_worker_is() -> None:
    assert "compacting: 2 requests, 6,000 tokens of input" in shown(
        *COMPACTIONS[:2], terminal=True
    )


def test_quiet_it_writes_nothing_but_warnings() -> None:
    warnings: list[Event | Item] = [
        Warning(message="careful"),
        Notice(message="the tail was torn"),
    ]

    assert shown(*ONE_OF_EACH, *COMPACTIONS, *warnings, quiet=True) == (
        "! careful\n! the tail was torn\n"
    )


def test_a_long_line_is_cut_and_never_wrapped() -> None:
    (line,) = shown(call(arguments='{"x": "' + "y" * 5_000 + '"}')).splitlines()

    assert len(line) == 100
    assert line.endswith("…")


def test_on_a_terminal_a_line_is_cut_at_its_width() -> None:
    written = shown(
        call(arguments='{"x": "' + "y" * 5_000 + '"}'),
        ToolResult(call_id="c", summary="z" * 5_000),
        terminal=True,
    )

    lines = [s for s in (CODES.sub("", line) for line in written.splitlines()) if s]
    cut = [line for line in lines if line[0] in "→←"]
    assert [len(line) for line in cut] == [60, 60]


def say(text: str, response: str = "r") -> AssistantText:
    return AssistantText(text=text, response=response)


DONE = RunEnd(outcome="finished", reason="done", exit_code=0, text="All done.")


def test_an_answer_that_is_printed_elsewhere_is_not_among_the_lines() -> None:
    before, *after = shown(
        say("Let me look."), call(), say("All done.", "s"), answers=True, end=DONE
    ).splitlines(keepends=True)

    assert before == "Let me look.\n"
    assert after[0] == "→ bash\n"
    assert [line.startswith("finished after") for line in after[1:]] == [True]


def test_an_answer_that_nobody_else_prints_is() -> None:
    assert "All done.\n" in shown(say("All done."), end=DONE)


def test_what_was_said_last_is_shown_where_it_is_no_answer() -> None:
    broken = replace(DONE, outcome="failed", text="")

    assert shown(say("Half"), answers=True, end=broken).startswith("Half\nfailed")


@pytest.mark.parametrize(
    "arguments", ["", "{", "[1]", '{"a":"\ud800"}', "[" * 100_000, "\0"]
)
def test_arguments_that_are_none_are_shown_as_they_are(arguments: str) -> None:
    assert shown(call(arguments=arguments)).startswith("→ bash")


hostile = st.text(st.characters(exclude_categories=[]), max_size=40) | st.sampled_from(
    [
        "\x1b[2J\x1b]0;owned\x07",
        "[bold red]x[/]",
        "[/nothing]",
        "\r\b\x00\ud800",
        ":smile:",
    ]
)


@given(text=hostile)
def test_nothing_an_event_contains_reaches_the_terminal_as_a_command(text: str) -> None:
    written = shown(
        AssistantText(text=text, response="r"),
        call(name=text, arguments=text),
        ToolResult(call_id="c", summary=text),
        ToolProgress(call_id="c", name="bash", text=text),
        RequestStart(request=1, model=text, items=1, max_tokens=5, estimate=None),
        Retry(attempt=1, attempts=2, wait=1, kind="server", status=None, message=text),
        Warning(message=text),
    )

    assert "\x1b" not in written
    assert "\0" not in written
    assert "\b" not in written
    written.encode()


@given(text=hostile)
def test_a_live_status_takes_any_text(text: str) -> None:
    shown(
        ToolProgress(call_id="c", name=text, text=text),
        RequestStart(request=1, model=text, items=1, max_tokens=5, estimate=None),
        terminal=True,
    )


@pytest.mark.parametrize(("cost", "said"), [(0.25, "$0.2500"), (None, "price unknown")])
def test_the_last_line_says_what_it_took(cost: float | None, said: str) -> None:
    stream = StringIO()
    progress = Progress(Console(file=stream, width=40), quiet=False)

    progress.end(
        RunEnd(
            outcome="finished",
            reason="done",
            exit_code=0,
            requests=2,
            tool_calls=3,
            tool_errors=1,
            usage=Usage(input=1_000, output=234),
            cost_usd=cost,
            seconds=1.25,
        ),
        "20261130-050000-aaaa",
    )

    assert stream.getvalue() == (
        "finished after 1.2 s: 2 requests, 3 tool calls (1 error), 1,234 tokens,"
        f" {said}, session 20261130-050000-aaaa\n"
    )


def test_who_cannot_mark_files_is_shown_without_marks() -> None:
    event = CompactProgress(
        compaction_id="a",
        requests=2,
        worker_input_tokens=6_000,
        auto_read_tokens=0,
        auto_read_budget=0,
        references=0,
        has_summary=True,
    )

    seen = CODES.sub("", shown(event, terminal=True))
    assert "compacting: 2 requests, 6,000 tokens of input, the summ" in seen
