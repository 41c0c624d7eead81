"""Any history, compacted anywhere, broken off anywhere, opened again: it stays whole."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
import trio
from hypothesis import given, settings, strategies as st
from msgspec import Struct
from msgspec.structs import replace

from pod.context import context
from pod.entries import CompactionFailed, ItemEntry
from pod.session import Session
from tests.instruments import CancelAt
from tests.pod.compaction.pods import TABLE, FillingPod, header, unpaired
from tests.strategies import histories, modest
from tests.worker.compact import policies
from tests.worker.loopback.test_against_wire import (
    is_known,
    made_by_the_server,
    models,
)
from worker import api
from worker.api import Request
from worker.client import Client, Delta, Response
from worker.history import faults, stretches, unanswered
from worker.items import Item, ToolResult, UserText
from worker.model import Model
from worker.policy import Decide, Reply, call, say
from worker.validate import problems

Kind = Literal["worker", "mechanical", "failing", "cancelled", "reopened"]
KINDS: tuple[Kind, ...] = (
    *("worker", "mechanical", "failing", "cancelled", "cancelled", "reopened"),
)
SMALL = replace(TABLE, retained_tokens=150, min_gain=0.01)
PROMPT = "More, please."
STEERED = "And this."


class Step(Struct, frozen=True):
    """Items that came, and what happened then; *at* is the step of a cancel."""

    items: tuple[Item, ...]
    kind: Kind
    at: int


@st.composite
def stories(draw: st.DrawFn) -> list[Step]:
    """Give a history in pieces, with something that happens behind each."""
    items = [
        _longer(draw, _well_formed(made_by_the_server(item)))
        for item in draw(histories())
        if is_known(item)
    ]
    ends = [
        end
        for _, end in stretches(items)
        if not unanswered(items[:end])
        and not (end < len(items) and isinstance(items[end], ToolResult))
    ]
    cuts = (
        sorted(set(draw(st.lists(st.sampled_from(ends), max_size=3)))) if ends else []
    )
    bounds = [0, *cuts, len(items)]
    return [
        Step(
            tuple(items[start:end]),
            draw(st.sampled_from(KINDS)),
            draw(st.integers(1, 250)),
        )
        for start, end in pairwise(bounds)
    ]


def _well_formed(item: Item) -> Item:
    """Return the item without lone surrogates: those never get as far as the log."""
    found = {name: getattr(item, name) for name in item.__struct_fields__}
    texts = {name: text for name, text in found.items() if isinstance(text, str)}
    whole = {n: t.encode("utf-8", "replace").decode() for n, t in texts.items()}
    return made_by_the_server(replace(item, **whole))


def _longer(draw: st.DrawFn, item: Item) -> Item:
    """Give results and messages a size at which a compaction pays."""
    words = "word " * draw(st.sampled_from([0, 40, 400, 9_000]))
    if isinstance(item, ToolResult):
        return replace(item, content=f"{item.content}{words}")
    if isinstance(item, UserText):
        return replace(item, text=f"{item.text}{words}")
    return item


class Judge:
    """Looks at each request of the Pod's, and at the history it is made of."""

    def __init__(self, client: Client, model: Model) -> None:
        self.items: Callable[[], Sequence[Item]] = lambda: ()
        self.wrong: list[object] = []
        self.asked = 0
        self._client = client
        self._model = model

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        self.asked += 1
        self.wrong += problems(request, model=self._model)
        self.wrong += faults(self.items())
        return await self._client.ask(request, on_delta)

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


def once_more(request: Request) -> Reply:
    """Make one more call, then say so."""
    last = [block for message in request.messages[-2:] for block in message.content]
    if any(
        isinstance(b, api.ToolResult) and "result 9" in str(b.content) for b in last
    ):
        return say("Done.")
    return call(("toolu_9", "fetch", "{}"))


def pod_on(
    path: Path, model: Model, judges: list[Judge], **options: object
) -> FillingPod:
    def wrap(client: Client) -> Client:
        judges.append(Judge(client, model))
        return judges[-1]

    worker = policies.empty() if options.get("fails") else policies.careful()
    pod = FillingPod(
        path, main=Decide(once_more), worker=worker, table=SMALL, model=model, wrap=wrap
    )
    judges[-1].items = lambda: pod.session.items
    return pod


async def take(path: Path, step: Step, model: Model, judges: list[Judge]) -> None:
    """Let *step* happen to the session."""
    pod = pod_on(path, model, judges, fails=step.kind == "failing")
    try:
        pod.session.append(*(ItemEntry(item=item) for item in step.items))
        before = list(pod.session.items)
        match step.kind:
            case "worker" | "failing":
                await pod.pod.compact(mode="worker")
            case "mechanical":
                await pod.pod.compact(mode="mechanical")
            case "cancelled":
                await cancelled(pod, step.at)
            case "reopened":
                pass
        failed = any(isinstance(entry, CompactionFailed) for entry in pod.told)
        if failed or step.kind == "reopened":
            assert list(pod.session.items) == before
    finally:
        pod.close()


async def cancelled(pod: FillingPod, number: int) -> None:
    scope = trio.CancelScope()
    instrument = CancelAt(scope, number)
    trio.lowlevel.add_instrument(instrument)
    try:
        with scope:
            await pod.pod.compact()
    finally:
        trio.lowlevel.remove_instrument(instrument)


async def live(path: Path, story: Sequence[Step], model: Model) -> None:
    judges: list[Judge] = []
    for step in story:
        await take(path, step, model, judges)
        check(path)
    pod = pod_on(path, model, judges)
    try:
        pod.pod.steer(STEERED)
        end = await pod.pod.run(PROMPT)
        said = [i.text for i in pod.session.items if isinstance(i, UserText)]
        entries = pod.session.path_entries()
    finally:
        pod.close()
    assert [wrong for judge in judges for wrong in judge.wrong] == []
    assert (end.outcome, end.message) == ("finished", "")
    delivered = [
        e.item.text
        for e in entries
        if isinstance(e, ItemEntry) and isinstance(e.item, UserText)
    ]
    assert (delivered.count(STEERED), delivered.count(PROMPT)) == (1, 1)
    assert said.count(PROMPT) <= 1
    check(path)


def check(path: Path) -> None:
    """Hold the log to what is promised of every one."""
    with Session.open(path) as session:
        entries = session.path_entries()
        assert unpaired(list(entries)) == []
        assert session.problems == []
        assert faults(session.items) == []
        assert list(session.items) == context(entries)


@settings(modest, max_examples=60)
@given(story=stories(), model=models)
def test_any_history_stays_whole(
    story: list[Step], model: Model, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "s.jsonl"
    Session.create(path, header(), durability="flush").close()
    model = replace(model, provider="scripted", window=60_000)

    trio.run(live, path, story, model)
