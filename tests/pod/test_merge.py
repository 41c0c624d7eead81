import pytest
from hypothesis import given, strategies as st

from pod.manifest import HookTable, Manifest
from pod.manifest_errors import ManifestError
from pod.merge import Merged, Source, merge
from pod.toml_positions import Position
from tests.pod.toml_texts import toml_texts


def refusal(raw: bytes | None, *overrides: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        merge(raw, "pod.toml", overrides)
    return caught.value.lines


def test_nothing_at_all_is_the_defaults() -> None:
    merged = merge(None, "", [])

    assert merged.manifest == Manifest()
    assert set(merged.sources.values()) == {Source()}
    assert merged == merge(b"", "pod.toml", [])


def test_overrides_stand_above_the_file_and_later_ones_above_earlier() -> None:
    raw = b"[model]\nid = 'a'\nmax_tokens = 5\n[limits]\ntimeout = 3\n"

    merged = merge(raw, "pod.toml", ["model.id=b", "model.id=c", "pod.name=n"])

    assert merged.manifest.model.id == "c"
    assert merged.manifest.model.max_tokens == 5
    assert merged.manifest.limits.timeout == 3.0
    assert merged.manifest.pod.name == "n"
    assert {k: v for k, v in merged.sources.items() if v != Source()} == {
        "model.id": Source("-c model.id=c"),
        "model.max_tokens": Source("pod.toml", Position(3, 1)),
        "limits.timeout": Source("pod.toml", Position(5, 1)),
        "pod.name": Source("-c pod.name=n"),
    }


def test_the_problems_of_file_and_overrides_come_together_in_order() -> None:
    raw = b"[model]\nidd = 1\n[cache]\nttl = '5h'\n[tools]\nbuiltin = ['bsh']\n"

    assert refusal(raw, "pod.nam=x", "limits={}", "retry.cap=0") == [
        "pod.toml:2:1: [model] idd: unknown key; did you mean id?",
        'pod.toml:4:1: [cache] ttl: "5h" is not allowed; it takes "5m" or "1h"',
        'pod.toml:6:12: [tools] builtin[0]: "bsh" is not allowed; it takes "read_file", "write_file", "edit_file", "bash", "grep" or "glob"; did you mean "bash"?',
        "-c pod.nam=x: [pod] nam: unknown key; did you mean name?",
        "-c limits={}: [limits] is a table: set its keys one by one, like -c limits.max_requests=…",
        "-c retry.cap=0: [retry] cap: 0 is not allowed; it takes seconds above 0, at most a year",
    ]


def test_problems_are_in_the_order_of_the_file_whatever_its_tables() -> None:
    raw = b"a.x = 1\n[model]\nb = 1\n[limits]\n[model.c]\n[limits.d]\n"

    assert [line.split(": ")[0] for line in refusal(raw)] == [
        "pod.toml:1:1",
        "pod.toml:3:1",
        "pod.toml:5:8",
        "pod.toml:6:9",
    ]


def test_a_file_that_is_no_toml_does_not_hide_a_wrong_override() -> None:
    assert refusal(b"x\n", "pod.nam=x") == [
        "pod.toml:1:2: not TOML: Expected '=' after a key in a key/value pair",
        "-c pod.nam=x: [pod] nam: unknown key; did you mean name?",
    ]


def test_an_override_does_not_hide_what_is_wrong_in_the_file() -> None:
    assert len(refusal(b"[limits]\ntimeout = 0", "limits.timeout=1")) == 1


def test_a_whole_table_inline_is_fine_in_a_file() -> None:
    merged = merge(b"model = {id = 'x'}", "pod.toml", [])

    assert merged.sources["model.id"] == Source("pod.toml", Position(1, 10))


def test_every_key_has_a_source_and_nothing_else_has() -> None:
    merged = merge(b"[tools]\nbuiltin = ['bash', 'grep']", "pod.toml", [])

    assert merged.sources.keys() == merge(None, "", []).sources.keys()


def test_sources_for_messages_and_for_comments() -> None:
    file = Source("pod.toml", Position(12, 3))
    override = Source("-c model.id=x")

    assert [s.place for s in (file, override, Source())] == [
        "pod.toml:12:3",
        "-c model.id=x",
        "default",
    ]
    assert [s.comment for s in (file, override, Source())] == [
        "pod.toml:12",
        "-c",
        "default",
    ]


def loads_or_says_why(raw: bytes, *overrides: str) -> Merged | list[str]:
    try:
        return merge(raw, "pod\x1b\n.toml", overrides)
    except ManifestError as error:
        lines = error.lines
    assert lines
    assert all(line.isprintable() for line in lines)
    return lines


@given(toml_texts)
def test_any_toml_is_loaded_or_refused_with_clear_lines(text: str) -> None:
    loads_or_says_why(text.encode())


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_loaded_or_refused_with_clear_lines(raw: bytes) -> None:
    loads_or_says_why(raw)


@given(st.text(st.characters(codec=None)), st.sampled_from(["", "model.id=", "a.b="]))
def test_any_override_is_taken_or_refused_with_clear_lines(text: str, key: str) -> None:
    loads_or_says_why(b"", key + text)


@pytest.mark.parametrize("depth", [50, 390, 400, 401, 5000])
def test_nesting_of_any_depth_gives_lines(depth: int) -> None:
    for key in ("pod.name", "tools.builtin", "x"):
        raw = f"{key} = {'[' * depth}{']' * depth}".encode()
        assert isinstance(loads_or_says_why(raw), list)
    tables = "model = " + "{a = " * depth + "1" + "}" * depth
    assert isinstance(loads_or_says_why(tables.encode()), list)


HOOKS = b"""\
[[hooks]]
event = "run_end"
command = ["a", "b"]

[[hooks]]
python = "h.py:f"
event = "pre_tool_call"
"""


def test_hooks_come_in_the_order_of_the_file_and_each_value_has_its_place() -> None:
    merged = merge(HOOKS, "pod.toml", ["pod.name=n"])

    assert merged.manifest.hooks == (
        HookTable(event="run_end", command=("a", "b")),
        HookTable(event="pre_tool_call", python="h.py:f"),
    )
    places = {key: s for key, s in merged.sources.items() if key.startswith("hooks")}
    assert places == {
        "hooks.0.event": Source("pod.toml", Position(2, 1)),
        "hooks.0.command": Source("pod.toml", Position(3, 1)),
        "hooks.0.python": Source(),
        "hooks.0.timeout": Source(),
        "hooks.0.on_failure": Source(),
        "hooks.0.tools": Source(),
        "hooks.1.event": Source("pod.toml", Position(7, 1)),
        "hooks.1.command": Source(),
        "hooks.1.python": Source("pod.toml", Position(6, 1)),
        "hooks.1.timeout": Source(),
        "hooks.1.on_failure": Source(),
        "hooks.1.tools": Source(),
    }


def test_what_is_wrong_with_a_hook_is_told_with_its_place() -> None:
    raw = b"""\
[[hooks]]
event = "run_ends"
comand = ["a"]
[[hooks]]
tools = ["bash", ""]
"""

    events = (
        '"session_before_compact", "session_compacting", "session_compact",'
        ' "session_before_tree", "session_tree", "pre_llm_request", "pre_tool_call",'
        ' "post_tool_call" or "run_end"'
    )
    assert refusal(raw, "hooks=[]", "hooks.0.event=run_end") == [
        (
            f'pod.toml:2:1: [[hooks]] event: "run_ends" is not allowed; it takes {events};'
            ' did you mean "run_end"?'
        ),
        "pod.toml:3:1: [[hooks]] comand: unknown key; did you mean command?",
        f"pod.toml:4:3: [[hooks]]: event is missing; it takes {events}",
        (
            'pod.toml:5:18: [[hooks]] tools[1]: "" is not allowed; it takes a text of one'
            " line, not empty"
        ),
        "-c hooks=[]: [[hooks]] is an array of tables: write it into the manifest",
        (
            "-c hooks.0.event=run_end: [[hooks]] is an array of tables: write it into the"
            " manifest"
        ),
    ]


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (
            b"[hooks]\nevent = 'run_end'",
            (
                "pod.toml:1:2: [hooks]: a table is no array of tables; write [[hooks]] and"
                " the keys of one below it, once for each"
            ),
        ),
        (
            b"hooks = [1]",
            (
                "pod.toml:1:10: [[hooks]]: 1 is no table; write [[hooks]] and its keys"
                " below it"
            ),
        ),
        (b"[[hook]]", "pod.toml:1:3: [hook]: unknown table; did you mean [[hooks]]?"),
    ],
)
def test_hooks_that_are_no_array_of_tables_are_refused(raw: bytes, line: str) -> None:
    assert refusal(raw) == [line]
