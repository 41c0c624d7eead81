"""What may run is asked before anything starts, and what may not is answered."""

import trio

from tests.fakes import FakeTool, Heard, MemoryHistory, MemorySpill, called
from tools.base import Call, Tool
from worker.calls import OutputLimits, Toolbox, answer_calls
from worker.items import ToolCall, ToolResult
from worker.permit import (
    Allowed,
    Decision,
    Denied,
    Permit,
    Stopped,
    allow_all,
    in_turn,
)

DENIED = Denied("a rule forbids it", "rule", 'bash "rm *"')
STOPPED = Stopped("a rule ends the run", "rule", 'bash "rm *"')


def deciding(**decisions: Decision) -> Permit:
    """Decide by call id; what is not named is allowed without a word."""

    async def permit(call: ToolCall) -> Decision:
        await trio.lowlevel.checkpoint()
        return decisions.get(call.call_id, Allowed())

    return permit


def toolbox(permit: Permit, *tools: Tool) -> Toolbox:
    return Toolbox(
        tools={tool.name: tool for tool in tools},
        spill=MemorySpill(),
        output=OutputLimits(max_bytes=2_000, max_tokens=1_000, count=len),
        permit=permit,
    )


async def done(call: Call) -> str:
    return "done"


def results(history: MemoryHistory) -> dict[str, tuple[str, bool]]:
    return {
        item.call_id: (item.summary, item.is_error)
        for item in history.items
        if isinstance(item, ToolResult)
    }


async def test_a_denied_call_is_answered_and_the_others_run() -> None:
    tool = FakeTool("do", done)
    calls = [called("a"), called("b")]
    history = MemoryHistory(*calls)

    stop = await answer_calls(
        calls,
        toolbox(deciding(a=DENIED), tool),
        record=history,
        listen=Heard(),
    )

    assert stop is None
    assert tool.runs == 1
    assert results(history) == {
        "a": ("do: not run: a rule forbids it", True),
        "b": ("done", False),
    }
    assert history.trace[:2] == ["decide a", "start b"]


async def test_where_one_call_is_stopped_none_of_its_response_runs() -> None:
    tool = FakeTool("do", done)
    calls = [called("a"), called("b"), called("c")]
    history = MemoryHistory(*calls)

    stop = await answer_calls(
        calls,
        toolbox(deciding(b=STOPPED, c=DENIED), tool),
        record=history,
        listen=Heard(),
    )

    assert stop == STOPPED
    assert tool.runs == 0
    assert results(history) == {
        "a": ("do: not run: do of the same answer may not run at all", True),
        "b": ("do: not run: a rule ends the run", True),
        "c": ("do: not run: do of the same answer may not run at all", True),
    }
    assert history.trace[:2] == ["decide b", "decide c"]


async def test_a_decision_is_written_before_the_call_that_it_allows_starts() -> None:
    history = MemoryHistory(called("a"))

    await answer_calls(
        [called("a")],
        toolbox(deciding(a=Allowed("client")), FakeTool("do", done)),
        record=history,
        listen=Heard(),
    )

    assert history.trace[:2] == ["decide a", "start a"]


async def test_an_unknown_tool_is_nothing_to_ask_about() -> None:
    asked: list[str] = []

    async def permit(call: ToolCall) -> Decision:
        asked.append(call.name)
        return DENIED

    history = MemoryHistory(called("a", "nope"))
    await answer_calls(
        [called("a", "nope")],
        toolbox(permit, FakeTool("do", done)),
        record=history,
        listen=Heard(),
    )

    assert asked == []


async def test_a_cancel_while_somebody_is_asked_leaves_every_call_answered() -> None:
    tool = FakeTool("do", done)
    calls = [called("a"), called("b")]
    history = MemoryHistory(*calls)

    async def nobody_answers(call: ToolCall) -> Decision:
        await trio.sleep_forever()
        raise AssertionError

    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: answer_calls(
                calls, toolbox(nobody_answers, tool), record=history, listen=Heard()
            )
        )
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    text = "do: not run: the run was stopped before it began"
    assert results(history) == {"a": (text, True), "b": (text, True)}
    assert tool.runs == 0


async def test_of_several_that_are_asked_the_first_that_refuses_decides() -> None:
    call = called("a")
    by_client = Allowed("client", "r")

    assert await in_turn()(call) == Allowed()
    assert await in_turn(allow_all, deciding(a=by_client))(call) == by_client
    assert await in_turn(deciding(a=by_client), allow_all)(call) == by_client
    assert await in_turn(deciding(a=DENIED), deciding(a=STOPPED))(call) == DENIED
    assert await in_turn(allow_all, deciding(a=STOPPED))(call) == STOPPED
