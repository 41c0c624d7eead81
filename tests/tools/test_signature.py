import enum
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from msgspec import Meta

from tools.arguments import Json, parse, schema_of
from tools.base import Call
from tools.signature import FunctionError, read_signature


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Point:
    x: int
    y: int


class Options(TypedDict):
    deep: bool


class Node(msgspec.Struct):
    children: list["Node"]


def schema(function: Callable[..., object]) -> Json:
    decoded: Json = msgspec.json.decode(schema_of(read_signature(function).arguments))
    return decoded


def test_types_defaults_and_docstring_make_the_schema() -> None:
    def search(
        query: str,
        limit: int = 10,
        kinds: list[str] = ["a"],  # noqa: B006  what users write
        *,
        size: Size = Size.SMALL,
        near: Point | None = None,
    ) -> str:
        """Search the index.

        Slow for short queries.

        Args:
            query: What to look for.
            limit: Most results.
            kinds: Which sorts.
            size: How large.
            near: Prefer what is here.

        Returns:
            One result per line.
        """
        return ""

    signature = read_signature(search)

    assert signature.description == (
        "Search the index.\n\nSlow for short queries.\n\nReturns: One result per line."
    )
    assert schema(search) == {
        "type": "object",
        "properties": {
            "query": {"description": "What to look for.", "type": "string"},
            "limit": {"description": "Most results.", "type": "integer", "default": 10},
            "kinds": {
                "description": "Which sorts.",
                "type": "array",
                "items": {"type": "string"},
            },
            "size": {"description": "How large.", "enum": ["large", "small"]},
            "near": {
                "description": "Prefer what is here.",
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {
                            "x": {"type": "integer"},
                            "y": {"type": "integer"},
                        },
                        "required": ["x", "y"],
                    },
                    {"type": "null"},
                ],
                "default": None,
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_a_description_in_the_annotation_comes_before_the_docstring() -> None:
    def f(a: Annotated[int, Meta(ge=1, description="Here.")]) -> None:
        """Do it.

        Args:
            a: There.
        """

    assert schema(f) == {
        "type": "object",
        "properties": {"a": {"description": "Here.", "type": "integer", "minimum": 1}},
        "required": ["a"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "text",
    [
        "Do it.\n\n:param a: The thing.",
        "Do it.\n\nParameters\n----------\na : int\n    The thing.",
    ],
)
def test_other_styles_of_docstring_are_read_too(text: str) -> None:
    def f(a: int) -> None: ...

    f.__doc__ = text

    signature = read_signature(f)

    assert signature.description == "Do it."
    assert '"The thing."' in schema_of(signature.arguments).decode()


def test_no_docstring_is_no_description() -> None:
    def f() -> None: ...

    assert read_signature(f).description == ""


def test_the_call_is_no_argument() -> None:
    def f(a: int, call: Call) -> None: ...

    signature = read_signature(f)

    assert signature.call_parameters == ("call",)
    assert signature.arguments.__struct_fields__ == ("a",)


def test_none_stands_for_a_default_of_none() -> None:
    def f(a: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013  users write it

    assert parse(read_signature(f).arguments, b'{"a": null}') is not None


def test_a_method_leaves_self_out() -> None:
    class Index:
        def find(self, word: str) -> str:
            return word

    assert read_signature(Index().find).arguments.__struct_fields__ == ("word",)


def test_a_decorated_function_keeps_its_signature() -> None:
    def twice(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def wrapper(*args: int, **kwargs: int) -> int:
            return 2 * function(*args, **kwargs)

        return wrapper

    @twice
    def f(number: int) -> int:
        """Double it."""
        return number

    signature = read_signature(f)

    assert signature.arguments.__struct_fields__ == ("number",)
    assert signature.description == "Double it."


@pytest.mark.parametrize(
    "hint",
    [
        str, int, float, bool, bytes, list, dict, None, Any, list[int], dict[str, Point],
        tuple[int, str], set[str], Literal["a", "b"], Size, Point, Options,
        int | str | None, Annotated[str, Meta(min_length=1)],
    ],
    ids=str,
)  # fmt: skip
def test_what_json_has_is_taken(hint: object) -> None:
    def f(a: str) -> None: ...

    f.__annotations__["a"] = hint

    assert read_signature(f).arguments.__struct_fields__ == ("a",)


def unannotated(a) -> None: ...  # type: ignore[no-untyped-def]  # the point here
def any_number(*words: str) -> None: ...
def any_options(**options: str) -> None: ...
def positional(a: str, /) -> None: ...
def path(where: Path) -> None: ...
def inner(a: list[Path]) -> None: ...
def unions(a: str | bytes) -> None: ...
def recursive(a: Node) -> None: ...
def unknown(a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821  the point here
def callback(a: Callable[[], int]) -> None: ...
def generator() -> Iterator[int]:
    yield 1


async def stream() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (unannotated, "parameter a has no type: annotate it, a: str, say"),
        (any_number, r"parameter \*words: str takes any number of arguments"),
        (any_options, r"parameter \*\*options: str takes any number of arguments"),
        (positional, "parameter a is positional-only"),
        (path, "parameter where cannot be a Path: JSON has no such type. Use str"),
        (
            inner,
            r"parameter a cannot be a list\[pathlib\.(_local\.)?Path\]: JSON has no such type",
        ),
        (unions, r"parameter a cannot be a str \| bytes: Type unions may not contain"),
        (recursive, "parameter a cannot be a Node: the type contains itself"),
        (unknown, "an annotation cannot be resolved: name 'Missing' is not defined"),
        (callback, "parameter a cannot be a .*Callable.*: JSON has no such type"),
        (generator, "it is a generator: return the whole answer"),
        (stream, "it is a generator: return the whole answer"),
        (Point, "it is no function but a class"),
        (functools.partial(path), "it is no function but a partial"),
        (len, "it is no function but a builtin_function_or_method"),
    ],
)
def test_what_no_json_can_call_is_refused(
    function: Callable[..., object], message: str
) -> None:
    with pytest.raises(FunctionError, match=message):
        read_signature(function)


def test_what_is_no_function_at_all_is_refused() -> None:
    with pytest.raises(FunctionError, match="it is no function but a str"):
        read_signature("f")  # type: ignore[arg-type]  # what load() may find
