import time
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from pod.codec import decode, encode
from pod.context import context
from pod.entries import (
    ASIDE,
    AnyEntry,
    BranchSummary,
    Clip,
    Custom,
    DeliveredEntry,
    HandedBack,
    InputEntry,
    ItemEntry,
    Known,
    Label,
    Leaf,
    NavigationFailed,
    Notice,
    Prune,
    RunEnd,
    RunStart,
    SessionInfo,
    Unknown,
)
from pod.scan import scan
from pod.tree import Tree, fork, fork_lines
from tests.pod.compaction.histories import SUMMARY
from tests.pod.logs import AT, chain, ids, random_tree, said, talk, written
from worker.items import UserText

seeds = st.integers(0, 100_000)


def texts(entries: Sequence[AnyEntry]) -> list[str]:
    return [
        entry.item.text
        for entry in entries
        if isinstance(entry, ItemEntry) and isinstance(entry.item, UserText)
    ]


def at(*entries: Known) -> list[Known]:
    """Number the entries; ids and parents are the caller's."""
    return [replace(entry, seq=n, at=AT) for n, entry in enumerate(entries, 1)]


def at_seq(first: int, *entries: Known) -> list[Known]:
    return [replace(entry, seq=n, at=AT) for n, entry in enumerate(entries, first)]


def test_the_leaf_is_the_last_entry() -> None:
    tree = Tree(talk(3))

    assert tree.leaf == "e3"
    assert [entry.id for entry in tree.path("e3")] == ["e1", "e2", "e3"]
    assert [entry.id for entry in tree.path(None)] == []
    assert Tree().leaf is None


def test_names_and_notices_hang_beside_the_path() -> None:
    log = at(
        replace(said("a"), id="e1"),
        Label(id="l1", parent="e1", target="e1", label="start"),
        SessionInfo(id="s1", parent="e1", name="work"),
        Notice(id="n1", parent="e1", message="torn"),
        replace(said("b"), id="e2", parent="e1"),
        SessionInfo(id="s2", parent="e2", name="more work"),
        Label(id="l2", parent="e2", target="e2", label="here"),
        Label(id="l3", parent="e2", target="e1", label=""),
    )

    tree = Tree(log)

    assert [entry.id for entry in tree.path(tree.leaf)] == ["e1", "e2"]
    assert tree.name == "more work"
    assert {id: label.label for id, label in tree.labels.items()} == {"e2": "here"}
    assert [entry.id for entry in tree.children("e1")] == ["l1", "s1", "n1", "e2"]


def test_a_navigation_survives_a_restart() -> None:
    log = [*talk(3), *at(Leaf(id="x", parent="e3", target="e1"))]

    assert Tree(log).leaf == "e1"
    assert (
        Tree([*log, Leaf(seq=5, id="y", parent="e1", at=AT, target=None)]).leaf is None
    )


def test_a_navigation_to_nowhere_moves_nothing() -> None:
    assert Tree([*talk(3), *at(Leaf(id="x", parent="e3", target="zz"))]).leaf == "e3"


def test_an_unknown_kind_is_on_the_path() -> None:
    line = b'{"type":"zz","seq":2,"id":"u","parent":"e1","at":"now"}'
    tree = Tree([*talk(1), decode(line)])

    assert tree.leaf == "u"
    assert [type(entry) for entry in tree.path("u")] == [ItemEntry, Unknown]


def test_a_damaged_log_still_has_a_tree() -> None:
    log = at(
        replace(said("cycle"), id="a", parent="b"),
        replace(said("cycle"), id="b", parent="a"),
        replace(said("itself"), id="c", parent="c"),
        replace(said("orphan"), id="d", parent="zz"),
        replace(said("root"), id="e"),
        replace(said("twice"), id="e", parent="a"),
    )

    tree = Tree(log)

    assert [e.id for e in tree.path("a")] == ["b", "a"]
    assert [e.id for e in tree.path("c")] == ["c"]
    assert [e.id for e in tree.path("d")] == ["d"]
    assert [e.id for e in tree.children(None)] == ["d", "e"]
    assert texts([tree["e"]]) == ["root"]
    with pytest.raises(KeyError):
        tree.path("zz")


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_every_path_runs_from_a_root_to_its_entry(seed: int) -> None:
    entries = random_tree(Random(seed), 40)
    tree = Tree(entries)

    for entry in entries:
        path = tree.path(entry.id)

        assert path[0].parent is None
        assert path[-1] is entry
        assert [e.parent for e in path[1:]] == [e.id for e in path[:-1]]
    assert sum(len(tree.children(e.id)) for e in entries) + len(
        tree.children(None)
    ) == len(entries)


