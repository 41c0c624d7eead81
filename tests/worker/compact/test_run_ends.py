"""How compact workers are ended, and what is left then."""

from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from tests.makers import MODEL
from tests.worker.compact import policies
from tests.worker.compact.runs import HEAD, ORDER, Case, answers, prompts, with_window
from tools.scope import Scope
from worker.client import FailureKind
from worker.compact.task import Budgets, CompactError, Task
from worker.history import faults
from worker.items import ToolResult, UserText
from worker.limits import Limits
from worker.policy import Decide, Reply, say
from worker.usage import Usage


async def test_a_stuck_one_is_asked_twice_then_there_is_no_summary(
    scope: Scope,
) -> None:
    case = Case(scope, policies.stuck())

    error = await case.failure()

    assert (error.code, error.counts, error.requests) == ("no_summary", True, 3)
    assert error.usage == case.spent.usage != Usage()
    assert error.cost_usd == 0.03


async def test_one_that_reads_for_ever_is_told_then_refused_then_ended(
    scope: Scope, files: tuple[str, ...]
) -> None:
    budgets = Budgets(max_input_tokens=20_000, max_requests=100)
    case = Case(scope, policies.endless_reader(), files=files, budgets=budgets)

    error = await case.failure()

    texts = [i.content or "" for i in case.items if isinstance(i, ToolResult)]
    warnings = [text for text in texts if "Input nearly used up" in text]
    refusals = [text for text in texts if "Only write_summary works now" in text]
    assert error.code == "input_limit"
    assert len(warnings) == 1
    assert refusals != []
    assert 17_500 <= error.input_tokens <= 20_000


async def test_a_summary_written_before_the_cap_is_used(
    scope: Scope, files: tuple[str, ...]
) -> None:
    budgets = Budgets(max_input_tokens=20_000, max_requests=100)
    policy = policies.endless_reader(writes_first=True)
    case = Case(scope, policy, files=files, budgets=budgets)

    result = await case.run()

    assert result.summary == policies.summary()


async def test_too_many_requests_are_like_the_cap(
    scope: Scope, files: tuple[str, ...]
) -> None:
    budgets = Budgets(max_requests=2)
    case = Case(scope, policies.careful(), files=files, budgets=budgets)

    error = await case.failure()

    assert (error.code, error.counts, error.requests) == ("input_limit", True, 2)
    assert str(error) == "no summary after 2 requests (worker_max_requests)"


async def test_the_pods_own_limits_hold_and_are_not_its_fault(scope: Scope) -> None:
    case = Case(scope, policies.stuck(), limits=Limits(max_budget_usd=0.02))

    error = await case.failure()

    assert (error.code, error.counts, error.requests) == ("input_limit", False, 2)
    assert "max_budget_usd" in str(error)


@pytest.mark.parametrize(
    ("kind", "status", "counts"),
    [
        ("rate_limit", 429, False),
        ("overloaded", 529, False),
        ("server", 500, False),
        ("connection", None, False),
        ("timeout", None, False),
        ("auth", 401, True),
        ("invalid", 400, True),
        ("billing", 402, True),
    ],
)
async def test_only_what_is_not_the_providers_fault_counts(
    scope: Scope, kind: FailureKind, status: int | None, counts: bool
) -> None:
    policy = policies.failing(kind, status, then=policies.stuck(), turn=1)
    case = Case(scope, policy)

    error = await case.failure()

    assert (error.code, error.counts) == ("api", counts)
    assert f"played: {kind}" in str(error)
    assert error.usage == case.spent.usage != Usage()


async def test_a_summary_written_before_the_provider_failed_is_used(
    scope: Scope,
) -> None:
    policy = policies.failing("server", 500, then=policies.lazy(), turn=1)
    case = Case(scope, policy)

    result = await case.run()

    assert result.summary == policies.summary()


