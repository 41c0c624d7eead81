"""The hooks of a run: before its requests, around its calls, at its end."""

import pytest
import trio
from msgspec import Raw
from trio.testing import MockClock

from pod.entries import (
    CustomMessage,
    Permission,
    PermissionDenial,
    RunEnd,
    ToolStart,
    UsageEntry,
)
from pod.exits import Exit
from pod.hooks.in_run import LAST_SECONDS
from pod.hooks.payloads import (
    HookEvent,
    PostToolCall,
    PreLlmRequest,
    PreToolCall,
    RunEnded,
)
from tests.fakes import FakeTool, called, said
from tests.pod.hooks.answering import Answering, Hanging, hangs, hook
from tests.pod.runs import Case
from tests.turns import done
from tools.base import Call, Image, ToolOutput
from worker.api import Request, Text
from worker.history import faults
from worker.items import FromModel, ToolResult


def results(case: Case) -> list[ToolResult]:
    return [item for item in case.session.items if isinstance(item, ToolResult)]


def texts(request: Request) -> str:
    """Return all that a request says, its system prompt left out."""
    blocks = [block for message in request.messages for block in message.content]
    said = [block.text for block in blocks if isinstance(block, Text)]
    return "\n".join([*(block.text for block in request.system[1:]), *said])


async def test_a_run_whose_hooks_say_nothing_is_the_run_without_them() -> None:
    plain = Case([called("a"), called("b")], [said("done")])
    hooked = Case([called("a"), called("b")], [said("done")])
    asked = Answering(None, {})
    for event in ("pre_llm_request", "pre_tool_call", "post_tool_call", "run_end"):
        hooked.pod.hooks.append(hook(event, asked))

    await plain.pod.run("go")
    await hooked.pod.run("go")

    assert hooked.session.items == plain.session.items
    assert hooked.kinds == plain.kinds
    assert hooked.client.requests == plain.client.requests
    assert [type(payload) for payload in asked.told] == [
        PreLlmRequest,
        PreToolCall,
        PreToolCall,
        PostToolCall,
        PostToolCall,
        PreLlmRequest,
        RunEnded,
    ]


async def test_before_each_request_a_hook_gets_its_figures() -> None:
    case = Case([called("a")], [said("done")])
    asked = Answering()
    case.pod.hooks.append(hook("pre_llm_request", asked))

    end = await case.pod.run("go")

    first, second = asked.told
    assert isinstance(first, PreLlmRequest)
    assert first == PreLlmRequest(
        session="s",
        run=end.run or "",
        model="m",
        request=1,
        items=1,
        tokens=first.tokens,
        post_run_threshold=first.post_run_threshold,
        turn_threshold=first.turn_threshold,
        window=100_000,
    )
    assert 0 < first.tokens < 1_000
    assert (first.post_run_threshold or 0) < (first.turn_threshold or 0) < 100_000
    assert isinstance(second, PreLlmRequest)
    assert (second.request, second.items) == (2, 3)
    assert second.tokens > first.tokens


async def test_what_a_hook_adds_is_in_the_log_before_the_request_and_in_it() -> None:
    case = Case([called("a")], [said("done")])
    case.pod.hooks.append(
        hook("pre_llm_request", Answering({"context": ["look\x1b[1m at b", " "]}, None))
    )

    await case.pod.run("go")

    messages = [e for e in case.entries if isinstance(e, CustomMessage)]
    assert [(entry.kind, entry.text) for entry in messages] == [("hook", "look at b")]
    at = case.entries.index(messages[0])
    before = [type(entry) for entry in case.entries[:at]]
    assert UsageEntry not in before
    assert all("look at b" in texts(request) for request in case.client.requests)
    assert faults(case.session.items) == []


async def test_a_hook_can_end_the_run_before_a_request() -> None:
    case = Case([called("a")], [said("done")])
    case.pod.hooks.append(
        hook(
            "pre_llm_request",
            Answering(None, {"stop": True, "message": "enough", "context": ["x"]}),
        )
    )

    end = await case.pod.run("go")

    assert (end.outcome, end.reason, end.exit_code, end.message, end.interrupted) == (
        "blocked",
        "hook",
        Exit.BLOCKED,
        "enough",
        True,
    )
    assert (end.requests, end.tool_calls) == (1, 1)
    assert CustomMessage not in case.kinds


