"""The four tools, as the loop calls them."""

import os
import stat
from pathlib import Path

import pytest
import trio

from tests.tools.calls import refusal, run
from tests.worker.compact.policies import summary
from tests.worker.compact.runs import count, render
from tools.base import Call, Tool, ToolOutput
from tools.scope import Scope
from worker.compact.budget import AutoReadBudget
from worker.compact.draft import Draft
from worker.compact.guard import InputGuard
from worker.compact.order import CallOrder
from worker.compact.task import Mark
from worker.compact.tools import (
    AddReference,
    Guarded,
    MarkReadRequired,
    Read,
    WriteSummary,
)


class Kit:
    """The tools over one folder, with budgets of their own."""

    def __init__(
        self, scope: Scope, *, auto_read: int = 1_000, cap: int = 50_000
    ) -> None:
        self.guard = InputGuard(cap)
        self.budget = AutoReadBudget(auto_read, [scope.absolute("part_1.py")])
        self.draft = Draft(300, count)
        self.read = Read(scope, max_tokens=600, guard=self.guard, count=count)
        self.marks = 0
        self.mark = MarkReadRequired(
            scope,
            self.budget,
            max_tokens=auto_read,
            cost=lambda lines: count(render(lines)),
            marked=self._marked,
        )
        self.reference = AddReference(scope, self.budget)
        self.write = WriteSummary(self.draft)
        self.order = CallOrder()
        self.admitted: list[str] = []

    def _marked(self) -> None:
        self.marks += 1

    def guarded(self, tool: Tool) -> Tool:
        self.order.expect("call_1")
        return Guarded(
            tool,
            guard=self.guard,
            budget=self.budget,
            count=count,
            order=self.order,
            admitted=self.admitted.append,
        )


async def test_reading_is_capped_in_tokens_and_says_how_to_go_on(
    scope: Scope, files: tuple[str, ...], folder: Path
) -> None:
    (folder / "long.py").write_text("ab = 1\n" * 2_000)
    kit = Kit(scope)

    output = await run(kit.read, path="long.py")

    content = output.content or ""
    assert 300 < count(content) <= 600
    assert content.startswith("     1\tab = 1\n")
    assert "go on with offset=" in content


async def test_reading_is_capped_where_a_token_is_a_byte(
    scope: Scope, folder: Path
) -> None:
    (folder / "dense.txt").write_text("".join(f"{n} {'x' * 50}\n" for n in range(999)))
    kit = Kit(scope)
    read = Read(scope, max_tokens=600, guard=kit.guard, count=len)

    output = await run(read, path="dense.txt", offset=100)

    assert 200 < len(output.content or "") <= 600
    assert (output.content or "").startswith("   100\t")


async def test_lines_that_can_not_be_shown_are_not_shown(
    scope: Scope, folder: Path
) -> None:
    (folder / "one.txt").write_text("x" * 10_000)
    kit = Kit(scope)
    read = Read(scope, max_tokens=200, guard=kit.guard, count=lambda t: len(t) * 10)

    assert "too long to be shown here" in await refusal(read, path="one.txt")


async def test_a_picture_is_named_not_shown(scope: Scope, folder: Path) -> None:
    (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 100)
    kit = Kit(scope)

    assert "add_reference" in await refusal(kit.read, path="a.png")
    assert "add_reference" in await refusal(kit.mark, path="a.png")
    assert (await run(kit.reference, path="a.png")).summary == (
        "Referenced. The list has 2 files."
    )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (".", ". is a folder: give a file in it"),
        ("gone.py", "no such file: gone.py"),
        ("/etc/passwd", "lies outside of the folders you may read"),
        ("part_2.pyy", "There is: part_2.py"),
    ],
)
async def test_what_is_no_file_in_scope_is_refused_by_all(
    scope: Scope, files: tuple[str, ...], path: str, words: str
) -> None:
    kit = Kit(scope)

    for tool in (kit.read, kit.mark, kit.reference):
        assert words in await refusal(tool, path=path)
    assert (kit.budget.marks, kit.marks, len(kit.budget.known)) == ((), 0, 1)


