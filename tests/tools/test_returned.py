import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tools.base import Image, ToolOutput
from tools.returned import LOOKED_AT, SUMMARY_LENGTH, output_of

PICTURE = Image("image/png", "aGk=")


@dataclass
class Row:
    day: datetime.date
    path: Path


class Odd:
    def __repr__(self) -> str:
        return "<odd>"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def deep() -> list[object]:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    return value


def circle() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("returned", "output"),
    [
        (None, ToolOutput("f: done")),
        ("", ToolOutput("f: returned an empty text")),
        (" \n ", ToolOutput("f: returned an empty text")),
        ("one\ntwo\n", ToolOutput("f: one", "one\ntwo\n")),
        ("\n\n one\n", ToolOutput("f: one", "\n\n one\n")),
        (b"caf\xc3\xa9\xff", ToolOutput("f: café\ufffd", "café\ufffd")),
        (memoryview(b"x"), ToolOutput("f: x", "x")),
        (7, ToolOutput("f: 7", "7")),
        (True, ToolOutput("f: true", "true")),
        ([1, "a", None], ToolOutput('f: [1,"a",null]', '[1,"a",null]')),
        ([], ToolOutput("f: []", "[]")),
        (
            Row(datetime.date(2026, 1, 2), Path("/a")),
            ToolOutput(
                'f: {"day":"2026-01-02","path":"/a"}',
                '{"day":"2026-01-02","path":"/a"}',
            ),
        ),
        (
            Odd(),
            ToolOutput("f: <odd>", "<odd>\n[the repr of a Odd, which is not all JSON]"),
        ),
        (
            {(1, 2): "\ud800"},
            ToolOutput(
                "f: {(1, 2): '\\ud800'}",
                "{(1, 2): '\\ud800'}\n[the repr of a dict, which is not all JSON]",
            ),
        ),
        (PICTURE, ToolOutput("f: 1 image (image/png)", images=(PICTURE,))),
        (
            ["a chart", PICTURE, PICTURE],
            ToolOutput(
                "f: 2 images (image/png, image/png)",
                "a chart",
                images=(PICTURE, PICTURE),
            ),
        ),
        (ToolOutput("mine", "text"), ToolOutput("mine", "text")),
    ],
)
def test_a_returned_value_becomes_an_output(
    returned: object, output: ToolOutput
) -> None:
    assert output_of("f", returned) == output


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (Broken, "<Broken instance at 0x"),
        (deep, "[[[[[[[...]]]]]]]"),
        (circle, "[[...]]"),
        (lambda: [Broken()], "[<Broken instance at 0x"),
    ],
)
def test_hostile_values_are_shown_somehow(
    make: Callable[[], object], shown: str
) -> None:
    output = output_of("f", make())

    assert (output.content or "").startswith(shown)


def test_a_tool_output_with_wrong_types_is_an_error_that_names_the_field() -> None:
    wrong = ToolOutput(summary=3)  # type: ignore[arg-type]  # what untyped code does

    with pytest.raises(TypeError, match=r"Expected `str`, got `int` - at `\$.summary`"):
        output_of("f", wrong)


def test_lists_are_taken_for_the_tuples_of_a_tool_output() -> None:
    output = ToolOutput("s", referenced_files=["/a"])  # type: ignore[arg-type]  # as above

    assert output_of("f", output) == ToolOutput("s", referenced_files=("/a",))


def test_a_huge_text_passes_with_a_short_summary() -> None:
    text = "x" * 100_000_000

    output = output_of("f", text)

    assert output.content is text
    assert output.summary == f"f: {'x' * SUMMARY_LENGTH}…"


def test_a_text_that_begins_with_much_blank_space_has_content() -> None:
    text = "\n" * (LOOKED_AT + 1) + "end"

    assert output_of("f", text).content == text


@given(st.text())
def test_any_text_gives_a_summary_of_one_short_line(text: str) -> None:
    summary = output_of("f", text).summary

    assert "\n" not in summary
    assert len(summary) <= SUMMARY_LENGTH + len("f: …")