async def test_a_blocked_run_can_be_gone_on_with() -> None:
    case = Case([said("done")])
    case.pod.hooks.append(hook("pre_llm_request", Answering({"stop": True}, None)))

    await case.pod.run("go")
    end = await case.pod.run(None)

    assert (end.outcome, end.text) == ("finished", "done")


async def test_a_hook_that_must_not_fail_ends_the_run_where_it_does() -> None:
    case = Case([said("done")])
    case.pod.hooks.append(
        hook("pre_llm_request", ValueError("x"), name="g", on_failure="block")
    )

    end = await case.pod.run("go")

    assert (end.outcome, end.reason, end.exit_code, end.message) == (
        "blocked",
        "hook",
        Exit.BLOCKED,
        "the hook g failed: ValueError: x",
    )
    assert case.client.requests == []


async def test_a_denied_call_is_answered_and_the_run_goes_on() -> None:
    tool = FakeTool("do", done)
    case = Case([called("a"), called("b")], [said("done")], tools=[tool])
    asked = Answering({"deny": True, "message": "not now"}, None)
    case.pod.hooks.append(hook("pre_tool_call", asked))

    end = await case.pod.run("go")

    ids = [told.call_id for told in asked.told if isinstance(told, PreToolCall)]
    denied = ids[0]
    assert results(case) == [
        ToolResult(call_id=id, summary="do: not run: not now", is_error=True)
        if id == denied
        else ToolResult(
            call_id=id,
            summary="did it",
            content="all of it",
            referenced_files=("/a",),
        )
        for id in ("a", "b")
    ]
    assert tool.runs == 1
    starts = [e.call_id for e in case.entries if isinstance(e, ToolStart)]
    assert starts == [id for id in ("a", "b") if id != denied]
    (decision,) = (e for e in case.entries if isinstance(e, Permission))
    assert (decision.call_id, decision.decision, decision.by, decision.reason) == (
        denied,
        "deny",
        "hook",
        "not now",
    )
    assert end.permission_denials == (
        PermissionDenial(
            tool="do", call_id=denied, arguments="{}", by="hook", reason="not now"
        ),
    )
    assert (end.outcome, end.tool_errors) == ("finished", 1)


async def test_a_hook_sees_the_call_as_the_model_made_it() -> None:
    case = Case([called("a", arguments='{"x":  [1, "ä"]}')], [said("done")])
    asked = Answering()
    case.pod.hooks.append(hook("pre_tool_call", asked))

    end = await case.pod.run("go")

    assert asked.told == [
        PreToolCall(
            session="s",
            run=end.run,
            name="do",
            call_id="a",
            arguments=Raw('{"x":  [1, "ä"]}'.encode()),
        )
    ]


async def test_a_call_that_stops_the_run_is_not_run_nor_is_its_neighbour() -> None:
    tool = FakeTool("do", done)
    case = Case([called("a"), called("b", name="other")], tools=[tool, other()])
    case.pod.hooks.append(
        hook("pre_tool_call", {"stop": True, "message": "no"}, tools=("do",))
    )

    end = await case.pod.run("go")

    assert (end.outcome, end.reason, end.exit_code, end.message, end.interrupted) == (
        "blocked",
        "hook",
        Exit.BLOCKED,
        "no",
        True,
    )
    assert tool.runs == 0
    assert [(r.call_id, r.summary, r.is_error) for r in results(case)] == [
        ("a", "do: not run: no", True),
        ("b", "other: not run: do of the same answer may not run at all", True),
    ]


def other() -> FakeTool:
    return FakeTool("other", done)


async def test_a_call_of_an_unknown_tool_is_nothing_to_ask_about() -> None:
    case = Case([called("a", name="dO")], [said("done")])
    asked = Answering({"deny": True})
    case.pod.hooks.append(hook("pre_tool_call", asked))
    case.pod.hooks.append(hook("post_tool_call", asked))

    await case.pod.run("go")

    assert asked.told == []


