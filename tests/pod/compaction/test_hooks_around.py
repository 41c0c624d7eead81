"""What hooks can do to a compaction, and what they cannot."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from pod.compaction.job import Done, Failed, Outcome, Skipped
from pod.entries import (
    CompactionStart,
    FileDetails,
    ItemEntry,
    RunEnd,
)
from pod.events import CompactSkipped, HookFailed
from pod.hooks.answers import (
    BeforeCompactAnswer,
    CompactingAnswer,
    HookCompaction,
)
from pod.hooks.hooks import Hook
from pod.hooks.payloads import (
    AnyPayload,
    BeforeCompact,
    Compacted,
    Compacting,
    HookEvent,
)
from pod.pod import Stopped
from pod.session import Session
from tests.pod.compaction.overflows import Overflowing
from tests.pod.compaction.pods import TABLE, FillingPod, Make, unpaired
from tests.worker.compact import policies, summarisers
from tests.worker.compact.summarisers import between
from worker.api import Request
from worker.client import Client, Delta, Response
from worker.items import AssistantText, ToolCall, UserText
from worker.usage import Usage

SUMMARIZE = replace(
    TABLE, mode="summarize", order=("mechanical",), keep_recent_tokens=2_000
)


class Told:
    """Hooks at every event of a compaction that keep what they are told."""

    def __init__(
        self,
        before: BeforeCompactAnswer | None = None,
        compacting: CompactingAnswer | None = None,
    ) -> None:
        self.payloads: list[AnyPayload] = []
        self._answers: dict[HookEvent, object] = {
            "session_before_compact": before,
            "session_compacting": compacting,
            "session_compact": None,
        }
        self.hooks = [
            Hook(event=event, name=f"my {event}", ask=self._ask(event))
            for event in self._answers
        ]

    def _ask(self, event: HookEvent) -> Callable[[AnyPayload], Awaitable[object]]:
        async def ask(payload: AnyPayload) -> object:
            await trio.lowlevel.checkpoint()
            self.payloads.append(payload)
            return self._answers[event]

        return ask


def kinds(told: Told) -> list[str]:
    return [type(payload).__name__ for payload in told.payloads]


async def test_all_three_are_called_in_order_with_what_happens(make: Make) -> None:
    told = Told()
    pod = make(calls=8, hooks=told.hooks)

    await pod.pod.run("Fetch everything.")

    assert kinds(told) == ["BeforeCompact", "Compacting", "Compacted"]
    before, compacting, done = told.payloads
    [entry] = pod.compactions
    assert isinstance(before, BeforeCompact)
    assert isinstance(compacting, Compacting)
    assert isinstance(done, Compacted)
    assert (before.session, before.reason, before.will_retry, before.mode) == (
        "s",
        "mid_turn",
        True,
        "worker",
    )
    assert before.first_kept == entry.first_kept
    assert before.tokens_before == entry.tokens_before
    assert before.is_split_turn
    assert (before.items, before.turn_prefix[0]) == ((), UserText("Fetch everything."))
    head = (*before.items, *before.turn_prefix)
    assert len(head) == entry.receipt.summarised_items == len(before.entries)
    assert (compacting.items, compacting.turn_prefix) == (
        before.items,
        before.turn_prefix,
    )
    assert compacting.compaction_id == entry.compaction_id
    assert (done.entry, done.from_hook) == (entry, False)


async def test_they_are_called_for_a_compaction_by_hand_too(make: Make) -> None:
    """rivals.md #115: a hook that some paths pass by."""
    await make(calls=4, table=replace(TABLE, enabled=False)).pod.run("Fetch.")
    told = Told()

    await make(hooks=told.hooks).pod.compact(instructions="Mind the gap.")

    before = told.payloads[0]
    assert kinds(told) == ["BeforeCompact", "Compacting", "Compacted"]
    assert isinstance(before, BeforeCompact)
    assert (before.reason, before.instructions) == ("manual", "Mind the gap.")


