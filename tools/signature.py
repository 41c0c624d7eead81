"""What a Python function says about itself: its arguments and its description."""

import inspect
import math
import operator
import typing
from collections.abc import Callable
from typing import Annotated

import docstring_parser
import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tools.arguments import Json
from tools.base import Call


class FunctionError(Exception):
    """A function cannot be a tool. The message is for the person who wrote it."""


class Signature(Struct, frozen=True):
    """A function as a tool sees it.

    *arguments* has a field for each parameter a model may give; one that is
    UNSET is left to the function's default. *call_parameters* are those that
    want the `tools.base.Call`.
    """

    description: str
    arguments: type[Struct]
    call_parameters: tuple[str, ...]


def read_signature(function: Callable[..., object]) -> Signature:
    """Read the signature, type hints and docstring of *function*.

    Raises FunctionError for what no JSON object can call.
    """
    _check_kind(function)
    description, described = _read_docstring(function)
    hints = _read_hints(function)
    fields: list[tuple[str, object] | tuple[str, object, object]] = []
    call_parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        _check_parameter(parameter)
        hint = hints[name]
        if hint is Call:
            call_parameters.append(name)
            continue
        _check_type(name, hint)
        fields.append(_field(parameter, hint, described.get(name)))
    arguments = msgspec.defstruct(
        function.__name__,
        typing.cast("list[tuple[str, type]]", fields),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return Signature(description, arguments, tuple(call_parameters))


def _check_kind(function: object) -> None:
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise FunctionError("it is a generator: return the whole answer, do not yield")
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        kind = "class" if inspect.isclass(function) else type(function).__name__
        raise FunctionError(f"it is no function but a {kind}: write a def around it")


def _check_parameter(parameter: inspect.Parameter) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise FunctionError(
            f"parameter {parameter} takes any number of arguments, which no schema "
            "can say: use a list or a dict"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise FunctionError(
            f"parameter {parameter.name} is positional-only, and a model gives "
            "arguments by name: take out the slash"
        )
    if parameter.annotation is inspect.Parameter.empty:
        raise FunctionError(
            f"parameter {parameter.name} has no type: annotate it, "
            f"{parameter.name}: str, say (typing.Any for any JSON)"
        )


def _read_hints(function: Callable[..., object]) -> dict[str, object]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # it evaluates the user's text
        raise FunctionError(f"an annotation cannot be resolved: {error}") from error


def _check_type(name: str, hint: object) -> None:
    try:
        schema = msgspec.json.schema(hint)
        msgspec.json.Decoder(typing.cast(type, hint))
    except Exception as error:  # it looks into the user's types
        reason = str(error).partition(". ")[0].partition("\n")[0]
        if "custom types" in reason:
            reason = "JSON has no such type"
        raise FunctionError(
            f"parameter {name} cannot be {_type_name(hint)}: {reason}. Use str, int, "
            "float, bool, list, dict, Literal, typing.Any, an Enum or a dataclass"
        ) from error
    if _contains_itself(schema):
        raise FunctionError(
            f"parameter {name} cannot be {_type_name(hint)}: the type contains itself"
        )


def _type_name(hint: object) -> str:
    """Name a type with its article."""
    name = hint.__name__ if isinstance(hint, type) else str(hint)
    return f"an {name}" if name[:1].lower() in tuple("aeio") else f"a {name}"


def _contains_itself(schema: Json) -> bool:
    """Whether references in *schema* go round in a circle; it cannot be inlined then."""
    assert isinstance(schema, dict)
    definitions = schema.pop("$defs", {})
    assert isinstance(definitions, dict)

    def reaches(value: Json, seen: frozenset[str]) -> bool:
        match value:
            case {"$ref": str(reference)}:
                name = reference.removeprefix("#/$defs/")
                return name in seen or reaches(definitions[name], seen | {name})
            case dict():
                return any(reaches(inner, seen) for inner in value.values())
            case list():
                return any(reaches(inner, seen) for inner in value)
            case _:
                return False

    return reaches(schema, frozenset())


def _field(
    parameter: inspect.Parameter, hint: object, description: str | None
) -> tuple[str, object] | tuple[str, object, object]:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name, _annotated(hint, description)
    if default is None:
        optional = operator.or_(hint, None)
        return parameter.name, _annotated(optional, description), None
    if _is_plain(default):
        return parameter.name, _annotated(hint, description), default
    unset = operator.or_(hint, UnsetType)
    return parameter.name, _annotated(unset, description), UNSET


def _is_plain(default: object) -> bool:
    """Whether a default can be shown in the schema as it is."""
    if type(default) is float:
        return math.isfinite(default)
    return type(default) in (str, int, bool)


def _annotated(hint: object, description: str | None) -> object:
    if description is None or _has_description(hint):
        return hint
    return Annotated[hint, Meta(description=description)]


def _has_description(hint: object) -> bool:
    return any(
        isinstance(meta, Meta) and meta.description is not None
        for meta in getattr(hint, "__metadata__", ())
    )


def _read_docstring(function: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """Return the description and those of the parameters."""
    text = inspect.getdoc(function) or ""
    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text, {}
    returns = parsed.returns.description if parsed.returns else None
    parts = (
        parsed.short_description,
        parsed.long_description,
        returns and f"Returns: {returns}",
    )
    described = {
        parameter.arg_name: parameter.description
        for parameter in parsed.params
        if parameter.description
    }
    return "\n\n".join(part for part in parts if part), described
