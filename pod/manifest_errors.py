"""What is wrong with a manifest: all of it at once, each problem one line.

msgspec stops at the first error and knows no positions. Here every value is
converted by itself, by the types of the structs; there is no second set of
rules.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from pod.field_types import as_table, as_tables, choices, describe, item_type
from pod.key_text import SHOWN, label, shown_part
from pod.toml_positions import KeyPath
from pod.toml_text import quoted, toml_value


class ManifestError(Exception):
    """A manifest that cannot be used; *lines* say why, each for itself."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = list(lines)


class Problem(Struct, frozen=True):
    """One thing that is wrong with the value at *path*, or with its key."""

    path: KeyPath
    text: str


Tables = Mapping[str, type[Struct]]


def problems(document: Mapping[str, object], manifest: type[Struct]) -> list[Problem]:
    """Return everything in *document* that does not fit *manifest*.

    None at all means that msgspec converts the document.
    """
    tables, arrays = tables_of(manifest), arrays_of(manifest)
    found: list[Problem] = []
    for name, value in document.items():
        path = (name,)
        if name in tables:
            if isinstance(value, dict):
                found.extend(_table_problems(path, value, tables[name], tables))
            else:
                found.append(Problem(path, _no_table(name, value)))
        elif name in arrays:
            found.extend(_array_problems(path, value, arrays[name], tables))
        else:
            found.append(_unknown_at_top(name, value, tables, arrays))
    return found


def tables_of(manifest: type[Struct]) -> Tables:
    """Return the tables of a manifest by name, in their order."""
    tables = {field.name: as_table(field.type) for field in fields(manifest)}
    return {name: table for name, table in tables.items() if table is not None}


def arrays_of(manifest: type[Struct]) -> Tables:
    """Return the arrays of tables in a manifest by name: what each of them holds."""
    tables = {field.name: as_tables(field.type) for field in fields(manifest)}
    return {name: table for name, table in tables.items() if table is not None}


def _array_problems(
    path: KeyPath, value: object, struct: type[Struct], tables: Tables
) -> Iterator[Problem]:
    written = f"[[{'.'.join(map(shown_part, path))}]]"
    if not isinstance(value, list):
        text = f"{label(path)}: {_shown(value)} is no array of tables; write {written}"
        yield Problem(path, f"{text} and the keys of one below it, once for each")
        return
    for index, each in enumerate(value):
        at = (*path, index)
        if isinstance(each, dict):
            yield from _table_problems(at, each, struct, tables)
        else:
            text = f"{written}: {_shown(each)} is no table; write {written}"
            yield Problem(at, f"{text} and its keys below it")


def _table_problems(
    path: KeyPath, table: Mapping[str, object], struct: type[Struct], tables: Tables
) -> Iterator[Problem]:
    known = {field.name: field for field in fields(struct)}
    for key, value in table.items():
        at = (*path, key)
        if key in known:
            yield from _value_problems(at, value, known[key].type, tables)
        else:
            meant = _near(key, list(known))
            if len(path) == 1:
                meant += _elsewhere(str(path[0]), key, tables)
            hint = _did_you_mean(meant) or f"{label(path)} has {', '.join(known)}"
            yield Problem(at, f"{label(at)}: unknown key; {hint}")
    for name, field in known.items():
        if field.required and name not in table:
            text = f"{label(path)}: {name} is missing; it takes {describe(field.type)}"
            yield Problem(path, text)


def _value_problems(
    path: KeyPath, value: object, annotation: object, tables: Tables
) -> Iterator[Problem]:
    if (struct := as_tables(annotation)) is not None:
        yield from _array_problems(path, value, struct, tables)
        return
    item = item_type(annotation)
    if item is not None and isinstance(value, list):
        for index, each in enumerate(value):
            yield from _value_problems((*path, index), each, item, tables)
    elif not _converts(value, annotation):
        hint = ""
        if isinstance(value, str):
            hint = _did_you_mean(map(quoted, _near(value, choices(annotation))))
            if item is not None:
                hint = f"write [{_shown(value)}]"
        text = f"{_shown(value)} is not allowed; it takes {describe(annotation)}"
        yield Problem(path, "; ".join(filter(None, [f"{label(path)}: {text}", hint])))


def _converts(value: object, annotation: object) -> bool:
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError:
        return False
    return True


def _unknown_at_top(
    name: str, value: object, tables: Tables, arrays: Tables
) -> Problem:
    all_of_them = ", ".join([*map(_header, tables), *map(_array_header, arrays)])
    if isinstance(value, dict | list):
        meant = [
            _array_header(near) if near in arrays else _header(near)
            for near in _near(name, [*tables, *arrays])
        ]
        hint = _did_you_mean(meant) or f"tables are {all_of_them}"
        return Problem((name,), f"{label((name,))}: unknown table; {hint}")
    keys = {f.name for table in tables.values() for f in fields(table)}
    meant = [
        place
        for key in _near(name, sorted(keys))
        for place in _elsewhere("", key, tables)
    ]
    hint = _did_you_mean(meant) or f"tables are {all_of_them}"
    text = f"{shown_part(name)}: unknown key, and outside of any table; {hint}"
    return Problem((name,), text)


def _no_table(name: str, value: object) -> str:
    what = "an array" if isinstance(value, list) else _shown(value)
    return f"[{name}]: {what} is no table; write [{name}] and its keys below it"


def _elsewhere(table: str, key: str, tables: Tables) -> list[str]:
    """Return where else a key of this name stands."""
    return [
        label((other, key))
        for other, struct in tables.items()
        if other != table and key in struct.__struct_fields__
    ]


def _near(word: str, words: Sequence[str]) -> list[str]:
    """Return the one of *words* that was probably meant by *word*, if any."""
    plain = word[:SHOWN].lower().replace("-", "_")
    by_plain = {each.replace("-", "_"): each for each in words}
    return [by_plain[each] for each in get_close_matches(plain, by_plain, n=1)]


def _did_you_mean(meant: Iterable[str]) -> str:
    words = " or ".join(meant)
    return f"did you mean {words}?" if words else ""


def _header(table: str) -> str:
    return f"[{table}]"


def _array_header(array: str) -> str:
    return f"[[{array}]]"


def _shown(value: object) -> str:
    match value:
        case dict():
            return "a table"
        case list():
            return "a list"
        case str() if value.startswith("sk-"):
            return (
                '"sk-…"'  # looks like an API key: it must not reach a terminal or log
            )
        case str() if len(value) > SHOWN:
            return f"{quoted(value[:SHOWN])}…"
        case _:
            text = toml_value(value)
            return (
                text
                if len(text) <= SHOWN or isinstance(value, str)
                else f"{text[:SHOWN]}…"
            )