async def test_a_cancel_begins_nothing(make: Make) -> None:
    await make(calls=4, table=replace(TABLE, enabled=False)).pod.run("Fetch.")
    told = Told(BeforeCompactAnswer(cancel=True, message="not now"))
    pod = make(hooks=told.hooks)

    outcome = await pod.pod.compact()

    assert outcome == Skipped("hook", "a hook does not want it: not now")
    assert pod.heard.of(CompactSkipped) == [
        CompactSkipped("hook", "a hook does not want it: not now")
    ]
    assert [e for e in pod.told if isinstance(e, CompactionStart)] == []


async def test_a_cancel_cannot_end_a_run_that_has_no_room_left(make: Make) -> None:
    """rivals.md #114: a hook that always blocks, until the window is exhausted."""
    told = Told(BeforeCompactAnswer(cancel=True, message="never"))
    pod = make(calls=12, hooks=told.hooks, worker=policies.careful())

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 12 are fetched.")
    assert {c.mode for c in pod.compactions} == {"mechanical"}
    assert pod.compactions[0].receipt.attempts == (
        "hook: a hook does not want it: never",
        "mechanical: used",
    )


async def test_a_cancel_undoes_what_an_earlier_hook_made(make: Make) -> None:
    """Where a run waits too: who says no is not passed by."""
    made = Told(BeforeCompactAnswer(compaction=HookCompaction(summary="By a hook.")))
    told = Told(BeforeCompactAnswer(cancel=True, message="never"))
    pod = make(calls=8, hooks=[*made.hooks, *told.hooks])

    await pod.pod.run("Fetch everything.")

    [entry] = pod.compactions
    assert (entry.mode, entry.from_hook) == ("mechanical", False)
    assert entry.receipt.attempts == (
        "hook: a hook does not want it: never",
        "mechanical: used",
    )


class Slow:
    """A hook that is told of a compaction and does not come back."""

    def __init__(self) -> None:
        self.is_told = trio.Event()
        self.hook = Hook(event="session_compact", name="slow", ask=self._ask)

    async def _ask(self, payload: AnyPayload) -> object:
        self.is_told.set()
        await trio.sleep_forever()


async def test_an_abort_behind_the_commit_ends_the_hook_and_the_run_goes_on(
    make: Make,
) -> None:
    """There is room: the run must not end for want of it, nor be told so."""
    slow = Slow()
    pod = make(calls=8, hooks=[slow.hook])
    ends: list[RunEnd] = []

    async def run() -> None:
        ends.append(await pod.pod.run("Fetch everything."))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await slow.is_told.wait()
        assert pod.pod.abort_compaction()

    assert [(end.outcome, end.text) for end in ends] == [
        ("finished", "All 8 are fetched.")
    ]
    assert pod.heard.of(CompactSkipped) == []
    assert (len(pod.compactions), unpaired(pod.told)) == (1, [])


@pytest.mark.parametrize("how", ["abort", "stop"])
async def test_who_ends_a_compaction_by_hand_too_late_is_told_that_it_is_done(
    how: str, make: Make
) -> None:
    await make(calls=4, table=replace(TABLE, enabled=False)).pod.run("Fetch.")
    slow = Slow()
    pod = make(hooks=[slow.hook])
    outcomes: list[Outcome | None] = []

    async def compact() -> None:
        try:
            outcomes.append(await pod.pod.compact())
        except Stopped as stopped:
            outcomes.append(stopped.ended)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(compact)
        await slow.is_told.wait()
        if how == "abort":
            assert pod.pod.abort_compaction()
        else:
            pod.pod.stop("interrupted")

    [entry] = pod.compactions
    assert outcomes == [Done(entry)]
    assert pod.heard.of(CompactSkipped) == []


async def test_a_hook_may_make_the_whole_compaction(make: Make) -> None:
    made = HookCompaction(
        summary="Made by a hook.",
        details=FileDetails(read_files=("/r",), modified_files=("/m",)),
        preserve_data='{"mine": 1}',
    )
    told = Told(BeforeCompactAnswer(compaction=made))
    pod = make(calls=8, hooks=told.hooks, worker=policies.careful())

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    [entry] = pod.compactions
    assert (entry.summary, entry.from_hook) == ("Made by a hook.", True)
    assert (entry.details, entry.preserve_data) == (made.details, '{"mine": 1}')
    assert entry.receipt.attempts == ("hook: used",)
    assert entry.receipt.worker_requests == 0
    assert kinds(told) == ["BeforeCompact", "Compacted"]
    done = told.payloads[-1]
    assert isinstance(done, Compacted)
    assert done.from_hook


