"""Hypothesis strategies: TOML documents with everything the grammar has."""

import json
from collections.abc import Sequence
from typing import Literal

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

_SCALARS = (
    "1",
    "0x1F",
    "1_000.5e3",
    "-inf",
    "true",
    "1979-05-27T07:32:00Z",
    "1979-05-27 07:32:00",
    "07:32:00",
    '""',
    "''",
    '"a]}#,\\"=\\\\"',
    "'[x] = {\"'",
    '""""""',
    '"""two\n# lines"""',
    '"""[x]\n"quoted"""""',
    '"""a \\\n   b\\""""',
    "'''it's\n[y] = 1''''",
)
_names = st.sampled_from(
    ["a", "b", "c-d", "1", "model", "", "a.b", "ü", 'q"', "it's", "\t", "#", "[x]", "="]
)
_blanks = st.sampled_from(["", " ", "\t "])
_breaks = st.sampled_from(["\n", "\n\n", " # [no] = {table\n", "\r\n", "\n \t# '''\n"])


@st.composite
def _keys(draw: DrawFn, name: str) -> str:
    ways = [json.dumps(name), json.dumps(name, ensure_ascii=False)]
    if "'" not in name and "\t" not in name:
        ways.append(f"'{name}'")
    if name in ("a", "b", "c-d", "1", "model"):
        ways.append(name)
    return draw(st.sampled_from(ways))


@st.composite
def _dotted(draw: DrawFn, path: Sequence[str]) -> str:
    dot = f"{draw(_blanks)}.{draw(_blanks)}"
    return dot.join([draw(_keys(name)) for name in path])


@st.composite
def _arrays(draw: DrawFn, values: SearchStrategy[str]) -> str:
    space = st.sampled_from(["", " ", "\n", " # ]\n "])
    items = [f"{draw(space)}{each}{draw(space)}" for each in draw(st.lists(values))]
    return f"[{draw(space)}{','.join(items)}]"


@st.composite
def _inline_tables(draw: DrawFn, values: SearchStrategy[str]) -> str:
    names = draw(st.lists(_names, unique=True, max_size=3))
    pairs = []
    for name in names:
        path = [name, *draw(st.lists(_names, max_size=1))]
        pairs.append(f"{draw(_dotted(path))} = {draw(values)}")
    return f"{{{draw(_blanks)}{', '.join(pairs)}{draw(_blanks)}}}"


_values = st.recursive(
    st.sampled_from(_SCALARS),
    lambda values: _arrays(values) | _inline_tables(values),
    max_leaves=6,
)


@st.composite
def _bodies(draw: DrawFn, path: tuple[str, ...] = ()) -> str:
    """Draw what stands in the table *path*, its sub-tables behind it."""
    own: list[str] = []
    below: list[str] = []
    kinds: list[Literal["value", "dotted", "table", "array"]]
    kinds = ["value", "dotted", "table", "array"] if len(path) < 2 else ["value"]
    for name in draw(st.lists(_names, unique=True, max_size=3)):
        equals = f"{draw(_blanks)}={draw(_blanks)}"
        match draw(st.sampled_from(kinds)):
            case "value":
                key = draw(_dotted([name]))
                own.append(f"{draw(_blanks)}{key}{equals}{draw(_values)}")
            case "dotted":
                for inner in draw(
                    st.lists(_names, unique=True, min_size=1, max_size=2)
                ):
                    key = draw(_dotted([name, inner]))
                    own.append(f"{key}{equals}{draw(_values)}")
            case "table":
                header = draw(_dotted((*path, name)))
                body = draw(_bodies((*path, name)))
                below.append(f"[{draw(_blanks)}{header}{draw(_blanks)}]\n{body}")
            case "array":
                for _ in range(draw(st.integers(1, 2))):
                    header = draw(_dotted((*path, name)))
                    body = draw(_bodies((*path, name)))
                    below.append(f"[[{draw(_blanks)}{header}]]\n{body}")
    return "".join(f"{line}{draw(_breaks)}" for line in [*own, *below])


toml_texts: SearchStrategy[str] = _bodies()
"""Documents that tomli accepts."""
