from collections.abc import Iterator

import tomli
from hypothesis import given, settings

from pod.toml_positions import (
    KeyPath,
    Position,
    Repetition,
    positions,
    repetition,
)
from tests.pod.toml_texts import toml_texts


def paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Every path of a parsed document."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))


def is_key(text: str, key: str) -> bool:
    """Whether *text* begins with *key*, bare or in quotes."""
    if text[0] in "\"'":
        ends = [at for at, each in enumerate(text) if at and each == text[0]]
        return any(parsed(f"{text[: end + 1]}=0") == {key: 0} for end in ends)
    rest = text.removeprefix(key)
    return rest != text and not (rest[0].isalnum() or rest[0] in "-_")


def parsed(text: str) -> dict[str, object] | None:
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError:
        return None


def text_at(text: str, position: Position) -> str:
    lines = text.split("\n")[position.line - 1 :]
    return "\n".join(lines)[position.column - 1 :]


@given(toml_texts)
def test_every_path_of_a_document_has_a_position_and_nothing_else_has(
    text: str,
) -> None:
    assert set(positions(text)) == set(paths(tomli.loads(text)))


@given(toml_texts)
@settings(max_examples=60)
def test_a_position_points_at_the_text_of_its_key(text: str) -> None:
    for path, position in positions(text).items():
        if isinstance(path[-1], str):
            assert is_key(text_at(text, position), path[-1]), (path, position)


@given(toml_texts)
@settings(max_examples=60)
def test_elements_of_an_array_stand_one_behind_the_other(text: str) -> None:
    found = positions(text)

    for path, position in found.items():
        *array, index = path
        if isinstance(index, int):
            before = (*array, index - 1) if index else tuple(array)
            assert found[before] < position or (
                index == 0 and found[before] == position
            )


def test_headers_dotted_keys_and_inline_values() -> None:
    text = (
        "# comment\n"
        'a.b."c d" = [1, {x = "q", y.z = 2}]\r\n'
        "[[hooks]]\n"
        "  event = '''\n"
        "[no] = 1'''\n"
        "[[hooks.rule]]\n"
        "[hooks.table]\n"
        "[[hooks]]\n"
        "at = 1979-05-27 07:32:00 # x = 1\n"
    )

    assert positions(text) == {
        ("a",): Position(2, 1),
        ("a", "b"): Position(2, 3),
        ("a", "b", "c d"): Position(2, 5),
        ("a", "b", "c d", 0): Position(2, 14),
        ("a", "b", "c d", 1): Position(2, 17),
        ("a", "b", "c d", 1, "x"): Position(2, 18),
        ("a", "b", "c d", 1, "y"): Position(2, 27),
        ("a", "b", "c d", 1, "y", "z"): Position(2, 29),
        ("hooks",): Position(3, 3),
        ("hooks", 0): Position(3, 3),
        ("hooks", 0, "event"): Position(4, 3),
        ("hooks", 0, "rule"): Position(6, 9),
        ("hooks", 0, "rule", 0): Position(6, 9),
        ("hooks", 0, "table"): Position(7, 8),
        ("hooks", 1): Position(8, 3),
        ("hooks", 1, "at"): Position(9, 1),
    }


def test_the_deepest_nesting_that_tomli_accepts_is_read() -> None:
    text = f"a = {'[' * 400}{']' * 400}"

    assert len(positions(text)) == 400


def test_a_repeated_key_is_found_with_its_first_place() -> None:
    text = "[model]\nid = 'a'\nmax_tokens = 1\nid = '''\n'''"

    assert repetition(text) == Repetition(
        ("model", "id"), Position(2, 1), Position(4, 1)
    )


def test_a_key_below_a_value_repeats_the_value() -> None:
    assert repetition("a = 1\na.b = 2") == Repetition(
        ("a",), Position(1, 1), Position(2, 1)
    )


def test_a_text_cut_inside_a_value_repeats_nothing() -> None:
    assert repetition("a = {x = 1, x") is None