async def test_files_that_a_hook_names_are_not_added_up(make: Make) -> None:
    made = HookCompaction(
        summary="Made by a hook.", details=FileDetails(modified_files=("/m",))
    )
    pod = make(calls=12, hooks=Told(BeforeCompactAnswer(compaction=made)).hooks)
    await pod.pod.run("Fetch everything.")

    again = make(calls=24, worker=policies.lazy())
    await again.pod.run("More.")

    assert pod.compactions[-1].details.modified_files == ("/m",)
    assert again.compactions[0].details.modified_files == ()


def calls_kept(pod: FillingPod) -> list[str]:
    """Return the ids of the entries that calls are in, as far as they are shown."""
    return [
        shown.entry
        for shown in pod.session.window.shown
        if isinstance(shown.item, ToolCall)
    ]


async def test_a_hook_may_say_from_where_on_everything_is_kept(make: Make) -> None:
    pod = make(calls=4, table=replace(TABLE, enabled=False))
    await pod.pod.run("Fetch.")
    chosen = calls_kept(pod)[2]
    made = HookCompaction(summary="Made by a hook.", first_kept=chosen)

    pod = make(hooks=Told(BeforeCompactAnswer(compaction=made)).hooks)
    outcome = await pod.pod.compact()

    assert isinstance(outcome, Done)
    assert outcome.entry.first_kept == chosen
    assert calls_kept(pod)[0] == chosen
    assert len(calls_kept(pod)) == 2


@pytest.mark.parametrize("where", ["result", "nowhere", "first"])
async def test_an_entry_before_which_nothing_can_be_cut_is_a_failure(
    where: str, make: Make
) -> None:
    """pi: what a hook named was taken unseen, and the next request was refused."""
    pod = make(calls=4, table=replace(TABLE, enabled=False))
    await pod.pod.run("Fetch.")
    shown = [one.entry for one in pod.session.window.shown]
    entry = {"result": shown[2], "nowhere": "deadbeef", "first": shown[0]}[where]
    made = HookCompaction(summary="Made by a hook.", first_kept=entry)
    items = list(pod.session.items)

    pod = make(hooks=Told(BeforeCompactAnswer(compaction=made)).hooks)
    outcome = await pod.pod.compact()

    assert isinstance(outcome, Failed)
    assert outcome.entry.code == "invalid_cut"
    assert outcome.entry.message.startswith(
        f"Compaction failed: the hook keeps all from the entry {entry!r} on: "
    )
    assert list(make().session.items) == items


@pytest.mark.parametrize(
    ("summary", "code"), [("  ", "no_summary"), ("word " * 7_000, "too_large")]
)
async def test_a_hook_s_summary_is_judged_like_any_other(
    summary: str, code: str, make: Make
) -> None:
    await make(calls=4, table=replace(TABLE, enabled=False)).pod.run("Fetch.")
    made = HookCompaction(summary=summary)
    pod = make(hooks=Told(BeforeCompactAnswer(compaction=made)).hooks)

    outcome = await pod.pod.compact()

    assert isinstance(outcome, Failed)
    assert outcome.entry.code == code
    assert pod.session.breaker.failures == 0  # no compact worker was asked


async def test_where_a_run_waits_the_rungs_follow_a_hook_that_failed(
    make: Make,
) -> None:
    made = HookCompaction(summary=" ")
    pod = make(calls=8, hooks=Told(BeforeCompactAnswer(compaction=made)).hooks)

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    assert pod.compactions[0].receipt.attempts == (
        "hook: no_summary: the summary is empty",
        "worker: used",
    )


