from collections.abc import Iterator

import msgspec
from hypothesis import given, settings, strategies as st
from hypothesis.strategies import SearchStrategy

from pod.manifest import Manifest
from pod.manifest_errors import Problem, problems, tables_of

TABLES = tables_of(Manifest)


def test_every_problem_is_reported_at_once() -> None:
    document: dict[str, object] = {
        "name": "demo",
        "colour": 1,
        "modle": {"id": "x"},
        "pod": [{"name": "x"}],
        "cache": True,
        "model": {
            "id": "",
            "max-tokens": 1,
            "max_tokens": -3,
            "effort": "hihg",
            "thinking": True,
            "max_requests": 3,
            "zzz": 1,
        },
        "tools": {"builtin": ["read_fil", "bash", 3], "python": "tools.py:f"},
    }

    assert problems(document, Manifest) == [
        Problem(
            ("name",),
            "name: unknown key, and outside of any table; did you mean [pod] name?",
        ),
        Problem(
            ("colour",),
            "colour: unknown key, and outside of any table; tables are [pod], [model], [prompt], [limits], [retry], [cache], [tools], [permissions], [sandbox], [session], [compaction], [branch_summary], [prune], [[hooks]], [[listeners]]",
        ),
        Problem(("modle",), "[modle]: unknown table; did you mean [model]?"),
        Problem(
            ("pod",), "[pod]: an array is no table; write [pod] and its keys below it"
        ),
        Problem(
            ("cache",),
            "[cache]: true is no table; write [cache] and its keys below it",
        ),
        Problem(
            ("model", "id"),
            '[model] id: "" is not allowed; it takes a text of one line, not empty',
        ),
        Problem(
            ("model", "max-tokens"),
            "[model] max-tokens: unknown key; did you mean max_tokens?",
        ),
        Problem(
            ("model", "max_tokens"),
            "[model] max_tokens: -3 is not allowed; it takes a whole number from 1 to 10^12",
        ),
        Problem(
            ("model", "effort"),
            '[model] effort: "hihg" is not allowed; it takes "low", "medium", "high", "xhigh" or "max"; did you mean "high"?',
        ),
        Problem(
            ("model", "thinking"),
            '[model] thinking: true is not allowed; it takes "adaptive" or "off" or a'
            " whole number from 1 to 10^12",
        ),
        Problem(
            ("model", "max_requests"),
            "[model] max_requests: unknown key; did you mean [limits] max_requests?",
        ),
        Problem(
            ("model", "zzz"),
            "[model] zzz: unknown key; [model] has provider, id, max_tokens, effort, thinking, temperature, base_url, api_key_env, context_window, betas",
        ),
        Problem(
            ("tools", "builtin", 0),
            '[tools] builtin[0]: "read_fil" is not allowed; it takes "read_file", "write_file", "edit_file", "bash", "grep" or "glob"; did you mean "read_file"?',
        ),
        Problem(
            ("tools", "builtin", 2),
            '[tools] builtin[2]: 3 is not allowed; it takes "read_file", "write_file", "edit_file", "bash", "grep" or "glob"',
        ),
        Problem(
            ("tools", "python"),
            '[tools] python: "tools.py:f" is not allowed; it takes a list, each a file and a function in it, like tools.py:search; write ["tools.py:f"]',
        ),
    ]


def test_an_api_key_in_the_wrong_place_is_not_repeated() -> None:
    document: dict[str, object] = {"model": {"api_key_env": "sk-ant-secret"}}

    [problem] = problems(document, Manifest)

    assert problem.text == (
        '[model] api_key_env: "sk-…" is not allowed; it takes the name of an'
        " environment variable (never the key itself)"
    )


def test_long_values_and_keys_are_cut_short() -> None:
    document: dict[str, object] = {"model": {"k" * 999: 1, "base_url": "x" * 999}}

    assert [len(each.text) < 250 for each in problems(document, Manifest)] == [True] * 2


def test_a_number_too_long_to_write_is_no_crash() -> None:
    document: dict[str, object] = {
        "limits": {"timeout": 16**5000, "max_requests": -(16**5000)}
    }

    assert len(problems(document, Manifest)) == 2


scalars = (
    st.sampled_from(
        [
            "",
            "high",
            "adaptive",
            "5m",
            "bash",
            "a.py:f",
            "http://x",
            "a\nb",
            "\0",
            float("nan"),
            float("inf"),
        ]
    )
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.text(max_size=5)
    | st.datetimes()
    | st.dates()
    | st.times()
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2)
    ),
    max_leaves=4,
)


def documents() -> SearchStrategy[dict[str, object]]:
    def table(names: tuple[str, ...]) -> SearchStrategy[object]:
        keys = st.sampled_from(names) | st.text(max_size=5)
        return st.dictionaries(keys, values, max_size=2) | values

    known = {name: table(struct.__struct_fields__) for name, struct in TABLES.items()}
    return st.fixed_dictionaries({}, optional={**known, "modl": values})


@given(documents())
@settings(max_examples=300)
def test_no_problem_means_that_msgspec_converts_the_document(
    document: dict[str, object],
) -> None:
    found = problems(document, Manifest)

    assert (not found) == converts(document)
    assert all(each.text.isprintable() for each in found)


def test_each_value_of_each_key_is_judged_as_msgspec_judges_it() -> None:
    for table, key in every_key():
        for value in PROBES:
            document: dict[str, object] = {table: {key: value}}
            assert (not problems(document, Manifest)) == converts(document), document


PROBES: tuple[object, ...] = (
    *("", "x", "off", "max", "1h", "flush", "scripted", "glob", "a.py:f", "a\nb", "\0"),
    *(0, 1, -1, 10**13, 2**70, 0.0, 0.5, 1e9, float("nan"), float("inf"), True, False),
    *([], ["bash"], ["a.py:f"], ["x", 1], [[]], {}, {"a": 1}),
)


def every_key() -> Iterator[tuple[str, str]]:
    for table, struct in TABLES.items():
        for key in struct.__struct_fields__:
            yield table, key


def converts(document: dict[str, object]) -> bool:
    try:
        msgspec.convert(document, Manifest)
    except msgspec.ValidationError:
        return False
    return True
