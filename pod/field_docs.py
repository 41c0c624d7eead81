"""The docstrings of a struct's fields, read from its source.

Python keeps no docstring for an attribute, so that the text beside a field
would be lost to the schema and the docs.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache

from msgspec import Struct


@cache
def field_docs(struct: type[Struct]) -> dict[str, str]:
    """Return the docstring of each field of *struct* that has one, as one line.

    Fields of its bases included. Empty where the source is not shipped.
    """
    docs: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, Struct) and base is not Struct:
            docs.update(_own_docs(base))
    return docs


def table_doc(struct: type[Struct]) -> str:
    """Return the docstring of *struct* itself, as one line."""
    return _one_line(struct.__doc__ or "")


def _own_docs(struct: type[Struct]) -> Iterator[tuple[str, str]]:
    for node in _module(struct.__module__).body:
        if isinstance(node, ast.ClassDef) and node.name == struct.__name__:
            for field, below in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                    text = ast.literal_eval(below.value)
                    yield ast.unparse(field.target), _one_line(text)


@cache
def _module(name: str) -> ast.Module:
    try:
        source = inspect.getsource(sys.modules[name])
    except OSError:
        return ast.Module(body=[], type_ignores=[])
    return ast.parse(source)


def _one_line(text: str) -> str:
    return " ".join(text.split())
