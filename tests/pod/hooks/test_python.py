"""Hooks that are Python functions."""

import threading
from collections.abc import Callable, Mapping

import msgspec
import pytest
import trio

from pod.events import HookFailed
from pod.hooks.answers import PreToolCallAnswer
from pod.hooks.hooks import Hooks
from pod.hooks.payloads import HookEvent, PreToolCall, RunEnded
from tests.pod.hooks.answering import Failures
from tests.pod.hooks.samples import PRE_TOOL_CALL, RUN_ENDED

LIMIT = 20
NO = PreToolCallAnswer(deny=True, message="no")


class Input(msgspec.Struct):
    command: str


def flat(call: PreToolCall) -> PreToolCallAnswer:
    return NO


def mapping(call: PreToolCall) -> Mapping[str, object]:
    return {"deny": True, "message": "no"}


async def waiting(call: PreToolCall) -> PreToolCallAnswer:
    await trio.lowlevel.checkpoint()
    return NO


class Callee:
    async def __call__(self, call: PreToolCall) -> PreToolCallAnswer:
        await trio.lowlevel.checkpoint()
        return NO


def decorated(call: PreToolCall) -> object:
    return waiting(call)


def by_argument(call: PreToolCall) -> PreToolCallAnswer | None:
    given = msgspec.json.decode(call.arguments, type=Input)
    return NO if given.command == "ls" else None


@pytest.mark.parametrize(
    "function", [flat, mapping, waiting, Callee(), decorated, by_argument]
)
async def test_a_function_may_be_async_or_not_and_gets_the_payload(
    function: Callable[[PreToolCall], object],
) -> None:
    hooks = Hooks()
    hooks.add("pre_tool_call", function)

    assert await hooks.pre_tool_call(PRE_TOOL_CALL) == NO


async def test_functions_that_are_added_are_asked_in_that_order() -> None:
    order: list[str] = []
    hooks = Hooks()
    hooks.add("run_end", lambda payload: order.append("a"))
    hooks.add("run_end", lambda payload: order.append("b"))

    await hooks.run_end(RUN_ENDED)

    assert order == ["a", "b"]


def raises(ended: RunEnded) -> None:
    raise SystemExit("bye")


async def test_a_function_that_wants_to_end_the_process_has_only_failed() -> None:
    failures = Failures()
    hooks = Hooks(tell=failures)
    hooks.add("run_end", raises)

    await hooks.run_end(RUN_ENDED)

    assert failures.heard == [HookFailed("run_end", "raises", "SystemExit: bye")]


async def test_a_function_that_hangs_in_a_thread_is_not_waited_for() -> None:
    lets_go, has_ended = threading.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()

    def hangs(call: PreToolCall) -> PreToolCallAnswer:
        lets_go.wait()
        trio.from_thread.run_sync(has_ended.set, trio_token=token)
        return NO

    hooks = Hooks()
    hooks.add("pre_tool_call", hangs, timeout=0.01)

    with trio.fail_after(LIMIT):
        answer = await hooks.pre_tool_call(PRE_TOOL_CALL)
        assert not has_ended.is_set()
        lets_go.set()
        await has_ended.wait()

    assert answer.deny
    assert answer.message.endswith("hangs failed: no answer within 0.01 seconds")


async def test_a_function_that_still_hangs_fails_at_once_until_it_has_ended() -> None:
    lets_go, calls = threading.Event(), 0

    def hangs_once(call: PreToolCall) -> PreToolCallAnswer:
        nonlocal calls
        calls += 1
        if calls == 1:
            lets_go.wait()
        return NO

    failures = Failures()
    hooks = Hooks(tell=failures)
    hooks.add("pre_tool_call", hangs_once, timeout=0.01)
    await hooks.pre_tool_call(PRE_TOOL_CALL)
    await hooks.pre_tool_call(PRE_TOOL_CALL)

    assert [failed.message for failed in failures.heard] == [
        "no answer within 0.01 seconds",
        "its last call, which took too long, has not ended yet",
    ]
    assert calls == 1
    lets_go.set()
    with trio.fail_after(LIMIT):
        while (await hooks.pre_tool_call(PRE_TOOL_CALL)) != NO:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("event", "on_failure", "tools", "message"),
    [
        ("pre_tool_call", "continue", (), "a call that its pre_tool_call hook"),
        ("run_end", "block", (), "at run_end there is nothing that could be stopped"),
        ("session_compacting", "block", (), "at session_compacting there is nothing"),
        ("run_end", None, ("bash",), "run_end is about no tool; only pre_tool_call"),
    ],
)
def test_what_an_event_does_not_take_is_refused(
    event: HookEvent, on_failure: None, tools: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        Hooks().add(event, flat, on_failure=on_failure, tools=tools)
