import pytest

from pod.compaction.anchors import Anchors, anchors_of
from tests.makers import result, said, told, user
from worker.items import Item


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see src/main.rs:42-142.", Anchors(places=("src/main.rs:42-142",))),
        ("(a/b.py:7)", Anchors(places=("a/b.py:7",))),
        ("at http://localhost:8080 or 12:30", Anchors()),
        ("commit 4f2a91c, 1234567, abcdefg", Anchors(ids=("4f2a91c",))),
        ("PROJ-12 and #99 but not X-1", Anchors(ids=("PROJ-12", "#99"))),
        (
            "123e4567-e89b-12d3-a456-426614174000",
            Anchors(ids=("123e4567-e89b-12d3-a456-426614174000",)),
        ),
        ("12 ms, 3.5GB, 40%, 7 apples", Anchors(figures=("12 ms", "3.5GB", "40%"))),
        ("v1.2s and 10 msec", Anchors()),
    ],
)
def test_facts_are_known_by_their_shape(text: str, found: Anchors) -> None:
    assert anchors_of([said(text)]) == found


def test_errors_are_taken_from_tool_output_alone_the_last_line_first() -> None:
    output = "ok\nValueError:  bad\n  0 errors\nfatal: no\n3 failed"

    items: list[Item] = [said("an error in prose"), result("1", output)]

    assert anchors_of(items).errors == ("3 failed", "fatal: no", "ValueError: bad")


def test_the_newest_come_first_and_none_twice() -> None:
    items: list[Item] = [
        said("a.py:1 b.py:2"),
        user("c.py:3"),
        told("d.py:4"),
        said("b.py:2 e.py:5"),
    ]

    assert anchors_of(items).places == ("b.py:2", "e.py:5", "a.py:1")
    assert anchors_of(items, most=1).places == ("b.py:2",)


def test_of_a_long_text_the_two_ends_are_looked_at() -> None:
    text = f"a.py:1 {'x ' * 20_000} b.py:2 {'x ' * 20_000} c.py:3"

    assert anchors_of([result("1", text)]).places == ("a.py:1", "c.py:3")