async def test_a_hook_that_throws_is_reported_and_the_compaction_goes_on(
    make: Make,
) -> None:
    async def fail(payload: AnyPayload) -> object:
        raise ValueError("no luck")

    events: tuple[HookEvent, ...] = (
        "session_before_compact",
        "session_compacting",
        "session_compact",
    )
    pod = make(calls=8, hooks=[Hook(event=e, name="mine", ask=fail) for e in events])

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, len(pod.compactions)) == ("finished", 1)
    assert [event.event for event in pod.heard.of(HookFailed)] == [*events]
    assert unpaired(pod.told) == []


async def test_a_hook_gives_context_lines_an_order_and_data_to_keep(
    make: Make,
) -> None:
    asked: list[Request] = []
    answer = CompactingAnswer(
        prompt="Write a haiku.", context=("Branch: main",), preserve_data='{"k": 2}'
    )
    pod = make(
        calls=8,
        table=SUMMARIZE,
        hooks=Told(compacting=answer).hooks,
        wrap=lambda client: Keeping(client, asked),
    )

    await pod.pod.run("Fetch everything.")

    [request] = [r for r in asked if not r.tools]
    [entry] = pod.compactions
    assert between(request, "additional-context") == "- Branch: main"
    assert summarisers.prompt_of(request).endswith("Write a haiku.")
    assert entry.preserve_data == '{"k": 2}'


class Keeping:
    """A client that keeps the requests and answers those for a summary itself."""

    def __init__(self, client: Client, asked: list[Request]) -> None:
        self._client = client
        self._asked = asked

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        self._asked.append(request)
        if request.tools:
            return await self._client.ask(request, on_delta)
        return Response(
            message_id="m",
            model=request.model,
            items=(AssistantText("Ports in the fog.", ""),),
            stop_reason="end_turn",
            usage=Usage(input=1, output=1),
        )

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


async def test_the_worker_gets_a_hook_s_order_and_context(
    make: Make, tmp_path: Path
) -> None:
    answer = CompactingAnswer(prompt="Mind the ports.", context=("Branch: main",))
    pod = make(calls=8, hooks=Told(compacting=answer).hooks)

    await pod.pod.run("Fetch everything.")

    [transcript] = pod.session.files.glob("compact-*.jsonl")
    task = transcript.read_text()
    assert "<instructions>\\nMind the ports.\\n</instructions>" in task
    assert "<additional-context>\\n- Branch: main\\n</additional-context>" in task


async def test_what_a_hook_made_is_there_again_when_the_session_is_opened(
    make: Make,
) -> None:
    made = HookCompaction(summary="Made by a hook.")
    pod = make(calls=8, hooks=Told(BeforeCompactAnswer(compaction=made)).hooks)
    await pod.pod.run("Fetch everything.")
    items = list(pod.session.items)
    pod.close()

    with Session.open(pod.path) as session:
        assert list(session.items) == items
        assert any(isinstance(e, ItemEntry) for e in session.window.entries)


async def test_what_a_hook_says_behind_a_compaction_goes_with_the_request_that_is_sent_again(
    make: Make,
) -> None:
    """pi#9051: it came after that request."""
    clients: list[Overflowing] = []
    pods: list[FillingPod] = []

    def wrap(client: Client) -> Client:
        clients.append(Overflowing(client, {4}))
        return clients[0]

    async def steer(payload: AnyPayload) -> object:
        pods[0].pod.steer("Mind the ports.")
        return None

    hook = Hook(event="session_compact", name="mine", ask=steer)
    pods.append(make(calls=5, wrap=wrap, hooks=[hook]))

    end = await pods[0].pod.run("Fetch everything.")

    assert end.outcome == "finished"
    refused, again = clients[0].requests[3:5]
    assert "Mind the ports." not in str(refused.messages)
    assert "Mind the ports." in str(again.messages[-1])


async def test_what_a_hook_makes_is_made_safe(make: Make) -> None:
    await make(calls=4, table=replace(TABLE, enabled=False)).pod.run("Fetch.")
    made = HookCompaction(summary="Made\x00 by \x1b[31ma hook\x1b[0m.")
    pod = make(hooks=Told(BeforeCompactAnswer(compaction=made)).hooks)

    await pod.pod.compact()

    [entry] = pod.compactions
    assert entry.from_hook
    assert entry.summary == "Made␀ by a hook."
