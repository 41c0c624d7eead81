"""Every call is answered exactly once, whatever its tool does."""

import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO

import pytest
import trio
from hypothesis import given, settings, strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tests.fakes import FakeTool, Heard, MemoryHistory, MemorySpill, called
from tools.base import Call, Image, Tool, ToolError, ToolOutput
from worker.calls import OutputLimits, Toolbox, answer_calls
from worker.events import Warning
from worker.items import ToolCall, ToolResult


def toolbox(*tools: Tool, seconds: float | None = None) -> Toolbox:
    return Toolbox(
        tools={tool.name: tool for tool in tools},
        spill=MemorySpill(),
        output=OutputLimits(max_bytes=2_000, max_tokens=1_000, count=len),
        seconds=seconds,
    )


async def answer(
    box: Toolbox, *calls: ToolCall, why_not: str | None = None
) -> tuple[MemoryHistory, list[ToolResult]]:
    history = MemoryHistory(*calls)
    await answer_calls(calls, box, record=history, listen=Heard(), why_not=why_not)
    return history, results(history)


def results(history: MemoryHistory) -> list[ToolResult]:
    return [item for item in history.items if isinstance(item, ToolResult)]


async def ok(call: Call) -> ToolOutput:
    return ToolOutput(summary="done", content="the text", referenced_files=("/a",))


async def test_a_result_carries_what_the_tool_gave() -> None:
    _, given_back = await answer(toolbox(FakeTool("do", ok)), called("a"))

    assert given_back == [
        ToolResult(
            call_id="a", summary="done", content="the text", referenced_files=("/a",)
        )
    ]


async def test_calls_of_one_response_run_at_the_same_time_and_answer_in_call_order() -> (
    None
):
    first_may_end = trio.Event()

    async def first(call: Call) -> str:
        await first_may_end.wait()
        return "first"

    async def second(call: Call) -> str:
        first_may_end.set()
        return "second"

    with trio.fail_after(30):
        _, given_back = await answer(
            toolbox(FakeTool("one", first), FakeTool("two", second)),
            called("a", "one"),
            called("b", "two"),
        )

    assert [r.summary for r in given_back] == ["first", "second"]


async def test_a_call_with_effects_is_durable_before_it_runs() -> None:
    seen: list[str] = []
    history = MemoryHistory(called("a"))

    async def look(call: Call) -> str:
        seen.extend(history.trace)
        return "x"

    await answer_calls(
        [called("a")],
        toolbox(FakeTool("do", look)),
        record=history,
        listen=Heard(),
    )

    assert seen == ["start a", "commit"]


async def test_a_tool_error_goes_to_the_model_word_for_word() -> None:
    async def fail(call: Call) -> str:
        raise ToolError("no such file: src/main.rs")

    _, given_back = await answer(toolbox(FakeTool("do", fail)), called("a"))

    assert given_back == [
        ToolResult(
            call_id="a",
            summary="do failed: no such file: src/main.rs",
            content="no such file: src/main.rs",
            is_error=True,
        )
    ]


async def test_an_unknown_tool_is_answered_with_the_nearest_and_all_names() -> None:
    _, given_back = await answer(
        toolbox(FakeTool("read_file", ok)), called("a", "read_fil")
    )

    assert given_back[0].is_error
    assert given_back[0].content == (
        "there is no tool 'read_fil'. Did you mean read_file? The tools are: read_file."
    )


class Panic(BaseException):
    """Like the one a Rust extension throws: no Exception."""


def raises(error: BaseException) -> Callable[[Call], Awaitable[ToolOutput | str]]:
    async def action(call: Call) -> str:
        raise error

    return action


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        SystemExit(3),
        Panic("panicked"),
        ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
        BaseExceptionGroup("mixed", [SystemExit(1), ValueError("a")]),
        Unprintable(),
        MemoryError(),
        GeneratorExit(),
        StopAsyncIteration(),
        RecursionError(),
    ],
    ids=lambda e: type(e).__name__,
)
async def test_whatever_a_tool_raises_is_its_crash_and_the_others_finish(
    error: BaseException,
) -> None:
    _, given_back = await answer(
        toolbox(FakeTool("bad", raises(error)), FakeTool("good", ok)),
        called("a", "bad"),
        called("b", "good"),
    )

    assert [(r.call_id, r.is_error) for r in given_back] == [("a", True), ("b", False)]
    assert "crashed with" in (given_back[0].content or "")
    assert ".\nThis is a fault of the tool" in (given_back[0].content or "")