HOSTILE = [
    ("../secret", "lies outside of the folders you may read"),
    ("a/../../secret", "lies outside of the folders you may read"),
    ("link", "out of the folders you may read"),
    ("absolute", "lies outside of the folders you may read"),
    ("folder/secret", "out of the folders you may read"),
    ("loop", "go round in circles"),
    ("/proc/self/environ", "lies outside of the folders you may read"),
    ("/proc/self/cwd/part_1.py", "lies outside of the folders you may read"),
    ("/proc/self/root/etc/passwd", "lies outside of the folders you may read"),
    ("/dev/zero", "lies outside of the folders you may read"),
    ("fifo", "is a FIFO, not a regular file"),
    ("socket", "no regular file"),
    ("part_1.py\0.txt", "NUL in the path"),
    ("n" * 300, "File name too long"),
    ("a/" * 50_000, "the path is too long: 100,000 bytes, at most 4,096"),
    ("a/" * 1_000, "no such file"),
]


@pytest.mark.parametrize(
    ("path", "words"), HOSTILE, ids=[f"{p[:25]!a} {len(p)}" for p, _ in HOSTILE]
)
async def test_a_hostile_worker_reads_marks_and_names_nothing_outside(
    scope: Scope, files: tuple[str, ...], folder: Path, path: str, words: str
) -> None:
    secret = folder.parent / "secret"
    secret.write_text("secret")
    (folder / "link").symlink_to("../secret")
    (folder / "absolute").symlink_to(secret)
    (folder / "folder").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    os.mknod(folder / "socket", stat.S_IFSOCK | 0o600)
    kit = Kit(scope)

    with trio.fail_after(20):
        for tool in (kit.read, kit.mark, kit.reference):
            assert words in await refusal(tool, path=path)

    assert (kit.budget.marks, kit.marks, len(kit.budget.known)) == ((), 0, 1)


async def test_a_file_of_a_terabyte_is_not_read_to_its_end(
    scope: Scope, folder: Path
) -> None:
    with (folder / "huge").open("wb") as file:
        file.write(b"line\n" * 400_000)
        file.truncate(1 << 40)
    kit = Kit(scope)

    with trio.fail_after(60):
        assert "auto-read budget exhausted" in await refusal(kit.mark, path="huge")
        shown = await run(kit.read, path="huge")
        await run(kit.reference, path="huge")

    assert "lines 1-" in (shown.content or "")
    assert kit.budget.references[-1].endswith("huge")


async def test_marks_cost_what_their_block_costs(
    scope: Scope, files: tuple[str, ...]
) -> None:
    kit = Kit(scope)

    whole = await run(kit.mark, path="part_1.py")
    part = await run(kit.mark, path=f"./{files[1]}", offset=5, limit=10)

    assert whole.summary == "Marked. Budget: 470/1000 tokens remaining"
    assert part.summary == "Marked. Budget: 411/1000 tokens remaining"
    assert kit.budget.marks == (
        Mark(scope.absolute("part_1.py"), None, None, 530),
        Mark(scope.absolute("part_2.py"), 5, 14, 59),
    )
    assert kit.marks == 2


async def test_a_file_that_no_budget_can_hold_is_refused_however_it_counts(
    scope: Scope, folder: Path
) -> None:
    (folder / "blank.txt").write_text(" " * 100_000)
    kit = Kit(scope)
    mark = MarkReadRequired(
        scope, kit.budget, max_tokens=1_000, cost=lambda _: 1, marked=lambda: None
    )

    assert "exhausted (1000 tokens)" in await refusal(mark, path="blank.txt")


async def test_a_reference_gives_the_tokens_of_marks_back(
    scope: Scope, files: tuple[str, ...]
) -> None:
    kit = Kit(scope)
    await run(kit.mark, path="part_1.py")

    output = await run(kit.reference, path=scope.absolute("part_1.py"))

    assert output.summary == ("Referenced. The list has 1 file. 530 tokens given back.")


async def test_a_default_reference_that_is_gone_may_be_named(scope: Scope) -> None:
    kit = Kit(scope)

    output = await run(kit.reference, path="part_1.py")

    assert output.summary == "Referenced. The list has 1 file."


async def test_a_summary_is_answered_with_its_tokens_and_its_problems(
    scope: Scope,
) -> None:
    kit = Kit(scope)

    assert (await run(kit.write, text=summary())).summary == (
        f"Summary written: {count(summary())} of at most 300 tokens."
    )
    assert (await run(kit.write, text="## Active Task")).summary == (
        "Summary written: 4 of at most 300 tokens. It cannot be used as it is:"
        " these headings are missing: ## Completed Tasks, ## Key Decisions,"
        " ## User Directives, ## Current Work. Call write_summary again."
    )
    assert (await run(kit.write, text=summary(done="word " * 300))).summary.endswith(
        "It is too large: call write_summary again with a shorter one."
    )


