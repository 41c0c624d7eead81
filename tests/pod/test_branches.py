"""Where a navigation leads, what it leaves behind, and how entries are named."""

import time
from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from pod.branches import Destination, LeftBehind, destination, find_entry, left_behind
from pod.entries import (
    ASIDE,
    CustomMessage,
    DeliveredEntry,
    InputEntry,
    ItemEntry,
    Label,
    Leaf,
    RunStart,
)
from pod.errors import AmbiguousEntry, EntryNotFound
from pod.tree import Tree
from tests.makers import said as answer, synthetic
from tests.pod.compaction.histories import SUMMARY, path_of
from tests.pod.logs import AT, chain, random_tree, said, talk
from worker.items import UserText

seeds = st.integers(0, 100_000)


def test_a_message_leads_before_it_and_what_led_in_to_it() -> None:
    log = chain(
        said("a"),
        InputEntry(input="i", text="b"),
        RunStart(model="m"),
        said("b"),
        DeliveredEntry(inputs=("i",)),
        CustomMessage(kind="k", text="c"),
    )
    tree = Tree(log)

    assert destination(tree, "e4") == Destination("e1", "b", "e4")
    assert destination(tree, "e6") == Destination("e4", "c", "e6")
    assert destination(tree, "e1") == Destination(None, "a", "e1")


def test_other_entries_lead_to_themselves() -> None:
    log = path_of(said("a"), answer("b"), synthetic(), SUMMARY, RunStart(model="m"))
    tree = Tree(log)

    for n in (2, 3, 4, 5):
        assert destination(tree, f"e{n}") == Destination(f"e{n}", "", f"e{n}")
    assert destination(tree, None) == Destination(None)


def test_what_lies_beside_the_path_stands_for_what_it_hangs_from() -> None:
    log = chain(answer_entry(), Label(target="e1", label="x"))
    log.append(replace(Leaf(target="e1"), seq=3, id="e3", parent="e2", at=AT))
    log.append(replace(Label(target="e1", label="y"), seq=4, id="e4", at=AT))
    tree = Tree(log)

    assert destination(tree, "e2") == Destination("e1", "", "e1")
    assert destination(tree, "e3") == Destination("e1", "", "e1")
    assert destination(tree, "e4") == Destination(None)


def answer_entry() -> ItemEntry:
    return ItemEntry(item=answer("b"))


def test_compactions_do_not_stop_the_walk() -> None:
    log = path_of(said("a"), answer("b"), SUMMARY, answer("c"), SUMMARY, answer("d"))
    tree = Tree(log)

    assert left_behind(tree, "e6", "e1") == LeftBehind("e1", log[1:])
    assert left_behind(tree, "e6", None) == LeftBehind(None, log)


def test_without_a_common_ancestor_all_of_it_is_left_behind() -> None:
    log = chain(said("a"), answer_entry())
    log.append(replace(said("other"), seq=3, id="r", at=AT))
    tree = Tree(log)

    assert left_behind(tree, "r", "e2") == LeftBehind(None, [log[2]])


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_what_is_left_behind_and_the_way_there_share_nothing(seed: int) -> None:
    random = Random(seed)
    tree = Tree(random_tree(random, 40))
    old = random.choice([None, *tree.ids()])
    new = random.choice([None, *tree.ids()])

    found = left_behind(tree, old, new)

    left = [entry.id for entry in found.entries]
    assert not set(left) & set(tree.path_ids(new))
    assert tree.path_ids(found.ancestor) + left == tree.path_ids(old)
    assert tree.path_ids(new)[: len(tree.path_ids(found.ancestor))] == tree.path_ids(
        found.ancestor
    )


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_every_entry_leads_somewhere_on_its_own_path(seed: int) -> None:
    tree = Tree(random_tree(Random(seed), 40))

    for id in tree.ids():
        place = destination(tree, id)

        assert place.leaf is None or place.leaf in tree.path_ids(id)
        if place.leaf is not None:
            assert not isinstance(tree[place.leaf], ASIDE)


def test_an_entry_is_found_by_id_label_or_beginning() -> None:
    log = chain(
        replace(said("a"), id="abc1"),
        replace(said("b"), id="abd2", parent="abc1"),
        Label(id="l1", parent="abd2", target="abd2", label="good"),
        Label(id="l2", parent="abd2", target="abc1", label="abd"),
        Label(id="l3", parent="abd2", target="abc1", label="abc1"),
    )
    tree = Tree(log)

    assert find_entry(tree, "abd2") == "abd2"
    assert find_entry(tree, "good") == "abd2"
    assert find_entry(tree, "abd") == "abd2", "the label was replaced"
    assert find_entry(tree, "abc1") == "abc1"
    assert find_entry(tree, "root") is None
    with pytest.raises(AmbiguousEntry, match="2 entries begin with ab: abc1, abd2"):
        find_entry(tree, "ab")
    for wrong in ("zz", ""):
        with pytest.raises(EntryNotFound):
            find_entry(tree, wrong)


def test_a_label_called_root_goes_before_the_root() -> None:
    tree = Tree(chain(said("a"), Label(target="e1", label="root")))

    assert find_entry(tree, "root") == "e1"


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(EntryNotFound, match="Entry zz not found"):
        destination(Tree(talk(2)), "zz")


def test_deep_and_damaged_trees_are_walked_without_recursion() -> None:
    """50,000 deep; a cycle, an orphan and an entry that hangs from itself."""
    log = talk(50_000)
    log += [
        replace(said("cycle"), seq=1, id="a", parent="b", at=AT),
        replace(answer_entry(), seq=1, id="b", parent="a", at=AT),
        replace(answer_entry(), seq=1, id="c", parent="c", at=AT),
        replace(InputEntry(input="i", text="t"), seq=1, id="d", parent="zz", at=AT),
        replace(said("x"), seq=1, id="e", parent="d", at=AT),
    ]
    tree = Tree(log)
    started = time.process_time()

    assert len(left_behind(tree, "e50000", None).entries) == 50_000
    assert left_behind(tree, "e50000", "e49999").ancestor == "e49999"
    assert destination(tree, "e50000").leaf == "e49999"
    assert destination(tree, "b") == Destination("b", "", "b")
    assert destination(tree, "c") == Destination("c", "", "c")
    assert destination(tree, "e") == Destination(None, "x", "e")
    assert left_behind(tree, "b", "c") == LeftBehind(None, tree.path("b"))
    assert isinstance(tree["a"], ItemEntry)
    assert isinstance(tree["a"].item, UserText)
    assert time.process_time() - started < 10
