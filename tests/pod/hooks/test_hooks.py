"""Asking several hooks: their order, what they make together, and what fails."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from pod.events import HookFailed
from pod.hooks.answers import (
    Answer,
    BeforeCompactAnswer,
    BeforeTreeAnswer,
    CompactingAnswer,
    HookCompaction,
    HookSummary,
    Looked,
    PostToolCallAnswer,
    PreLlmRequestAnswer,
    PreToolCallAnswer,
)
from pod.hooks.hooks import Hook, Hooks
from pod.hooks.payloads import AnyPayload, PostToolCall, event_of
from tests.pod.hooks.answering import Answering, Failures, hangs, hook
from tests.pod.hooks.samples import (
    BEFORE_COMPACT,
    BEFORE_TREE,
    COMPACTED,
    COMPACTING,
    NAVIGATED,
    POST_TOOL_CALL,
    PRE_LLM_REQUEST,
    PRE_TOOL_CALL,
    RUN_ENDED,
    SAMPLES,
)

RAW = Looked("exit code 0", "a\nb", images=1)


async def ask(hooks: Hooks, payload: AnyPayload) -> object:
    """Ask *hooks* in the way that is meant for *payload*."""
    ways: dict[str, Callable[..., Awaitable[object]]] = {
        "session_before_compact": hooks.before_compact,
        "session_compacting": hooks.compacting,
        "session_compact": hooks.compact,
        "session_before_tree": hooks.before_tree,
        "session_tree": hooks.tree,
        "pre_llm_request": hooks.pre_llm_request,
        "pre_tool_call": hooks.pre_tool_call,
        "post_tool_call": hooks.post_tool_call,
        "run_end": hooks.run_end,
    }
    return await ways[event_of(payload)](payload)


UNCHANGED: list[tuple[AnyPayload, object]] = [
    (BEFORE_COMPACT, BeforeCompactAnswer()),
    (COMPACTING, CompactingAnswer()),
    (COMPACTED, None),
    (BEFORE_TREE, BeforeTreeAnswer()),
    (NAVIGATED, None),
    (PRE_LLM_REQUEST, PreLlmRequestAnswer()),
    (PRE_TOOL_CALL, PreToolCallAnswer()),
    (POST_TOOL_CALL, RAW),
    (RUN_ENDED, None),
]


@pytest.mark.parametrize(("payload", "answer"), UNCHANGED)
async def test_without_hooks_nothing_changes(
    payload: AnyPayload, answer: object
) -> None:
    assert await ask(Hooks(), payload) == answer


@pytest.mark.parametrize(("payload", "answer"), UNCHANGED)
@pytest.mark.parametrize("said", [None, {}, b""])
async def test_hooks_that_say_nothing_change_nothing_and_see_the_whole_payload(
    said: object, payload: AnyPayload, answer: object
) -> None:
    asked = Answering(said)
    failures = Failures()
    hooks = Hooks([hook(event_of(payload), asked)], tell=failures)

    assert await ask(hooks, payload) == answer
    assert asked.told == [payload]
    assert failures.heard == []


async def test_a_hook_hears_of_its_own_event_alone() -> None:
    asked = Answering()
    hooks = Hooks([hook("run_end", asked)])

    for payload in SAMPLES:
        await ask(hooks, payload)

    assert asked.told == [RUN_ENDED]
    assert [hooks.has(event_of(payload)) for payload in SAMPLES] == [
        payload is RUN_ENDED for payload in SAMPLES
    ]


COMPACTION = HookCompaction(summary="s")
MERGED: list[tuple[AnyPayload, list[object], Answer]] = [
    (
        BEFORE_COMPACT,
        [{"compaction": {"summary": "s"}}, {}, None],
        BeforeCompactAnswer(compaction=COMPACTION),
    ),
    (
        BEFORE_COMPACT,
        [{"compaction": {"summary": "x"}}, {"compaction": {"summary": "s"}}],
        BeforeCompactAnswer(compaction=COMPACTION),
    ),
    (
        COMPACTING,
        [{"prompt": "p"}, {"context": ["a"]}, {"context": ["b"], "prompt": "q"}],
        CompactingAnswer(prompt="q", context=("a", "b")),
    ),
    (
        BEFORE_TREE,
        [{"summary": {"text": "t"}}, {}, {"label": "l"}, {"instructions": "i"}],
        BeforeTreeAnswer(summary=HookSummary(text="t"), label="l", instructions="i"),
    ),
    (
        PRE_LLM_REQUEST,
        [{"context": ["a"]}, {}, {"context": ["b"]}],
        PreLlmRequestAnswer(context=("a", "b")),
    ),
]


@pytest.mark.parametrize(("payload", "said", "answer"), MERGED)
async def test_answers_are_laid_over_each_other_field_by_field(
    payload: AnyPayload, said: list[object], answer: Answer
) -> None:
    hooks = Hooks([hook(event_of(payload), each) for each in said])

    assert await ask(hooks, payload) == answer


@pytest.mark.parametrize(
    ("payload", "said", "answer"),
    [
        (
            BEFORE_COMPACT,
            {"cancel": True, "message": "no"},
            BeforeCompactAnswer(cancel=True, message="no"),
        ),
        (
            BEFORE_TREE,
            {"cancel": True},
            BeforeTreeAnswer(cancel=True, message="the hook h says so, and not why"),
        ),
        (
            PRE_LLM_REQUEST,
            {"stop": True, "message": "no"},
            PreLlmRequestAnswer(stop=True, message="no"),
        ),
        (
            PRE_TOOL_CALL,
            {"deny": True, "message": "no"},
            PreToolCallAnswer(deny=True, message="no"),
        ),
        (
            PRE_TOOL_CALL,
            {"stop": True, "message": "no"},
            PreToolCallAnswer(stop=True, message="no"),
        ),
    ],
)
async def test_who_says_no_is_the_last_that_is_asked(
    payload: AnyPayload, said: object, answer: Answer
) -> None:
    event = event_of(payload)
    before, behind = Answering(), Answering()
    hooks = Hooks([hook(event, before), hook(event, said), hook(event, behind)])

    assert await ask(hooks, payload) == answer
    assert (len(before.told), len(behind.told)) == (1, 0)


BAD: list[tuple[object, str]] = [
    (ValueError("oh no"), "ValueError: oh no"),
    (SystemExit(3), "SystemExit: 3"),
    (ExceptionGroup("g", [KeyError("k")]), "KeyError: 'k'"),
    (b"nonsense", "its answer is no JSON: JSON is malformed"),
    ({"cancle": 1}, "its answer cannot be used: Object contains unknown field"),
    (hangs, "no answer within 60 seconds"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
@pytest.mark.parametrize(
    ("payload", "answer"), [row for row in UNCHANGED if row[0] is not PRE_TOOL_CALL]
)
async def test_what_fails_is_told_and_passed_over(
    payload: AnyPayload,
    answer: object,
    bad: object,
    message: str,
    autojump_clock: MockClock,
) -> None:
    event, failures, behind = event_of(payload), Failures(), Answering()
    hooks = Hooks([hook(event, bad, name="bad"), hook(event, behind)], tell=failures)

    assert await ask(hooks, payload) == answer
    (failed,) = failures.heard
    assert (failed.event, failed.hook) == (event, "bad")
    assert failed.message.startswith(message)
    assert behind.told == [payload]


@pytest.mark.parametrize(("bad", "message"), BAD)
@pytest.mark.parametrize("on_failure", [None, "block"])
async def test_a_call_whose_hook_fails_is_denied_whatever_it_was(
    on_failure: None, bad: object, message: str, autojump_clock: MockClock
) -> None:
    failures, behind = Failures(), Answering()
    guard = hook("pre_tool_call", bad, name="guard", on_failure=on_failure)
    hooks = Hooks([guard, hook("pre_tool_call", behind)], tell=failures)

    answer = await hooks.pre_tool_call(PRE_TOOL_CALL)

    (failed,) = failures.heard
    assert answer == PreToolCallAnswer(
        deny=True, message=f"the hook guard failed: {failed.message}"
    )
    assert failed.message.startswith(message)
    assert behind.told == []


WHY = "the hook h failed: ValueError: x"


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        (BEFORE_COMPACT, BeforeCompactAnswer(cancel=True, message=WHY)),
        (BEFORE_TREE, BeforeTreeAnswer(cancel=True, message=WHY)),
        (PRE_LLM_REQUEST, PreLlmRequestAnswer(stop=True, message=WHY)),
        (
            POST_TOOL_CALL,
            Looked(
                f"bash has run, but its result is withheld: {WHY}. What it did stays"
                " done.",
                f"bash has run, but its result is withheld: {WHY}. What it did stays"
                " done.",
                images=0,
                stop=WHY,
            ),
        ),
    ],
)
async def test_a_hook_that_is_to_block_stops_what_it_could_not_be_asked_about(
    payload: AnyPayload, answer: object
) -> None:
    bad = hook(event_of(payload), ValueError("x"), on_failure="block")
    failures = Failures()

    assert await ask(Hooks([bad], tell=failures), payload) == answer
    assert failures.heard == [HookFailed(event_of(payload), "h", "ValueError: x")]


async def test_what_was_answered_before_a_failure_counts() -> None:
    good = hook("session_compacting", {"context": ["a"]})
    bad = hook("session_compacting", ValueError("x"))

    answer = await Hooks([good, bad, good]).compacting(COMPACTING)

    assert answer == CompactingAnswer(context=("a", "a"))


async def test_each_hook_sees_a_result_as_those_before_it_left_it() -> None:
    first = Answering({"content": "A", "context": ["B"]})
    second = Answering({"summary": "S", "context": ["C"]})
    third = Answering()
    hooks = Hooks([hook("post_tool_call", each) for each in (first, second, third)])

    looked = await hooks.post_tool_call(POST_TOOL_CALL)

    assert looked == Looked("S", "A\nB\nC", images=0)
    told = [each.told[0] for each in (first, second, third)]
    assert [(p.summary, p.content) for p in told if isinstance(p, PostToolCall)] == [
        ("exit code 0", "a\nb"),
        ("exit code 0", "A\nB"),
        ("S", "A\nB\nC"),
    ]


async def test_a_result_that_stops_the_run_is_still_shown_to_the_others() -> None:
    said = [
        PostToolCallAnswer(stop=True, message="first"),
        PostToolCallAnswer(content="redacted"),
        PostToolCallAnswer(stop=True, message="second"),
    ]
    hooks = Hooks([hook("post_tool_call", each) for each in said])

    looked = await hooks.post_tool_call(POST_TOOL_CALL)

    assert looked == Looked("exit code 0", "redacted", images=0, stop="first")


async def test_a_hook_for_some_tools_is_asked_about_no_other() -> None:
    asked = Answering({"deny": True})
    hooks = Hooks([hook("pre_tool_call", asked, tools=("read_file", "grep"))])

    assert await hooks.pre_tool_call(PRE_TOOL_CALL) == PreToolCallAnswer()
    assert asked.told == []


@pytest.mark.parametrize(
    ("hooks", "withholds"),
    [
        ([], False),
        ([hook("post_tool_call")], False),
        ([hook("post_tool_call", on_failure="block")], True),
        ([hook("post_tool_call", on_failure="block", tools=("grep",))], False),
        ([hook("pre_tool_call")], False),
    ],
)
def test_results_are_withheld_for_the_sake_of_hooks_that_block(
    hooks: list[Hook], withholds: bool
) -> None:
    assert Hooks(hooks).withholds("bash") == withholds


async def test_a_cancel_ends_the_hook_and_nobody_is_told_that_it_failed() -> None:
    failures, behind = Failures(), Answering()
    hooks = Hooks([hook("run_end", hangs), hook("run_end", behind)], tell=failures)

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hooks.run_end, RUN_ENDED)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()

    assert scope.cancelled_caught
    assert (failures.heard, behind.told) == ([], [])


async def test_a_hook_that_fails_while_it_is_cancelled_does_not_keep_the_cancel_up() -> (
    None
):
    async def raises_when_cancelled(payload: AnyPayload) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hangs, payload)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("while cancelled")

    failures, behind = Failures(), Answering()
    hooks = Hooks(
        [hook("run_end", raises_when_cancelled), hook("run_end", behind)], tell=failures
    )

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hooks.run_end, RUN_ENDED)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()

    assert scope.cancelled_caught
    assert behind.told == []


async def test_a_hooks_own_time_is_counted_for_itself(
    autojump_clock: MockClock,
) -> None:
    failures = Failures()
    slow = [hook("run_end", hangs, name=f"{s}", timeout=s) for s in (5, 0.5)]
    hooks = Hooks(slow, tell=failures)

    began = trio.current_time()
    await hooks.run_end(RUN_ENDED)

    assert trio.current_time() - began == pytest.approx(5.5)
    assert [failed.message for failed in failures.heard] == [
        "no answer within 5 seconds",
        "no answer within 0.5 seconds",
    ]
