"""Ten compactions in a row: what is in front of the model, and after a reload."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from pod.compaction.framing import directive_text, leading_items
from pod.compaction.job import Done
from pod.entries import Compaction, ItemEntry, Mode, Reference
from pod.log import read_log
from pod.session import Session
from tests.measure.compacting import Compacting, Opened
from tests.measure.planted import Step, steps
from tests.measure.remembering import remembering
from tests.worker.compact import summarisers
from worker.api import Request
from worker.encode import encode_request
from worker.history import faults
from worker.items import Item

GENERATIONS = 10
HEADS = (
    "[Summary of the session so far",
    "[User directives",
    "[Auto-read file: ",
    "[Referenced files",
)


async def compact(opened: Opened, mode: Mode = "worker") -> Compaction:
    outcome = await opened.pod.compact(mode=mode)
    assert isinstance(outcome, Done)
    return outcome.entry


def loaded(case: Compacting, opened: Opened) -> Request:
    """Return the request of a process that has just loaded the session."""
    with Session.open(case.log, kept=False) as session:
        return Opened(session, opened.setup, opened.pod).request


def order_of(step: Step) -> str:
    return next(fact.text for fact in step.facts if fact.kind == "directive")


def system_texts(request: Request) -> list[str]:
    return [block.text for block in request.system]


def tail(case: Compacting, count: int) -> Sequence[Item]:
    """Return the last items of the log, as they were written."""
    entries = read_log(case.log).entries
    items = [entry.item for entry in entries if isinstance(entry, ItemEntry)]
    return items[len(items) - count :]


@pytest.fixture
def case(tmp_path: Path) -> Compacting:
    policy = summarisers.Either(summarisers.careful(), remembering())
    recent = ("compaction.keep_recent_tokens=2000",)
    made = Compacting(tmp_path.resolve(), policy, settings=recent)
    made.begin()
    return made


@pytest.mark.parametrize("mode", ["worker", "summarize", "native", "mechanical"])
async def test_ten_compactions_keep_every_order_and_reload_to_the_same_bytes(
    case: Compacting, mode: Mode
) -> None:
    orders: list[str] = []
    prompts: set[str] = set()
    for step in steps(GENERATIONS, seed=3, folder=case.work):
        orders.append(order_of(step))
        case.add(step)
        async with case.opened() as opened:
            await compact(opened, mode)

            request = opened.request
            prompt, *leading = system_texts(request)
            context = "\n".join(leading)
            prompts.add(prompt)
            assert [o for o in orders if directive_text(o) not in context] == []
            assert encode_request(loaded(case, opened)) == encode_request(request)
    assert len(prompts) == 1


async def test_the_context_is_in_the_order_of_the_seed(case: Compacting) -> None:
    for step in steps(4, seed=4, folder=case.work):
        entry = await case.step(step)
        async with case.opened() as opened:
            items = opened.session.items
            leading = leading_items(entry)
            heads = [
                next(head for head in HEADS if item.text.startswith(head))
                for item in leading
            ]
            files = [HEADS[2]] * len(entry.auto_read)
            assert heads == [HEADS[0], HEADS[1], *files, HEADS[3]][: len(heads)]
            assert len(heads) == 2 + len(files) + bool(entry.references)
            assert list(items[: len(leading)]) == leading
            kept = items[len(leading) :]
            assert len(kept) == entry.receipt.kept_items
            assert list(kept) == list(tail(case, len(kept)))
            assert faults(items) == []
            request = opened.request
            assert system_texts(request)[1:] == [item.text for item in leading]
            assert system_texts(request)[0] == opened.session.header.system


async def test_references_come_last_and_say_how_they_were_used(
    case: Compacting,
) -> None:
    done = [await case.step(step) for step in steps(4, seed=5, folder=case.work)]

    entry = done[-1]
    last = leading_items(entry)[-1].text
    assert entry.auto_read[0].path == f"{case.work}/notes04.md"
    assert entry.references == (
        Reference(f"{case.work}/notes02.md", "read before compaction"),
        Reference(f"{case.work}/notes01.md", "read before compaction"),
    )
    assert last.startswith(HEADS[3])
    assert f"- {case.work}/notes01.md (read before compaction)\n" in last


@pytest.mark.parametrize("budget", [150, 200, 300])
async def test_beyond_the_budget_the_first_and_the_newest_order_stay(
    case: Compacting, budget: int
) -> None:
    small = replace(case, settings=(f"compaction.directive_budget={budget}",))
    orders: list[str] = []
    left_out: set[str] = set()

    for step in steps(GENERATIONS, seed=6, folder=case.work):
        orders.append(order_of(step))
        entry = await small.step(step)
        carried = [directive.text for directive in entry.directives]
        assert (carried[0], carried[-1]) == (orders[0], orders[-1])
        assert [order for order in orders if order in carried] == carried
        assert not any(directive.clipped for directive in entry.directives)
        left_out |= set(orders) - set(carried)

    assert left_out