async def test_two_calls_are_never_asked_about_at_the_same_time() -> None:
    case = Case([called("a"), called("b"), called("c")], [said("done")])
    busy = trio.CapacityLimiter(1)

    async def asked(payload: object) -> None:
        busy.acquire_nowait()  # or trio.WouldBlock
        await trio.lowlevel.checkpoint()
        busy.release()

    case.pod.hooks.append(hook("pre_tool_call", asked))
    case.pod.hooks.append(hook("post_tool_call", asked, on_failure="block"))

    end = await case.pod.run("go")

    assert (end.outcome, end.tool_errors) == ("finished", 0)


async def test_results_are_seen_in_the_order_of_their_calls_and_whole() -> None:
    turned = trio.Event()

    async def first(call: Call) -> ToolOutput:
        if call.call_id == "a":
            await turned.wait()
        turned.set()
        return ToolOutput(
            summary=call.call_id,
            content="text\x00",
            images=(Image(media_type="image/png", data="AA=="),),
        )

    case = Case(
        [called("a"), called("b")], [said("done")], tools=[FakeTool("do", first)]
    )
    asked = Answering()
    case.pod.hooks.append(hook("post_tool_call", asked))

    end = await case.pod.run("go")

    assert asked.told == [
        PostToolCall(
            session="s",
            run=end.run,
            name="do",
            call_id=id,
            arguments=Raw(b"{}"),
            is_error=False,
            summary=id,
            content=result.content,
            images=1,
        )
        for id, result in zip(("a", "b"), results(case), strict=True)
    ]
    assert "\x00" not in (results(case)[0].content or "")


async def test_a_result_goes_into_the_log_as_the_hook_leaves_it() -> None:
    case = Case([called("a")], [said("done")])
    case.pod.hooks.append(
        hook("post_tool_call", {"content": "secret: ***", "context": ["\x1b[1mnote"]})
    )

    await case.pod.run("go")

    content = results(case)[0].content or ""
    assert content.startswith("secret: ***\nnote")
    assert "all of it" not in content


async def test_what_a_hook_makes_of_a_result_is_capped_as_a_result_is() -> None:
    case = Case([called("a")], [said("done")])
    case.pod.hooks.append(hook("post_tool_call", {"content": "long " * 100_000}))

    await case.pod.run("go")

    (result,) = results(case)
    assert len(result.content or "") < 100_000
    assert result.content is not None
    assert result.content.startswith("long ")


async def test_an_error_is_a_result_too_and_stays_one() -> None:
    async def fails(call: Call) -> str:
        raise ValueError("x")

    case = Case([called("a")], [said("done")], tools=[FakeTool("do", fails)])
    asked = Answering({"content": "it failed"})
    case.pod.hooks.append(hook("post_tool_call", asked))

    await case.pod.run("go")

    (told,) = asked.told
    assert isinstance(told, PostToolCall)
    assert told.is_error
    assert [(r.content, r.is_error) for r in results(case)] == [("it failed", True)]


async def test_a_result_can_end_the_run_once_it_is_in_the_log() -> None:
    case = Case([called("a")])
    case.pod.hooks.append(hook("post_tool_call", {"stop": True, "message": "enough"}))

    end = await case.pod.run("go")

    assert (end.outcome, end.reason, end.exit_code, end.message, end.interrupted) == (
        "blocked",
        "hook",
        Exit.BLOCKED,
        "enough",
        True,
    )
    assert [result.content for result in results(case)] == ["all of it"]


async def test_input_that_waits_does_not_keep_a_blocked_run_going() -> None:
    case = Case([called("a")], [said("done")])

    async def steers(payload: object) -> object:
        await trio.lowlevel.checkpoint()
        case.pod.steer("more")
        return {"stop": True}

    case.pod.hooks.append(hook("post_tool_call", steers))

    end = await case.pod.run("go")

    assert end.outcome == "blocked"
    assert [e.text for e in case.session.pending_inputs] == ["more"]