def is_waited_for(entry: AnyEntry, tree: Tree, path: Sequence[AnyEntry]) -> bool:
    """Whether a fork keeps it: not an input that was delivered behind the leaf."""
    here = [e.inputs for e in path if isinstance(e, DeliveredEntry)]
    return (
        not isinstance(entry, InputEntry)
        or entry.input not in tree.delivered
        or any(entry.input in inputs for inputs in here)
    )


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_a_fork_is_its_path_under_new_ids(seed: int) -> None:
    random = Random(seed)
    entries = random_tree(random, 40)
    tree = Tree(entries)
    leaf = random.choice([None, *(e.id for e in entries)])
    new = ids()

    forked = fork(entries, leaf, lambda: next(new))

    path = [e for e in tree.path(leaf) if not isinstance(e, ASIDE)]
    path = [e for e in path if is_waited_for(e, tree, path)]
    copy = Tree(forked)
    kept = [e for e in forked if not isinstance(e, ASIDE)]
    assert texts(copy.path(copy.leaf)) == texts(path)
    assert kept == copy.path(copy.leaf)
    assert [type(e) for e in kept] == [type(e) for e in path]
    labels = {e.seq: tree.labels[e.id].label for e in path if e.id in tree.labels}
    names = {new.id: old.seq for old, new in zip(path, kept, strict=True)}
    assert {names[id]: e.label for id, e in copy.labels.items()} == labels
    assert not {e.id for e in forked} & {e.id for e in entries}
    assert scan([written(forked)]).damage == ()


def test_a_fork_carries_every_reference_along() -> None:
    log = chain(
        RunStart(run="e1", model="m"),
        InputEntry(input="i1", text="a", run="e1"),
        said("a"),
        DeliveredEntry(inputs=("i1", "e2"), run="e1"),
        Label(target="e3", label="x"),
        RunEnd(outcome="finished", reason="", exit_code=0, run="e1"),
        Custom(kind="k", json='{"e1":"e1"}'),
    )
    log[5] = replace(log[5], parent="e4")

    new = ids()

    assert fork(log, "e7", lambda: next(new)) == chain(
        RunStart(id="n1", run="n1", model="m"),
        InputEntry(id="n2", parent="n1", input="i1", text="a", run="n1"),
        replace(said("a"), id="n3", parent="n2"),
        DeliveredEntry(id="n4", parent="n3", inputs=("i1", "n2"), run="n1"),
        Label(id="n5", parent="n3", target="n3", label="x"),
        RunEnd(
            id="n6", parent="n4", outcome="finished", reason="", exit_code=0, run="n1"
        ),
        Custom(id="n7", parent="n6", kind="k", json='{"e1":"e1"}'),
    )


def test_a_fork_maps_what_compactions_prunes_and_clips_refer_to() -> None:
    """Fastagent PR #401: ids that are minted anew, and references that are not."""
    log = chain(
        said("a"),
        said("b"),
        Prune(entries=("e1", "e2"), tokens=(1, 2), saved=3),
        Clip(entry="e2", text="x"),
        replace(
            SUMMARY,
            first_kept="e2",
            compacted_from="e4",
            dropped_reasoning=("e1",),
        ),
    )

    new = ids()
    forked = fork(log, "e5", lambda: next(new))

    assert context(forked) == context(log)
    assert forked[2:] == [
        replace(
            Prune(entries=("n1", "n2"), tokens=(1, 2), saved=3),
            seq=3,
            id="n3",
            parent="n2",
            at=AT,
        ),
        replace(Clip(entry="n2", text="x"), seq=4, id="n4", parent="n3", at=AT),
        replace(
            SUMMARY,
            first_kept="n2",
            compacted_from="n4",
            dropped_reasoning=("n1",),
            seq=5,
            id="n5",
            parent="n4",
            at=AT,
        ),
    ]