async def test_an_overflow_on_the_task_makes_the_record_smaller(scope: Scope) -> None:
    long = tuple(UserText(f"{n}: " + "word " * 300) for n in range(100))
    policy = Decide(
        lambda r: (
            policies.lazy().reply(r)
            if len(policies.task_of(r)) < 13_000
            else policies.failing("overflow", 400, then=policies.lazy()).reply(r)
        )
    )
    case = Case(scope, policy, task=Task(head=long))

    result = await case.run()

    sizes = [len(policies.task_of(r)) for r in case.client.requests[:3]]
    assert sizes[0] > sizes[1] > sizes[2] < 13_000
    assert result.summary == policies.summary()


async def test_an_overflow_that_stays_is_a_failure_that_counts(scope: Scope) -> None:
    policy = policies.failing("overflow", 400, then=policies.lazy())
    case = Case(scope, policy)

    error = await case.failure()

    assert (error.code, error.counts, error.requests) == ("overflow", True, 3)


async def test_a_refusal_is_no_summary(scope: Scope) -> None:
    refused = Reply(say("I will not.").items, stop_reason="refusal")
    case = Case(scope, policies.in_turns(lambda _: refused))

    error = await case.failure()

    assert error.code == "no_summary"
    assert "refused" in str(error)


async def test_tools_it_does_not_have_are_answered_and_do_nothing(
    scope: Scope, folder: Path
) -> None:
    case = Case(scope, policies.wrong_tool())

    result = await case.run()

    known = "The tools are: read_file, mark_read_required, add_reference, write_summary"
    assert [known in text for text in answers(case)[:2]] == [True, True]
    assert result.summary == policies.summary()
    assert list(await trio.Path(folder).iterdir()) == []


async def test_the_last_summary_counts(scope: Scope) -> None:
    first, last = policies.summary(work="First."), policies.summary(work="Last.")
    case = Case(scope, policies.rewriting(first, last))

    result = await case.run()

    assert result.summary == last


async def test_a_valid_summary_outlives_a_later_one_that_is_not(scope: Scope) -> None:
    good = policies.summary()
    case = Case(scope, policies.rewriting(good, "half a summ"))

    result = await case.run()

    assert result.summary == good
    assert "five headings" in prompts(case)[0]


def stalling(case_clock: MockClock, answers: int) -> policies.Wrap:
    return lambda client: policies.Stalling(
        client, answers=answers, stalled=lambda: case_clock.jump(301)
    )


async def test_a_slow_one_is_ended_at_its_deadline(
    scope: Scope, mock_clock: MockClock
) -> None:
    case = Case(scope, policies.lazy(), wrap=stalling(mock_clock, 0))

    error = await case.failure()

    assert (error.code, error.counts) == ("timeout", True)
    assert str(error) == "not done after 300 seconds (worker_timeout)"


async def test_one_whose_second_try_is_too_slow_ends_by_the_deadline(
    scope: Scope, mock_clock: MockClock
) -> None:
    policy = policies.failing("overflow", 400, then=policies.lazy())
    case = Case(scope, policy, wrap=stalling(mock_clock, 1))

    error = await case.failure()

    assert (error.code, error.requests) == ("timeout", 2)


async def test_a_summary_written_before_the_deadline_is_used(
    scope: Scope, mock_clock: MockClock
) -> None:
    case = Case(scope, policies.lazy(), wrap=stalling(mock_clock, 1))

    result = await case.run()

    assert result.summary == policies.summary()


async def test_a_cancel_passes_through_and_leaves_what_was_used(scope: Scope) -> None:
    with trio.CancelScope() as cancel:
        case = Case(
            scope,
            policies.stuck(),
            wrap=lambda client: policies.Stalling(
                client, answers=1, stalled=cancel.cancel
            ),
        )
        await case.run()

    assert cancel.cancelled_caught
    assert case.spent.requests == 2
    assert case.spent.usage != Usage()