async def test_a_result_that_its_hook_could_not_judge_is_withheld() -> None:
    case = Case([called("a")])
    case.pod.hooks.append(
        hook("post_tool_call", ValueError("x"), name="redact", on_failure="block")
    )

    end = await case.pod.run("go")

    why = "the hook redact failed: ValueError: x"
    text = f"do has run, but its result is withheld: {why}. What it did stays done."
    assert (end.outcome, end.reason, end.message) == ("blocked", "hook", why)
    assert [(r.summary, r.content) for r in results(case)] == [(text, text)]
    assert "all of it" not in str(case.entries)


@pytest.mark.parametrize("on_failure", [None, "block"])
async def test_a_result_is_withheld_where_a_cancel_came_before_its_hook_had_seen_it(
    on_failure: None,
) -> None:
    case = Case([called("a")])
    hanging = Hanging()
    case.pod.hooks.append(hook("post_tool_call", hanging, on_failure=on_failure))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(case.pod.run, "go")
        await hanging.asked.wait()
        case.pod.stop("cancelled")

    contents = [result.content for result in results(case)]
    if on_failure is None:
        assert contents == ["all of it"]
    else:
        assert contents == [
            (
                "do has run, but its result is withheld: the run was stopped before its"
                " hook had seen it. What it did stays done."
            )
        ]
    assert faults(case.session.items) == []


@pytest.mark.parametrize("event", ["pre_llm_request", "pre_tool_call"])
async def test_a_cancel_while_a_hook_is_asked_ends_both(
    event: HookEvent,
) -> None:
    tool = FakeTool("do", done)
    case = Case([called("a"), called("b")], tools=[tool])
    hanging = Hanging()
    case.pod.hooks.append(hook(event, hanging))
    ends: list[RunEnd] = []

    async def run() -> None:
        ends.append(await case.pod.run("go"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await hanging.asked.wait()
        case.pod.stop("sigint")

    assert [(end.outcome, end.reason) for end in ends] == [("cancelled", "sigint")]
    assert tool.runs == 0
    assert faults(case.session.items) == []


async def test_at_its_end_a_hook_gets_the_end_that_is_in_the_log() -> None:
    case = Case([said("done")])
    asked = Answering()
    in_log: list[bool] = []

    async def look(payload: object) -> None:
        await trio.lowlevel.checkpoint()
        in_log.append(isinstance(case.entries[-1], RunEnd))

    case.pod.hooks.append(hook("run_end", asked))
    case.pod.hooks.append(hook("run_end", look))

    end = await case.pod.run("go")

    assert asked.told == [RunEnded(session="s", entry=end)]
    assert in_log == [True]


async def test_at_its_end_a_hook_holds_the_run_no_longer_than_its_time(
    autojump_clock: MockClock,
) -> None:
    case = Case([said("done")])
    case.pod.hooks.append(hook("run_end", hangs, timeout=30))

    began = trio.current_time()
    end = await case.pod.run("go")

    assert end.outcome == "finished"
    assert trio.current_time() - began == pytest.approx(30, abs=0.1)


async def test_a_stopped_runs_end_is_told_but_nobody_waits_long_for_it(
    autojump_clock: MockClock,
) -> None:
    async def stops() -> list[FromModel]:
        case.pod.stop("sigint")
        await trio.sleep_forever()
        return []

    case = Case(stops)
    asked = Answering()
    case.pod.hooks.append(hook("run_end", asked))
    case.pod.hooks.append(hook("run_end", hangs))

    began = trio.current_time()
    end = await case.pod.run("go")

    assert (end.outcome, end.reason) == ("cancelled", "sigint")
    assert asked.told == [RunEnded(session="s", entry=end)]
    assert trio.current_time() - began == pytest.approx(LAST_SECONDS, abs=0.1)


async def test_a_run_that_is_cancelled_from_outside_tells_its_end_too(
    autojump_clock: MockClock,
) -> None:
    async def never() -> list[FromModel]:
        await trio.sleep_forever()
        return []

    case = Case(never)
    asked = Answering()
    case.pod.hooks.append(hook("run_end", asked))

    with trio.move_on_after(1):
        await case.pod.run("go")

    (told,) = asked.told
    assert isinstance(told, RunEnded)
    assert told.entry == case.entries[-1]
