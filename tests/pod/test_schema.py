import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import pytest
import tomli

from pod.field_docs import field_docs
from pod.manifest import Manifest
from pod.manifest_errors import tables_of
from pod.manifest_reference import example_manifest
from pod.schema import manifest_schema
from tests.pod.test_manifest_errors import PROBES, converts, every_key

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Rule: TypeAlias = Mapping[str, Json]

TYPES: dict[Json, Callable[[object], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool)
    ),
}
UNCHECKED = {"$schema", "title", "description", "default", "examples", "definitions"}


def fits(value: object, rule: Json, definitions: Rule) -> bool:
    """Judge *value* by the keywords of draft-07 that the schema uses.

    Any other keyword is an error: then this has to learn it.
    """
    assert isinstance(rule, dict)
    return all(
        keyword in UNCHECKED
        or keyword_fits(keyword, argument, value, rule, definitions)
        for keyword, argument in rule.items()
    )


def keyword_fits(
    keyword: str, argument: Json, value: object, rule: Rule, definitions: Rule
) -> bool:
    match keyword, argument, value:
        case "$ref", str(), _:
            return fits(value, definitions[argument.rpartition("/")[2]], definitions)
        case "type", _, _:
            return TYPES[argument](value)
        case "enum", list(), _:
            return any(value is each or value == each for each in argument)
        case "anyOf", list(), _:
            return any(fits(value, option, definitions) for option in argument)
        case "items", dict(), list():
            return all(fits(each, argument, definitions) for each in value)
        case "properties", dict(), dict():
            known = [(value[key], argument[key]) for key in value if key in argument]
            return all(fits(each, under, definitions) for each, under in known)
        case "additionalProperties", False, dict():
            properties = rule["properties"]
            assert isinstance(properties, dict)
            return value.keys() <= properties.keys()
        case "required", list(), dict():
            return all(key in value for key in argument)
        case "pattern", str(), str():
            return re.search(argument, value) is not None
        case "minimum", int(), int() | float():
            return value >= argument
        case "maximum", int(), int() | float():
            return value <= argument
        case "exclusiveMinimum", int(), int() | float():
            return value > argument
        case "minItems", int(), list():
            return len(value) >= argument
        case (
            "items"
            | "properties"
            | "additionalProperties"
            | "required"
            | "pattern"
            | "minimum"
            | "maximum"
            | "exclusiveMinimum"
            | "minItems",
            _,
            _,
        ):
            return True  # a keyword for another type of value
        case _:
            raise AssertionError(f"unknown keyword {keyword}")


SCHEMA: dict[str, Json] = json.loads(manifest_schema())


def accepts(document: object) -> bool:
    definitions = SCHEMA["definitions"]
    assert isinstance(definitions, dict)
    return fits(document, SCHEMA, definitions)


def test_the_example_fits_with_and_without_its_comments() -> None:
    example = example_manifest()

    assert accepts(tomli.loads(example))
    assert accepts(tomli.loads(re.sub(r"(?m)^#(\w+ = |\[\[)", r"\1", example)))


def test_it_accepts_what_the_loader_accepts() -> None:
    assert accepts({})
    wrong: list[object] = [{"modl": {}}, {"model": {"idd": 1}}, {"model": 1}, {"id": 1}]
    assert not any(map(accepts, wrong))
    for table, key in every_key():
        for value in PROBES:
            document: dict[str, object] = {table: {key: value}}
            assert accepts(document) == converts(document), document


HOOKS: list[Json] = [
    [],
    [{"event": "run_end"}],
    [{"event": "run_end", "command": ["a", "b"]}, {"event": "session_tree"}],
    [{"event": "run_end", "command": []}],
    [{"event": "run_end", "command": "a"}],
    [{"event": "run_ends"}],
    [{"event": "run_end", "python": "a.py:f", "timeout": 0}],
    [{"event": "run_end", "on_failure": "stop"}],
    [{"event": "run_end", "tools": [""]}],
    [{"command": ["a"]}],
    [1],
    {"event": "run_end"},
]


@pytest.mark.parametrize("hooks", HOOKS)
def test_of_hooks_too_it_accepts_what_the_loader_accepts(hooks: Json) -> None:
    assert accepts({"hooks": hooks}) == converts({"hooks": hooks})


def parts(value: Json) -> Iterator[Json]:
    yield value
    inner: list[Json] = []
    if isinstance(value, dict):
        inner = list(value.values())
    if isinstance(value, list):
        inner = value
    for each in inner:
        yield from parts(each)


def test_it_is_draft_07_and_speaks_of_nothing_that_toml_lacks() -> None:
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert None not in parts(SCHEMA)
    assert "null" not in parts(SCHEMA)
    for part in parts(SCHEMA):
        # What stands beside a $ref is ignored in draft-07.
        assert not isinstance(part, dict) or "$ref" not in part or len(part) == 1


def test_every_key_has_its_docstring_and_its_default() -> None:
    defaults = Manifest()
    for name, table in tables_of(Manifest).items():
        definitions = SCHEMA["definitions"]
        assert isinstance(definitions, dict)
        definition = definitions[table.__name__]
        assert isinstance(definition, dict)
        properties = definition["properties"]
        assert isinstance(properties, dict)
        for key, rule in properties.items():
            assert isinstance(rule, dict)
            default = getattr(getattr(defaults, name), key)
            assert rule["description"] == field_docs(table)[key]
            assert rule.get("default") == (
                list(default) if isinstance(default, tuple) else default
            )
            assert ("examples" in rule) or default is not None
