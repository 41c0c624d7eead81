from typing import Annotated

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import Meta, Struct

from tools.arguments import parse, schema_of
from tools.base import ToolError


class Change(Struct, frozen=True, forbid_unknown_fields=True):
    """One change."""

    old_text: Annotated[str, Meta(description="what is there")]
    title: str = ""


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="a file")]
    changes: Annotated[tuple[Change, ...], Meta(min_length=1)]
    limit: Annotated[int, Meta(ge=1)] = 2000
    glob: Annotated[str | None, Meta(description="which files")] = None


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A call without arguments."""


def complaint(arguments: bytes, type_: type[Struct] = Arguments) -> str:
    with pytest.raises(ToolError) as caught:
        parse(type_, arguments)
    return str(caught.value)


def test_a_schema_is_one_plain_object_without_references() -> None:
    schema = msgspec.json.decode(schema_of(Arguments))

    assert schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "a file"},
            "changes": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "description": "One change.",
                    "properties": {
                        "old_text": {
                            "type": "string",
                            "description": "what is there",
                        },
                        "title": {"type": "string", "default": ""},
                    },
                    "required": ["old_text"],
                    "additionalProperties": False,
                },
            },
            "limit": {"type": "integer", "minimum": 1, "default": 2000},
            "glob": {
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "description": "which files",
                "default": None,
            },
        },
        "required": ["path", "changes"],
        "additionalProperties": False,
    }


def test_good_arguments_are_parsed() -> None:
    parsed = parse(Arguments, b'{"path": "a", "changes": [{"old_text": "x"}]}')

    assert parsed == Arguments("a", (Change("x"),))


def test_no_bytes_at_all_are_an_empty_object() -> None:
    assert parse(Nothing, b" \n") == Nothing()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            b'{"file_path": "a", "changes": []}',
            (
                "there is no argument file_path (did you mean path?); missing: path. "
                "The arguments are: path, changes, limit, glob."
            ),
        ),
        (
            b"{}",
            "missing: path, changes. The arguments are: path, changes, limit, glob.",
        ),
        (
            b'{"path": 7, "changes": [{"old_text": "x"}]}',
            "path: expected a string, got 7",
        ),
        (
            b'{"path": "a", "changes": [{"old_text": "x"}], "limit": 0}',
            "limit: expected an integer >= 1, got 0",
        ),
        (
            b'{"path": "a", "changes": [{"old_text": "x"}], "glob": ["y"]}',
            'glob: expected a string or null, got ["y"]',
        ),
        (
            b'{"path": "a", "changes": [{"old_txt": "x"}]}',
            (
                "there is no argument old_txt in changes[0] (did you mean old_text?); "
                "missing in changes[0]: old_text. "
                "The arguments in changes[0] are: old_text, title."
            ),
        ),
        (
            b'{"path": "a", "changes": []}',
            "changes: expected an array of length >= 1, got []",
        ),
        (b'["a"]', 'the arguments must be one JSON object, not ["a"]'),
    ],
)
def test_an_error_says_which_argument_is_wrong_and_what_came(
    arguments: bytes, expected: str
) -> None:
    assert complaint(arguments) == expected


@pytest.mark.parametrize(
    "arguments", [b'{"path": ', b'{"path": "\\ud800"}', b'{"path": "\xff"}', b"{} {}"]
)
def test_broken_json_is_called_that(arguments: bytes) -> None:
    assert complaint(arguments).startswith("the arguments are not valid JSON: ")


def test_a_long_wrong_value_is_clipped() -> None:
    message = complaint(b'{"path": ["' + b"x" * 10_000 + b'"], "changes": []}')

    assert len(message) < 200


def test_a_call_without_arguments_says_so() -> None:
    message = complaint(b'{"a": 1}', Nothing)

    assert message == "there is no argument a. It takes none."


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_parsed_or_complained_about(arguments: bytes) -> None:
    with pytest.raises(ToolError, match=r"."):
        parse(Arguments, arguments)


def test_deep_nesting_is_complained_about() -> None:
    assert complaint(b'{"path": ' + b"[" * 100_000)
