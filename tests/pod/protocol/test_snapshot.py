"""How a Pod stands, as its events tell."""

from msgspec.structs import replace

from pod.entries import (
    AnyEntry,
    Compaction,
    CompactionStart,
    DeliveredEntry,
    HandedBack,
    InputEntry,
    ItemEntry,
    Permission,
    RunEnd,
    RunStart,
    ToolStart,
    UsageEntry,
)
from pod.events import CompactProgress, PermissionRequest, PodLive, Status
from pod.protocol.snapshot import (
    MOST_INPUT,
    MOST_INPUTS,
    MOST_TEXT,
    Following,
    InFlight,
    PodState,
    RunningCompaction,
    RunningRequest,
    RunningTool,
    WaitingInput,
)
from worker.client import TextDelta
from worker.events import Live, RequestStart, Retry
from worker.items import ToolResult

REQUEST = RequestStart(request=2, model="m", items=3, max_tokens=4, estimate=None)
PROGRESS = CompactProgress("c", 1, 2, 3, 4, 5, has_summary=False)
QUESTION = PermissionRequest("c1", "bash", "{}", "rule")
STARTED = CompactionStart(
    compaction_id="c", reason="manual", mode="worker", tokens_before=9
)
DONE = Compaction(
    compaction_id="c",
    reason="manual",
    mode="worker",
    summary="s",
    first_kept=None,
    compacted_from="x",
    tokens_before=9,
    tokens_after=3,
    cost_usd=0.5,
)


def after(*events: AnyEntry | Live | PodLive) -> PodState:
    following = Following(session="s", seq=0, model="m", leaf=None, inputs=())
    for event in events:
        if isinstance(event, AnyEntry):
            following.entry(event, "leaf")
        else:
            following.live(event)
    return following.now()


def flying(*events: AnyEntry | Live | PodLive) -> InFlight:
    return after(*events).in_flight


def test_a_pod_that_did_nothing_is_idle() -> None:
    assert after() == PodState("idle", "s", 0, None, None, "m", None, 0.0, InFlight())


def test_a_run_is_under_way_until_its_end() -> None:
    start = RunStart(seq=1, run="r", model="n")
    end = RunEnd(seq=3, run="r", outcome="finished", reason="done", exit_code=0)

    running = after(start, ToolStart(seq=2, call_id="c", name="bash"))
    over = after(start, ToolStart(seq=2, call_id="c", name="bash"), end)

    assert (running.run, running.model, running.seq) == ("r", "n", 2)
    assert running.in_flight == InFlight(tools=(RunningTool("c", "bash"),))
    assert (over.run, over.seq, over.in_flight) == (None, 3, InFlight())


def test_what_came_of_an_answer_is_shown_until_it_is_whole() -> None:
    asked = (REQUEST, TextDelta("Hel"), TextDelta("lo"))
    retried = Retry(1, 8, 0.5, "overloaded", 529, "busy")
    usage = UsageEntry(
        seq=1,
        response="r",
        model="m",
        stop_reason="end_turn",
        usage=None,
        context_tokens=None,
    )

    assert flying(*asked).request == RunningRequest(2, "m", 1, "Hello")
    assert flying(*asked, retried).request == RunningRequest(2, "m", 2, "")
    assert flying(*asked, usage).request is None


def test_of_a_long_answer_the_newest_is_shown() -> None:
    pieces = [TextDelta("x" * 1_000) for _ in range(100)]

    found = flying(REQUEST, *pieces, TextDelta("end")).request

    assert found is not None
    assert len(found.text) == MOST_TEXT
    assert found.text.endswith("xend")


def test_tools_run_until_their_results() -> None:
    started = [ToolStart(call_id=id, name="bash") for id in ("a", "b")]
    result = ItemEntry(item=ToolResult("a", "did it"))

    assert flying(*started, result).tools == (RunningTool("b", "bash"),)


def test_a_compaction_is_shown_with_its_progress_and_costs_what_it_costs() -> None:
    shown = RunningCompaction("c", "manual", "worker", 9, PROGRESS)

    assert flying(STARTED, PROGRESS).compaction == shown
    assert flying(STARTED, PROGRESS, DONE).compaction is None
    assert after(STARTED, DONE).cost_usd == 0.5
    assert after(STARTED, replace(DONE, cost_usd=None)).cost_usd is None


def test_input_waits_until_it_is_delivered_or_handed_back() -> None:
    inputs = [InputEntry(input=id, text=f"text {id}") for id in ("a", "b", "c")]
    delivered = DeliveredEntry(inputs=("a",))
    back = HandedBack(inputs=("b",), texts=("text b",))

    assert flying(*inputs, delivered, back).inputs == (WaitingInput("c", "text c"),)


def test_a_question_waits_until_it_is_decided() -> None:
    decided = Permission(call_id="c1", tool="bash", decision="allow", by="client")

    assert flying(QUESTION).questions == (QUESTION,)
    assert flying(QUESTION, decided).questions == ()


def test_what_it_does_is_what_it_said_last() -> None:
    assert after(Status("running"), Status("paused")).state == "paused"


def test_however_much_waits_a_snapshot_stays_small() -> None:
    inputs = [
        InputEntry(input=str(n), text="x" * 5_000, follow_up=True)
        for n in range(MOST_INPUTS + 7)
    ]
    kept = Following(session="s", seq=0, model="m", leaf=None, inputs=tuple(inputs))

    shown = after(*inputs).in_flight

    assert shown == kept.now().in_flight
    assert shown.inputs == tuple(
        WaitingInput(str(n), "x" * MOST_INPUT) for n in range(MOST_INPUTS)
    )
    assert shown.more_inputs == 7