async def test_a_tool_that_hangs_is_stopped_after_the_manifests_seconds(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def hang(call: Call) -> str:
        await trio.sleep_forever()
        raise AssertionError

    _, given_back = await answer(
        toolbox(FakeTool("do", hang), seconds=30.0), called("a")
    )

    assert given_back[0].is_error
    assert "stopped after 30 seconds" in (given_back[0].content or "")


async def test_cancelled_calls_are_answered_before_the_cancel_goes_on() -> None:
    async def hang(call: Call) -> str:
        await trio.sleep_forever()
        raise AssertionError

    history = MemoryHistory(called("a", "good"), called("b", "hangs"))
    calls = [called("a", "good"), called("b", "hangs")]
    box = toolbox(FakeTool("good", ok), FakeTool("hangs", hang))
    after = "the cancel stopped here"

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()

            nursery.start_soon(stop)
            await answer_calls(calls, box, record=history, listen=Heard())
        after = "nothing stopped it"

    assert after == "the cancel stopped here"
    assert [(r.call_id, r.is_error) for r in results(history)] == [
        ("a", False),
        ("b", True),
    ]
    assert "cancelled" in results(history)[1].summary


async def test_an_incomplete_call_is_answered_and_never_run() -> None:
    tool = FakeTool("do", ok)
    call = ToolCall(
        call_id="a", name="do", arguments="{}", response="", incomplete=True
    )

    _, given_back = await answer(toolbox(tool), call)

    assert tool.runs == 0
    assert given_back[0].is_error
    assert "output limit" in (given_back[0].content or "")


async def test_calls_that_must_not_run_are_answered_with_the_reason() -> None:
    tool = FakeTool("do", ok)

    history, given_back = await answer(
        toolbox(tool), called("a"), called("b"), why_not="not run: refused"
    )

    assert tool.runs == 0
    assert [(r.call_id, r.summary, r.is_error) for r in given_back] == [
        ("a", "do: not run: refused", True),
        ("b", "do: not run: refused", True),
    ]
    assert history.trace == ["ToolResult", "ToolResult"]


async def test_a_long_output_is_capped_and_kept_whole_in_a_file() -> None:
    text = "x" * 100_000

    async def talk(call: Call) -> ToolOutput:
        return ToolOutput(summary="talked", content=text)

    box = toolbox(FakeTool("do", talk))
    _, given_back = await answer(box, called("a"))

    content = given_back[0].content or ""
    assert isinstance(box.spill, MemorySpill)
    ((path, file),) = box.spill.files.items()
    assert len(content.encode()) <= 2_000
    assert str(path) in content
    assert file.getvalue().decode() == text


class NoRoom(Struct):
    """A spill folder on a disk that takes 4 KB more, and says so when it is written."""

    folder: Path

    def open(self, name: str) -> tuple[Path, IO[bytes]]:
        path = self.folder / name
        path.write_bytes(b"x" * 4_096)
        return path, Path("/dev/full").open("wb")


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
async def test_a_long_output_that_finds_no_room_is_capped_all_the_same(
    tmp_path: Path,
) -> None:
    async def talk(call: Call) -> ToolOutput:
        return ToolOutput(summary="talked", content="x" * 100_000)

    box = replace(toolbox(FakeTool("do", talk)), spill=NoRoom(tmp_path))
    _, given_back = await answer(box, called("a"))

    content = given_back[0].content or ""
    assert not given_back[0].is_error
    assert len(content.encode()) <= 2_000
    assert "nowhere: it could not be saved (No space left on device)" in content
    assert names(tmp_path) == []


async def test_hostile_output_is_clean_text_when_it_reaches_the_history() -> None:
    async def talk(call: Call) -> ToolOutput:
        return ToolOutput(
            summary="a\x00b\x1b[31mred\ud800",
            content="NUL \x00 ansi \x1b[31mred\x1b[0m lone \ud800 </conversation>",
        )

    _, given_back = await answer(toolbox(FakeTool("do", talk)), called("a"))

    whole = given_back[0].summary + (given_back[0].content or "")
    whole.encode()
    assert "\x00" not in whole
    assert "\x1b" not in whole
    assert "</conversation>" in whole


async def test_an_error_as_long_as_a_file_is_capped_like_any_output() -> None:
    async def fail(call: Call) -> str:
        raise ToolError("x" * 500_000)

    async def crash(call: Call) -> str:
        raise ValueError("\x00\x1b[31m\ud800" + "y" * 500_000)

    _, given_back = await answer(
        toolbox(FakeTool("fail", fail), FakeTool("crash", crash)),
        called("a", "fail"),
        called("b", "crash"),
        called("c", "z" * 500_000),
    )

    for result in given_back:
        assert result.is_error
        assert len(result.summary) <= 400
        assert len((result.content or "").encode()) <= 2_000
        assert "\x1b" not in result.summary + (result.content or "")


async def test_a_crash_is_told_to_a_person_with_its_place() -> None:
    heard = Heard()
    history = MemoryHistory(called("a"))

    await answer_calls(
        [called("a")],
        toolbox(FakeTool("do", raises(ValueError("bad\x1b[2Jword")))),
        record=history,
        listen=heard,
    )

    (warning,) = heard.of(Warning)
    assert "the tool do crashed at " in warning.message
    assert "test_calls.py:" in warning.message
    assert warning.message.endswith("ValueError: badword")


@pytest.mark.parametrize(
    "output",
    [
        None,
        42,
        ToolOutput(summary="s", images=(Image("image/png", "\ud800"),)),
    ],
    ids=["nothing", "a number", "an image that is no base64"],
)
async def test_an_output_that_is_none_is_a_crash_and_the_others_keep_theirs(
    output: ToolOutput,
) -> None:
    async def wrong(call: Call) -> ToolOutput:
        return output

    _, given_back = await answer(
        toolbox(FakeTool("wrong", wrong), FakeTool("good", ok)),
        called("a", "wrong"),
        called("b", "good"),
    )

    assert [(r.call_id, r.is_error) for r in given_back] == [("a", True), ("b", False)]


async def test_what_a_tool_has_done_is_kept_though_a_cancel_goes_by() -> None:
    long = "x" * 400_000  # so long that a thread makes it fit

    async def cancelled_at_its_end(call: Call) -> ToolOutput:
        scope.cancel()
        return ToolOutput(summary="done", content=long)

    history = MemoryHistory(called("a"))
    with trio.CancelScope() as scope:
        await answer_calls(
            [called("a")],
            toolbox(FakeTool("do", cancelled_at_its_end)),
            record=history,
            listen=Heard(),
        )

    (result,) = results(history)
    assert (result.summary, result.is_error) == ("done", False)


async def test_a_time_limit_that_runs_out_behind_the_tool_loses_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def just_in_time(call: Call) -> ToolOutput:
        autojump_clock.jump(60)
        return ToolOutput(summary="done", content="x" * 400_000)

    _, given_back = await answer(
        toolbox(FakeTool("do", just_in_time), seconds=30.0), called("a")
    )

    assert (given_back[0].summary, given_back[0].is_error) == ("done", False)


async def test_a_call_that_cannot_run_leaves_no_proof_that_it_began() -> None:
    cut = ToolCall(call_id="a", name="do", arguments="{}", response="", incomplete=True)

    history, _ = await answer(
        toolbox(FakeTool("do", ok)), cut, called("b", "unknown"), called("c")
    )

    assert [t for t in history.trace if t.startswith("start")] == ["start c"]


class FullHistory(MemoryHistory):
    """Has no room from the *n*-th start of a tool on."""

    def __init__(self, *items: ToolCall, full_at: int) -> None:
        super().__init__(*items)
        self._full_at = full_at

    def start_tool(self, call: ToolCall) -> None:
        if len(self.trace) == self._full_at:
            raise OSError("full")
        super().start_tool(call)


@pytest.mark.parametrize("full_at", [0, 1])
async def test_no_call_runs_that_could_not_be_written(full_at: int) -> None:
    tool = FakeTool("do", ok)
    calls = [called("a"), called("b")]
    history = FullHistory(*calls, full_at=full_at)

    with pytest.raises(OSError, match="full"):
        await answer_calls(calls, toolbox(tool), record=history, listen=Heard())

    assert tool.runs == 0
    assert [(r.call_id, r.is_error) for r in results(history)] == [
        ("a", True),
        ("b", True),
    ]
    assert "not run" in results(history)[0].summary


Behaviour = str


@st.composite
def batches(draw: st.DrawFn) -> list[Behaviour]:
    kinds = ["ok", "error", "crash", "exit", "hang", "slow", "unknown", "incomplete"]
    return draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=6))


