"""What a field of a struct takes, in words.

Reads the annotations themselves: msgspec.inspect sorts the choices of a
Literal, and people should see them in their order.
"""

from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from msgspec import Meta, Struct

from pod.toml_text import toml_value


def describe(annotation: object) -> str:
    """Say what a field of this type takes, as the end of "it takes …"."""
    metas, bare = _unwrapped(annotation)
    for meta in metas:
        if meta.description:
            return meta.description
    if get_origin(bare) is Literal:
        return _joined(list(map(toml_value, get_args(bare))))
    if options := _options(bare):
        return _joined([describe(option) for option in options])
    if as_tables(bare):
        return "an array of tables"
    if item := item_type(bare):
        return f"a list, each {describe(item)}"
    if bare is bool:
        return "true or false"
    if bare is str:
        return "a text"
    if bare is int:
        return f"a whole number{_bounds(metas, is_whole=True)}"
    if bare is float:
        return f"a number{_bounds(metas, is_whole=False)}"
    if (table := as_table(bare)) is not None:
        return f"a table with {', '.join(table.__struct_fields__)}"
    return "a table"


def choices(annotation: object) -> tuple[str, ...]:
    """Return the fixed texts that a field of this type takes, in their order."""
    _, bare = _unwrapped(annotation)
    if get_origin(bare) is Literal:
        return tuple(get_args(bare))
    return sum((choices(option) for option in _options(bare)), ())


def takes_text(annotation: object) -> bool:
    """Whether some text may be a value of this type."""
    _, bare = _unwrapped(annotation)
    if get_origin(bare) is Literal or bare is str:
        return True
    return any(map(takes_text, _options(bare)))


def item_type(annotation: object) -> object | None:
    """Return the type of a list's items; None for what is no list."""
    _, bare = _unwrapped(annotation)
    if get_origin(bare) is tuple:
        item: object = get_args(bare)[0]
        return item
    return None


def examples(annotation: object) -> list[object]:
    """Return the example values that the type carries."""
    metas, _ = _unwrapped(annotation)
    return [value for meta in metas for value in meta.examples or ()]


def as_table(annotation: object) -> type[Struct] | None:
    """Return the struct, where the field is a table of its own."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return None


def as_tables(annotation: object) -> type[Struct] | None:
    """Return the struct of each, where the field is an array of tables."""
    item = item_type(annotation)
    return None if item is None else as_table(item)


def _unwrapped(annotation: object) -> tuple[list[Meta], object]:
    if get_origin(annotation) is not Annotated:
        return [], annotation
    bare, *extras = get_args(annotation)
    return [extra for extra in extras if isinstance(extra, Meta)], bare


def _options(bare: object) -> list[object]:
    if get_origin(bare) not in (Union, UnionType):
        return []
    return [option for option in get_args(bare) if option is not NoneType]


def _joined(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[:-1] else words)


def _bounds(metas: list[Meta], *, is_whole: bool) -> str:
    words = ""
    for meta in metas:
        if meta.ge is not None:
            words += f" from {toml_value(meta.ge)}"
        if meta.gt is not None:
            words += (
                f" from {toml_value(meta.gt + 1)}" if is_whole else f" above {meta.gt}"
            )
        if meta.le is not None:
            words += f" up to {toml_value(meta.le)}"
    return words