async def test_an_empty_summary_leaves_the_one_before(scope: Scope) -> None:
    kit = Kit(scope)
    await run(kit.write, text=summary())

    assert "empty" in await refusal(kit.write, text=" \n")
    assert kit.draft.last == kit.draft.usable
    assert kit.draft.last is not None
    assert kit.draft.last.text == summary()


async def test_wrong_arguments_are_told(scope: Scope) -> None:
    kit = Kit(scope)

    assert "missing: text" in await refusal(kit.write)
    assert "missing: path" in await refusal(kit.mark, file="a")
    assert "offset" in await refusal(kit.mark, path="a", offset=0)
    assert "limit" in await refusal(kit.mark, path="a", limit=-1)


async def test_in_the_reserve_only_a_summary_is_let_through(
    scope: Scope, files: tuple[str, ...]
) -> None:
    kit = Kit(scope)
    kit.guard.add(46_000)

    for tool in (kit.read, kit.mark, kit.reference):
        said = await refusal(kit.guarded(tool), path="part_1.py")
        assert said == (
            "Error: input limit (50000 tokens) nearly reached. Only write_summary"
            " works now: call it with what you know."
        )
    output = await run(kit.guarded(kit.write), text=summary())
    assert output.summary.startswith("Summary written")
    assert kit.budget.marks == ()


async def test_the_note_near_the_cap_comes_once_behind_the_text(
    scope: Scope, files: tuple[str, ...]
) -> None:
    kit = Kit(scope)
    kit.guard.add(42_000)

    first = await run(kit.guarded(kit.mark), path="part_1.py", limit=3)
    second = await run(kit.guarded(kit.mark), path="part_2.py", limit=3)

    assert first.content == (
        "Marked. Budget: 977/1000 tokens remaining\n"
        "Input nearly used up: about 7989 of 50000 tokens are left."
        " Call write_summary now."
    )
    assert second.content is None


async def test_the_note_on_the_half_comes_with_the_next_result_of_any_kind(
    scope: Scope, files: tuple[str, ...]
) -> None:
    kit = Kit(scope)

    first = await run(kit.guarded(kit.mark), path="part_1.py")
    second = await run(kit.guarded(kit.read), path="part_2.py", limit=1)

    assert first.content is None
    assert second.content == (
        "     1\tline 1 of part_2.py\n"
        "[lines 1-1 of 100; go on with offset=2]\n"
        "Budget half consumed. Consider calling write_summary soon."
    )


async def test_results_are_counted_when_they_are_made(
    scope: Scope, files: tuple[str, ...]
) -> None:
    kit = Kit(scope)

    output = await run(kit.guarded(kit.read), path="part_2.py")

    assert kit.guard.counted == count(output.content or "") > 100
    assert kit.admitted == ["call_1"]


async def test_calls_run_in_the_order_they_are_expected_in() -> None:
    order, ran = CallOrder(), []
    names = [f"call_{n}" for n in range(20)]
    for name in names:
        order.expect(name)

    async def one(name: str) -> None:
        async with order.turn(name):
            await trio.lowlevel.checkpoint()
            ran.append(name)

    async with trio.open_nursery() as nursery:
        for name in reversed(names):
            nursery.start_soon(one, name)

    assert ran == names


async def test_a_call_that_fails_or_is_cancelled_lets_the_next_one_run() -> None:
    order, ran = CallOrder(), []
    for name in ("a", "b", "c"):
        order.expect(name)

    with pytest.raises(ValueError, match="a"):
        async with order.turn("a"):
            raise ValueError("a")
    with trio.move_on_after(0):
        async with order.turn("b"):
            await trio.sleep_forever()
    async with order.turn("c"):
        ran.append("c")

    assert ran == ["c"]


class Burst:
    """A reader whose results are large, all made at the same time."""

    name = "read_file"
    description = ""
    parameters = b"{}"
    has_effects = False

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        await trio.lowlevel.checkpoint()
        return ToolOutput("x" * 4_000)


async def test_parallel_results_do_not_overshoot(scope: Scope) -> None:
    kit = Kit(scope, cap=10_000)
    kit.guard.add(5_000)

    texts = []
    for _ in range(4):
        tool = kit.guarded(Burst())
        if kit.guard.room >= 1_000:
            texts.append((await run(tool)).summary[:4])
        else:
            texts.append(await refusal(tool))

    assert texts[:3] == ["xxxx"] * 3
    assert texts[3] == (
        "Error: this has 1000 tokens, and only 728 may still be read. Ask for fewer"
        " lines, or call write_summary."
    )