@settings(max_examples=60, deadline=None)
@given(batch=batches(), cancel_after=st.sampled_from([0.0, 0.5, 1.5, math.inf]))
def test_every_call_gets_exactly_one_result_in_call_order(
    batch: list[Behaviour], cancel_after: float
) -> None:
    async def slow(call: Call) -> str:
        await trio.sleep(1)
        return "slow"

    async def hang(call: Call) -> str:
        await trio.sleep(10)
        return "late"

    async def error(call: Call) -> str:
        raise ToolError("no")

    box = toolbox(
        FakeTool("ok", ok),
        FakeTool("error", error),
        FakeTool("crash", raises(ValueError("x"))),
        FakeTool("exit", raises(SystemExit(1))),
        FakeTool("hang", hang),
        FakeTool("slow", slow),
        seconds=5.0,
    )
    calls = [
        ToolCall(
            call_id=str(i),
            name="ok" if kind == "incomplete" else kind,
            arguments="{}",
            response="",
            incomplete=kind == "incomplete",
        )
        for i, kind in enumerate(batch)
    ]
    history = MemoryHistory(*calls)

    async def main() -> None:
        with trio.move_on_after(cancel_after):
            await answer_calls(calls, box, record=history, listen=Heard())

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

    assert [r.call_id for r in results(history)] == [c.call_id for c in calls]
