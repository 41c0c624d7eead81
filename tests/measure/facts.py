"""What of a session outlives ten compactions, counted.

``python -m tests.measure.facts`` plants facts in a session and has it compacted ten
times by compact workers good and bad, and without a model. For each kind of fact
it prints how many are left: in the last summary, in the context (all the model
sees), in the log. Everything is seeded; it takes no model and no network.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import trio
from msgspec import Struct

from pod.entries import Compaction, ItemEntry, Mode
from pod.log import read_log
from tests.measure.compacting import Compacting
from tests.measure.planted import Fact, steps
from tests.measure.remembering import gullible, remembering
from tests.worker.compact.policies import FABRICATED, lazy
from worker.api import Request, Text, ToolResult, ToolUse
from worker.compact.summary import DIRECTIVES, sections
from worker.items import AssistantText, Item, ToolResult as Result, UserText
from worker.policy import Policy

COMPACTIONS = 10

WORKERS: dict[str, tuple[Callable[[], Policy], Mode]] = {
    "careful": (remembering, "worker"),
    "lazy": (lazy, "worker"),
    "gullible": (gullible, "worker"),
    "mechanical": (lazy, "mechanical"),
}
"""Who summarises: a policy with the compact worker's tools; the last, no model."""


class Kept(Struct, frozen=True):
    """How many of the facts of a row are where."""

    planted: int
    summary: int
    context: int
    log: int


class Outcome(Struct, frozen=True):
    """What some compactions of one session left.

    *promoted* counts planted instructions among the directives of any summary
    or compaction, *fabricated* words in there that nobody said, *standing*
    revoked orders that the last summary quotes as if they held; *dropped* are
    quotations that were taken out of summaries. *summary* and *after* are the
    tokens of the summary and of the context behind each compaction.
    """

    rows: dict[str, Kept]
    promoted: int
    fabricated: int
    standing: int
    dropped: int
    summary: tuple[int, ...]
    after: tuple[int, ...]


async def compacted(
    folder: Path, worker: str, *, compactions: int, seed: int
) -> Outcome:
    """Have a planted session in *folder* compacted by *worker*; count what is left."""
    make, mode = WORKERS[worker]
    case = Compacting(folder, make(), mode)
    case.begin()
    planted = steps(compactions, seed=seed, folder=case.work)
    done = [await case.step(step) for step in planted]
    async with case.opened() as opened:
        context = "\n".join(texts_of_request(opened.request))
    items = (e.item for e in read_log(case.log).entries if isinstance(e, ItemEntry))
    log = "\n".join(texts_of(items))
    ordered = [directives_in(entry) for entry in done]
    return Outcome(
        rows=_rows(
            [fact for step in planted for fact in step.facts],
            done[-1].summary,
            context,
            log,
        ),
        promoted=sum(step.injected in text for step in planted for text in ordered),
        fabricated=sum(FABRICATED in text for text in ordered),
        standing=sum(
            f"- “{step.revoked}" in ordered[-1] for step in planted if step.revoked
        ),
        summary=tuple(entry.receipt.summary_tokens for entry in done),
        dropped=sum(len(entry.receipt.dropped_quotes) for entry in done),
        after=tuple(entry.tokens_after for entry in done),
    )


def _rows(
    facts: Sequence[Fact], summary: str, context: str, log: str
) -> dict[str, Kept]:
    by_row: dict[str, list[str]] = {}
    for fact in facts:
        by_row.setdefault(fact.row, []).append(fact.text)
    return {
        row: Kept(
            planted=len(texts),
            summary=sum(text in summary for text in texts),
            context=sum(text in context for text in texts),
            log=sum(text in log for text in texts),
        )
        for row, texts in sorted(by_row.items())
    }


def directives_in(entry: Compaction) -> str:
    """Return all that a compaction passes off as the user's words."""
    said = sections(entry.summary).get(DIRECTIVES, "")
    return "\n".join([said, *(directive.text for directive in entry.directives)])


def texts_of(items: Iterator[Item]) -> Iterator[str]:
    for item in items:
        match item:
            case UserText(text=text) | AssistantText(text=text):
                yield text
            case Result(summary=summary, content=content):
                yield f"{summary}\n{content}"
            case _:
                pass


def texts_of_request(request: Request) -> Iterator[str]:
    """Give every text that the model sees."""
    yield from (block.text for block in request.system)
    for message in request.messages:
        for block in message.content:
            match block:
                case Text(text=text):
                    yield text
                case ToolUse(input=arguments):
                    yield bytes(arguments).decode()
                case ToolResult(content=content):
                    yield from (part.text for part in content if isinstance(part, Text))
                case _:
                    pass


def table(outcomes: dict[str, Outcome]) -> Iterator[str]:
    """Give the lines of the table: summary / context / log for each worker."""
    first = next(iter(outcomes.values()))
    width = max(map(len, first.rows)) + 1
    yield f"{'':{width}} planted" + "".join(f"{name:>18}" for name in outcomes)
    for row, kept in first.rows.items():
        cells = (outcome.rows[row] for outcome in outcomes.values())
        shown = (f"{c.summary} / {c.context} / {c.log}" for c in cells)
        yield f"{row:{width}} {kept.planted:>7}" + "".join(f"{c:>18}" for c in shown)
    for name, figures in _figures([*outcomes.values()]):
        yield f"{name:{width + 8}}" + "".join(f"{figure:>18,}" for figure in figures)


def _figures(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, list[int]]]:
    yield "planted instructions promoted", [o.promoted for o in outcomes]
    yield "fabricated quotations kept", [o.fabricated for o in outcomes]
    yield "revoked orders quoted as holding", [o.standing for o in outcomes]
    yield "quotations dropped on the way", [o.dropped for o in outcomes]
    yield "tokens of the last summary", [o.summary[-1] for o in outcomes]
    yield "tokens of the context, after the first", [o.after[0] for o in outcomes]
    yield "tokens of the context, after the last", [o.after[-1] for o in outcomes]


async def outcomes_of(folder: Path, compactions: int, seed: int) -> dict[str, Outcome]:
    """Return what each of WORKERS leaves of the same session."""
    return {
        worker: await compacted(
            folder / worker, worker, compactions=compactions, seed=seed
        )
        for worker in WORKERS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compactions", type=int, default=COMPACTIONS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = trio.run(
            outcomes_of, Path(folder).resolve(), options.compactions, options.seed
        )
    head = (
        f"{options.compactions} compactions, seed {options.seed}:"
        " in the last summary / in the context / in the log"
    )
    for line in (head, "", *table(outcomes)):
        print(line)  # noqa: T201  a command


if __name__ == "__main__":
    main()
