from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct

from pod.field_types import choices, describe, examples, item_type, takes_text

Word = Annotated[str, Meta(description="a word")]
Mixed = Annotated[Literal["b", "a"] | bool | None, Meta(examples=["a"])]


class Pair(Struct):
    a: int
    b: int


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (str, "a text"),
        (bool, "true or false"),
        (int, "a whole number"),
        (Annotated[int, Meta(gt=0)], "a whole number from 1"),
        (Annotated[float, Meta(gt=0, le=20_000)], "a number above 0 up to 20_000"),
        (Annotated[float, Meta(ge=0)] | None, "a number from 0"),
        (Literal["b", "a", "c"], '"b", "a" or "c"'),
        (Mixed, '"b" or "a" or true or false'),
        (tuple[Word, ...], "a list, each a word"),
        (Pair, "a table with a, b"),
    ],
)
def test_a_type_in_words(annotation: object, words: str) -> None:
    assert describe(annotation) == words


def test_choices_keep_their_order() -> None:
    assert choices(Mixed) == ("b", "a")
    assert choices(int) == ()


def test_what_takes_text() -> None:
    assert [
        takes_text(t) for t in (Word, Mixed, Word | None, int, tuple[Word, ...])
    ] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_items_and_examples() -> None:
    assert item_type(tuple[Word, ...]) == Word
    assert item_type(Word) is None
    assert examples(Mixed) == ["a"]
