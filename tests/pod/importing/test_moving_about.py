"""In a session that was imported one can move about, and fork it, as in one's own."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pod.branch_summary.content import content_of
from pod.branch_summary.summary import Summarized
from pod.compaction.file_operations import branch_details
from pod.context import context
from pod.entries import AnyEntry
from pod.errors import NavigationRefused
from pod.log import read_log
from pod.navigation import navigate
from pod.session import Session
from pod.store import Store
from pod.tree import Tree
from tests.corpus import corpus
from tests.pod.importing.imports import take, write_lines, wrongs
from tests.pod.importing.pi_makers import (
    answer,
    call,
    compaction,
    header,
    placed,
    result,
    text,
    thinking,
    user,
)
from worker.limits import Spent

MOST = 16
"""Places that are gone to in one session."""


class Counting:
    """Says how much of a branch it was given."""

    async def summarize(
        self,
        entries: Sequence[AnyEntry],
        *,
        spent: Spent,
        instructions: str = "",
        replace_instructions: bool = False,
    ) -> Summarized:
        content = content_of(entries, budget=4_000, count=len)
        return Summarized(
            text=f"{content.summarised} of {len(entries)}",
            details=branch_details(entries),
            summarised=content.summarised,
            left_out=content.left_out,
            model="m",
            seconds=0.0,
        )


def branching(folder: Path) -> Path:
    """Return a pi session: a tool loop, a compaction, and two ways on from it."""
    return write_lines(
        folder / "pi.jsonl",
        [
            header(),
            placed("u1", None, user("go")),
            placed("a1", "u1", answer(thinking("hm"), call("c1"), call("c2"))),
            placed("r1", "a1", result("c1")),
            placed("r2", "r1", result("c2")),
            placed("a2", "r2", answer(text("half"))),
            placed("u2", "a2", user("on")),
            placed("k", "u2", compaction("So far.", firstKeptEntryId="u2")),
            placed("a3", "k", answer(text("left"))),
            placed("u3", "k", user("other")),
            placed("a4", "u3", answer(call("c3"))),
            placed("r3", "a4", result("c3")),
            placed("a5", "r3", answer(text("right"))),
        ],
    )


FILES: dict[str, Callable[[Path], Path]] = {
    "made": branching,
    "small": lambda folder: corpus("sessions/pi/agent-sessions_pi-small.jsonl"),
    "large": lambda folder: corpus("sessions/pi/pi-mono_before-compaction.jsonl"),
}


@pytest.mark.parametrize("name", FILES)
async def test_every_entry_can_be_gone_to_and_all_stays_whole(
    tmp_path: Path, name: str
) -> None:
    done = take(FILES[name](tmp_path), tmp_path)
    ids = [entry.id for entry in read_log(done.path).entries]
    places = [None, *ids[:: max(len(ids) // MOST, 1)]]

    with Session.open(done.path, durability="flush") as session:
        for number, target in enumerate(places):
            try:
                await navigate(
                    session,
                    target,
                    summarize=number % 2 == 0,
                    summarizer=Counting(),
                )
            except NavigationRefused:  # nothing was said on that branch
                continue
            assert session.problems == []
            assert context(session.path_entries()) == list(session.items)
        leaf, items = session.leaf, list(session.items)

    assert wrongs(read_log(done.path).entries) == []
    with Session.open(done.path, durability="flush") as session:
        assert (session.leaf, list(session.items)) == (leaf, items)


@pytest.mark.parametrize("name", ["made", "small"])
def test_every_entry_can_be_forked_from(tmp_path: Path, name: str) -> None:
    done = take(FILES[name](tmp_path), tmp_path)
    tree = Tree(read_log(done.path).entries)

    for id in tree.ids():
        fork = Store(done.path.parent).fork(done.path, id)

        entries = read_log(fork).entries
        copy = Tree(entries)
        assert wrongs(entries) == []
        length = len(context(tree.path(id)))
        shown = context(copy.path(copy.leaf))
        assert shown[:length] == context(tree.path(id))
