"""A session's tree as lines of text."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from pod.cli.drawing import DEEPEST, MOST, draw
from pod.cli.sessions import entry_line
from pod.entries import (
    ASIDE,
    AnyEntry,
    BranchSummary,
    Label,
    Leaf,
    Notice,
    RunEnd,
)
from pod.tree import Tree
from tests.makers import call, result, said, user
from tests.pod.compaction.histories import SUMMARY, path_of
from tests.pod.logs import AT, chain, random_tree

HERE = "  <- the session stands here"


def lines(entries: Sequence[AnyEntry], *, everything: bool = False) -> list[str]:
    return list(draw(Tree(entries), entry_line, everything=everything))


def test_the_path_to_the_leaf_stands_at_the_margin() -> None:
    log = [
        *path_of(user("q1"), said("a1"), user("q2"), said("a2")),
        *(
            replace(entry, seq=n, parent=parent)
            for n, (entry, parent) in enumerate(
                [
                    (Leaf(id="x", target="e2", at=AT), "e4"),
                    (path_of(user("q3"))[0], "e2"),
                ],
                5,
            )
        ),
    ]
    log[-1] = replace(log[-1], id="e6")
    log += chain(
        BranchSummary(id="e7", parent="e6", from_id="e4", summary="Tried q2."),
        replace(path_of(said("a3"))[0], id="e8", parent="e7"),
        Label(id="l1", parent="e8", target="e3", label="first try"),
    )

    assert lines(log) == [
        "e1  user       q1",
        "e2  assistant  a1",
        "├─ e3  user       q2  [first try]",
        "│  e4  assistant  a2",
        "e6  user       q3",
        "e7  branch summary of e4: Tried q2.",
        f"e8  assistant  a3{HERE}",
    ]


def test_what_goes_on_from_the_leaf_is_drawn_as_branches() -> None:
    log = [
        *path_of(user("q1"), said("a1"), user("q2"), said("a2")),
        replace(Leaf(target="e2"), seq=5, id="x", parent="e4", at=AT),
    ]

    assert lines(log) == [
        "e1  user       q1",
        f"e2  assistant  a1{HERE}",
        "└─ e3  user       q2",
        "   e4  assistant  a2",
    ]


def test_before_everything_every_beginning_is_a_branch() -> None:
    log = [
        *path_of(user("q1")),
        replace(Leaf(target=None), seq=2, id="x", parent="e1", at=AT),
    ]

    assert lines(log) == [
        "root  <- the session stands here, before everything",
        "└─ e1  user       q1",
    ]
    assert lines([]) == ["root  <- the session stands here, before everything"]


def test_long_stretches_are_folded_and_the_last_word_stays() -> None:
    log = path_of(
        user("q"),
        *(item for n in range(9) for item in (call(f"c{n}"), result(f"c{n}"))),
        said("half"),
        SUMMARY,
        call("x"),
        result("x"),
        said("done"),
        RunEnd(outcome="finished", reason="done", exit_code=0),
    )

    assert lines(log) == [
        "e1  user       q",
        "·  9 calls, 9 results",
        "e20  assistant  half",
        "e21  compaction",
        "e22  call       bash {}",
        "e23  result     ran x",
        "e24  assistant  done",
        f"e25  run finished (done) after 0.0 s, 0 requests, 0 tokens{HERE}",
    ]
    assert len(lines(log, everything=True)) == 25


def test_many_prompts_are_folded_too() -> None:
    log = path_of(*(item for n in range(2_000) for item in (user(f"q{n}"), said("a"))))

    shown = lines(log)

    assert shown == [
        "·  2,000 user messages, 1,999 texts",
        f"e4000  assistant  a{HERE}",
    ]


def test_a_tree_that_is_still_too_long_shows_its_ends_and_the_leaf() -> None:
    """3,000 branches at one entry."""
    log = chain(path_of(user("q"))[0])
    log += [
        replace(path_of(said(f"a{n}"))[0], seq=n, id=f"s{n}", parent="e1", at=AT)
        for n in range(2, 3_002)
    ]
    log.append(replace(Leaf(target="s1500"), seq=3_002, id="x", parent="e1", at=AT))

    shown = lines(log)

    assert len(shown) <= MOST + 2
    assert shown[0] == "e1  user       q"
    assert [line for line in shown if line.endswith(HERE)] == [
        f"s1500  assistant  a1500{HERE}"
    ]
    assert sum("left out: --all gives them" in line for line in shown) == 1
    assert len(lines(log, everything=True)) == 3_001


@pytest.mark.parametrize("everything", [False, True])
def test_deep_nests_neither_recurse_nor_run_off_the_page(everything: bool) -> None:
    """Each entry branches off beside the one before, 5,000 levels in."""
    log: list[AnyEntry] = list(chain(path_of(user("q"))[0]))
    for n in range(2, 5_002):
        entry = path_of(said("a"))[0]
        log.append(replace(entry, seq=n, id=f"e{n}", parent=f"e{n // 2 * 2 - 2 or 1}"))
    log.append(replace(Leaf(target="e1"), seq=30_000, id="x", parent="e1", at=AT))

    shown = lines(log, everything=everything)

    assert max(map(len, shown)) < 3 * DEEPEST + 80


def test_what_hangs_from_a_label_is_drawn() -> None:
    """pi#5669: logs of another make."""
    log = chain(
        path_of(user("a"))[0],
        Label(target="e1", label="x"),
        Notice(message="beside"),
        replace(path_of(said("b"))[0], id="e4", parent="e2"),
    )

    assert lines(log) == [
        "e1  user       a  [x]",
        f"e4  assistant  b{HERE}",
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000))
def test_with_all_every_entry_of_the_tree_is_there_once(seed: int) -> None:
    log = random_tree(Random(seed), 40)
    tree = Tree(log)

    shown = lines(log, everything=True)

    drawn = [line.lstrip("│├└─ ").split()[0] for line in shown]
    there = [e.id for e in log if not isinstance(e, ASIDE) or tree.children(e.id)]
    root = ["root"] if tree.leaf is None else []
    assert sorted(drawn) == sorted(there + root)