def test_in_a_fork_a_branch_summary_names_the_leaf_of_the_session_before() -> None:
    """That branch is not in the fork; were it, it would have another id."""
    log: list[AnyEntry] = list(chain(said("a"), said("b")))
    log += at_seq(
        3,
        Leaf(id="x", parent="e2", target="e1"),
        BranchSummary(id="s1", parent="e1", from_id="e2", summary="b"),
        BranchSummary(id="s2", parent="s1", from_id="s1", summary="c"),
        NavigationFailed(
            id="f", parent="s2", target="e2", code="cancelled", message="m"
        ),
    )

    new = ids()
    forked = fork(log, "s2", lambda: next(new))

    assert forked == [
        replace(said("a"), seq=1, id="n1", at=AT),
        *at_seq(
            2,
            BranchSummary(id="n2", parent="n1", from_id="e2", summary="b"),
            BranchSummary(id="n3", parent="n2", from_id="n2", summary="c"),
        ),
    ]
    assert context(forked) == context(Tree(log).path("s2"))


def test_children_of_what_a_fork_leaves_out_keep_their_ancestors() -> None:
    """pi#5669: a log in which an entry hangs from a label."""
    log = chain(
        said("a"), Label(target="e1", label="x"), Notice(message="!"), said("b")
    )

    new = ids()
    forked = fork(log, "e4", lambda: next(new))

    assert texts(Tree(forked).path(Tree(forked).leaf)) == ["a", "b"]


def test_an_input_waits_until_it_is_delivered_or_handed_back_on_whatever_branch() -> (
    None
):
    path = chain(
        InputEntry(input="i1", text="a"),
        InputEntry(input="i2", text="b"),
        InputEntry(input="i3", text="c"),
        DeliveredEntry(inputs=("i1", "elsewhere")),
        Leaf(target="e1"),
        HandedBack(inputs=("i3",), texts=("c",)),
    )

    assert list(Tree(path).waiting.values()) == [path[1]]


def test_an_input_that_was_delivered_behind_the_leaf_does_not_wait_in_a_fork() -> None:
    log = chain(
        said("a"),
        InputEntry(input="i1", text="b"),
        InputEntry(input="i2", text="c"),
        said("b"),
        DeliveredEntry(inputs=("i1",)),
    )

    new = ids()
    forked = fork(log, "e3", lambda: next(new))

    assert [e.input for e in forked if isinstance(e, InputEntry)] == ["i2"]


def test_a_fork_keeps_fields_of_later_versions() -> None:
    [entry] = talk(1)
    line = encode(entry)[:-2] + b',"later":[1.50]}\n'

    forked = list(fork_lines([(entry, line)], Tree([entry]), "e1", lambda: "n1"))

    assert forked == [line.replace(b"e1", b"n1")]


def test_before_a_message_lies_what_led_to_it() -> None:
    log = chain(
        said("a"),
        RunEnd(outcome="finished", reason="", exit_code=0),
        InputEntry(input="i", text="b"),
        RunStart(model="m"),
        said("b"),
        DeliveredEntry(inputs=("i",)),
        said("c"),
    )
    tree = Tree(log)

    assert [tree.before(f"e{n}") for n in (1, 2, 5, 7)] == [None, "e1", "e2", "e5"]


def test_a_deep_tree_needs_no_deep_stack() -> None:
    started = time.process_time()
    log = talk(50_000)
    tree = Tree(log)
    new = ids()

    assert len(tree.path("e50000")) == 50_000
    assert len(fork(log, "e50000", lambda: next(new))) == 50_000
    assert time.process_time() - started < 10
