"""Holds values to a JSON Schema: the part of the language that our schemas use.

Raises UnknownKeyword for a word that it does not know, so that nothing passes unread.
"""

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Schema: TypeAlias = "dict[str, Json]"

ANNOTATIONS = {"title", "description", "default", "examples", "discriminator"}
TOP = {"$schema", "$id", "$defs"}
KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class UnknownKeyword(Exception):
    """A schema says something that nobody here looks at."""


def object_in(text: str | bytes) -> Schema:
    """Return the JSON object in *text*."""
    return _schema(json.loads(text))


def errors(value: Json, schema: Schema, root: Schema, at: str = "$") -> Iterator[str]:
    """Give what is wrong with *value*, with where it is."""
    for word, rule in schema.items():
        yield from _word(word, rule, value, schema, root, at)


def _word(
    word: str, rule: Json, value: Json, schema: Schema, root: Schema, at: str
) -> Iterator[str]:
    match word, rule:
        case "$ref", str():
            yield from errors(value, _resolved(rule, root), root, at)
        case "anyOf", list():
            found: list[list[str]] = [
                list(errors(value, _schema(each), root, at)) for each in rule
            ]
            if all(found):
                nearest = min(map(len, found))
                told = next(each for each in found if len(each) == nearest)
                yield f"{at}: none of {len(rule)}: " + "; ".join(told)
        case "const", _:
            if value != rule or isinstance(value, bool) != isinstance(rule, bool):
                yield f"{at}: {value!r} is not {rule!r}"
        case "enum", list():
            if value not in rule:
                yield f"{at}: {value!r} is none of {rule}"
        case "type", str():
            is_bool = isinstance(value, bool)
            if not isinstance(value, KINDS[rule]) or (is_bool and rule != "boolean"):
                yield f"{at}: {value!r} is no {rule}"
        case "minimum", int():
            if isinstance(value, int | float) and value < rule:
                yield f"{at}: {value} is below {rule}"
        case "pattern", str():
            if isinstance(value, str) and not re.search(rule, value):
                yield f"{at}: {value!r} does not match {rule}"
        case "required", list():
            if isinstance(value, dict):
                yield from (f"{at}: no {n}" for n in rule if n not in value)
        case "properties", dict():
            if isinstance(value, dict):
                for name, each in rule.items():
                    if name in value:
                        yield from errors(
                            value[name], _schema(each), root, f"{at}.{name}"
                        )
        case "items", dict():
            if isinstance(value, list):
                for index, each in enumerate(value):
                    yield from errors(each, rule, root, f"{at}[{index}]")
        case "additionalProperties", False:
            if isinstance(value, dict):
                known = _schema(schema.get("properties", {}))
                yield from (f"{at}: unknown {n}" for n in value if n not in known)
        case _ if word in ANNOTATIONS | TOP:
            pass
        case _:
            raise UnknownKeyword(f"{word}: {rule}")


def _resolved(ref: str, root: Schema) -> Schema:
    found: Json = root
    for part in ref.removeprefix("#/").split("/"):
        found = _schema(found)[part]
    return _schema(found)


def _schema(value: Json) -> Schema:
    assert isinstance(value, dict), value
    return value
