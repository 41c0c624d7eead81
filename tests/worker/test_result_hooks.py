"""Results are looked at before they are kept."""

import trio
from msgspec.structs import replace

from tests.fakes import FakeTool, Heard, MemoryHistory, MemorySpill, called
from tools.base import Call, Tool
from worker.calls import OutputLimits, Toolbox, answer_calls
from worker.items import ToolCall, ToolResult
from worker.permit import Stopped
from worker.result_hooks import Seen


class Looks:
    """Looks as a test says, by the call's id; what is unseen reads so."""

    def __init__(self, **seen: Seen) -> None:
        self.order: list[str] = []
        self.hangs_at = ""
        self.hanging = trio.Event()
        self._seen = seen

    async def look(self, call: ToolCall, result: ToolResult) -> Seen:
        self.order.append(call.call_id)
        if call.call_id == self.hangs_at:
            self.hanging.set()
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return self._seen.get(call.call_id, Seen(result))

    def unseen(self, call: ToolCall, result: ToolResult) -> ToolResult:
        return replace(result, summary="unseen", content=None)


def toolbox(looks: Looks, *tools: Tool) -> Toolbox:
    return Toolbox(
        tools={tool.name: tool for tool in tools},
        spill=MemorySpill(),
        output=OutputLimits(max_bytes=2_000, max_tokens=1_000, count=len),
        hooks=looks,
    )


async def done(call: Call) -> str:
    return f"did {call.call_id}"


def result(call_id: str, summary: str, content: str | None = None) -> ToolResult:
    return ToolResult(call_id=call_id, summary=summary, content=content)


async def test_what_is_kept_is_what_the_look_leaves_made_safe() -> None:
    looks = Looks(b=Seen(result("b", "other", "x\x1b[1m" * 10_000)))
    calls = [called("a"), called("b")]
    history = MemoryHistory(*calls)

    stop = await answer_calls(
        calls, toolbox(looks, FakeTool("do", done)), record=history, listen=Heard()
    )

    assert stop is None
    first, second = (item for item in history.items if isinstance(item, ToolResult))
    assert first == result("a", "did a")
    assert second.summary == "other"
    assert "\x1b" not in (second.content or "")
    assert len(second.content or "") <= 2_000


async def test_one_that_stops_the_turn_keeps_no_other_from_being_looked_at() -> None:
    looks = Looks(
        a=Seen(result("a", "A"), stop="enough"), c=Seen(result("c", "C"), stop="later")
    )
    calls = [called("a"), called("b"), called("c")]
    history = MemoryHistory(*calls)

    stop = await answer_calls(
        calls, toolbox(looks, FakeTool("do", done)), record=history, listen=Heard()
    )

    assert stop == Stopped("enough", "hook")
    assert looks.order == ["a", "b", "c"]
    assert history.items[3:] == [
        result("a", "A"),
        result("b", "did b"),
        result("c", "C"),
    ]


async def test_after_a_cancel_what_was_not_seen_is_kept_as_unseen() -> None:
    looks = Looks(a=Seen(result("a", "A")))
    looks.hangs_at = "b"
    calls = [called("a"), called("b"), called("c")]
    history = MemoryHistory(*calls)
    box = toolbox(looks, FakeTool("do", done))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: answer_calls(calls, box, record=history, listen=Heard())
        )
        await looks.hanging.wait()
        nursery.cancel_scope.cancel()

    assert history.items[3:] == [
        result("a", "A"),
        result("b", "unseen"),
        result("c", "unseen"),
    ]


async def test_calls_that_could_not_run_are_not_looked_at() -> None:
    looks = Looks()
    calls = [called("a", "nope"), called("b")]
    history = MemoryHistory(*calls)

    await answer_calls(
        calls, toolbox(looks, FakeTool("do", done)), record=history, listen=Heard()
    )

    assert looks.order == ["b"]


async def test_calls_that_were_cancelled_while_they_ran_are_answered_as_ever() -> None:
    begun = trio.Event()

    async def never(call: Call) -> str:
        begun.set()
        await trio.sleep_forever()
        return ""

    looks = Looks()
    history = MemoryHistory(called("a"))
    box = toolbox(looks, FakeTool("do", never))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: answer_calls([called("a")], box, record=history, listen=Heard())
        )
        await begun.wait()
        nursery.cancel_scope.cancel()

    text = "do: cancelled before it ended; what it had done until then stays done"
    assert history.items[1:] == [ToolResult("a", text, is_error=True)]
    assert looks.order == []