async def test_a_small_window_lowers_the_cap(
    scope: Scope, files: tuple[str, ...]
) -> None:
    case = Case(
        scope,
        policies.endless_reader(writes_first=True),
        files=files,
        budgets=Budgets(max_requests=100),
        model=with_window(16_000),
    )

    result = await case.run()

    assert result.input_tokens <= 16_000 - 16_000 // 3
    assert all(p.input_tokens <= 16_000 - 16_000 // 3 for p in case.progress)


async def test_a_history_of_ten_windows_is_summarised(
    scope: Scope, files: tuple[str, ...]
) -> None:
    head = HEAD * 2_000
    case = Case(
        scope,
        policies.careful(),
        task=Task(head=head, directives=(ORDER,)),
        model=with_window(32_000),
    )

    result = await case.run()

    assert result.summary == policies.summary(ORDER)
    assert result.input_tokens < 12_000


@pytest.mark.parametrize("name", policies.ALL)
async def test_no_worker_is_sent_more_than_its_cap(
    scope: Scope, files: tuple[str, ...], name: str
) -> None:
    budgets = Budgets(max_input_tokens=15_000, max_requests=50, auto_read=2_000)
    case = Case(scope, policies.ALL[name](), files=files, budgets=budgets)

    with suppress(CompactError):
        result = await case.run()
        assert sum(mark.tokens for mark in result.marks) <= 2_000

    assert all(progress.input_tokens <= 15_000 for progress in case.progress)


@pytest.mark.parametrize("thinking", ["adaptive", 2048])
async def test_a_model_that_thinks_is_answered_as_the_api_wants_it(
    scope: Scope, files: tuple[str, ...], thinking: Literal["adaptive"] | int
) -> None:
    case = Case(
        scope,
        policies.lazy(),
        files=files,
        model=replace(MODEL, thinking=thinking),
    )

    result = await case.run()

    assert result.summary == policies.summary()
    assert len(prompts(case)) == 2


async def test_what_the_user_wants_of_the_summary_is_in_every_request(
    scope: Scope, files: tuple[str, ...]
) -> None:
    case = Case(scope, policies.careful(), files=files)
    case.task = replace(case.task, instructions="Keep the port numbers.")

    await case.run()

    sent = [policies.task_of(request) for request in case.client.requests]
    assert ["Keep the port numbers." in text for text in sent] == [True] * 4


async def test_a_task_over_the_cap_is_not_even_sent(scope: Scope) -> None:
    task = Task(head=HEAD, previous_summary="word " * 50_000)
    case = Case(scope, policies.lazy(), task=task)

    error = await case.failure()

    assert (error.code, error.counts, error.requests) == ("input_limit", True, 0)
    assert case.client.requests == []
    assert error.input_tokens == 0


@pytest.mark.parametrize("name", ["careful", "greedy", "endless_reader"])
async def test_the_same_task_gives_the_same_items(
    scope: Scope, files: tuple[str, ...], name: str
) -> None:
    budgets = Budgets(max_input_tokens=15_000, max_requests=50, auto_read=1_200)
    runs = [
        Case(scope, policies.ALL[name](), files=files, budgets=budgets)
        for _ in range(2)
    ]

    for case in runs:
        with suppress(CompactError):
            await case.run()

    assert runs[0].items == runs[1].items
    assert runs[0].progress == runs[1].progress


@pytest.mark.parametrize("answers", range(4))
async def test_a_cancel_at_any_request_leaves_every_call_answered(
    scope: Scope, files: tuple[str, ...], answers: int
) -> None:
    with trio.CancelScope() as cancel:
        case = Case(
            scope,
            policies.careful(),
            files=files,
            wrap=lambda client: policies.Stalling(
                client, answers=answers, stalled=cancel.cancel
            ),
        )
        await case.run()

    assert cancel.cancelled_caught
    assert faults(case.items) == []
    assert case.spent.requests == answers + 1
