"""Files as nobody would write them: any tree, any order, any ids, any types."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.pod.importing import test_claude_code as cc, test_codex as codex
from tests.pod.importing.imports import Json
from tests.pod.importing.pi_makers import (
    AT,
    answer,
    call,
    compaction,
    header,
    message,
    placed,
    result,
    text,
    thinking,
    user,
)

IDS = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h", ""])
CALLS = st.sampled_from(["c1", "c2", "c3", "", "c|1"])
WORDS = st.sampled_from(["", "words", "\0", "a\ud800b", "\u2028", "x" * 300])


@st.composite
def pi_entries(draw: st.DrawFn) -> Json:
    """Return any entry of pi's, hanging from anywhere."""
    id = draw(IDS)
    parent = draw(st.none() | IDS)
    return placed(id, parent, draw(_pi_bodies()))


def own(kind: str, **fields: object) -> Json:
    """Return an entry of Pod's own, as an export writes it."""
    data = {"type": kind, "seq": 9, "id": "zz", "parent": None, "at": AT, **fields}
    return {"type": "custom", "customType": f"pod/{kind}", "data": data}


def _pi_bodies() -> st.SearchStrategy[Json]:
    parts = st.lists(
        st.one_of(
            st.builds(text, WORDS),
            st.builds(thinking, WORDS, st.sampled_from(["", "sig"])),
            st.builds(call, CALLS),
            st.just({"type": "odd"}),
        ),
        max_size=4,
    )
    stops = st.sampled_from(["stop", "aborted", "error", "toolUse"])
    answers = st.builds(
        lambda parts, stop: answer(*parts, stop=stop, errorMessage="e"), parts, stops
    )
    kept = st.builds(
        lambda words, first: compaction(words, firstKeptEntryId=first), WORDS, IDS
    )
    summaries = st.builds(
        lambda words, left: {
            "type": "branch_summary",
            "timestamp": AT,
            "summary": words,
            "fromId": left,
        },
        WORDS,
        IDS,
    )
    labels = st.builds(
        lambda id: {"type": "label", "timestamp": AT, "targetId": id, "label": "x"}, IDS
    )
    others = st.sampled_from(
        [
            {"type": "model_change", "modelId": "m"},
            {"type": "reset_boundary"},
            own("prune", entries=["a", "b"], tokens=[1], saved=1),
            own("clip", entry="a", text="short"),
            own("run_start", model="m"),
            own("run_end", outcome="finished", reason="done", exit_code=0),
            own("input", input="i", text="x"),
            own("breaker", failures=3),
            own("item", item={"type": "tool_result", "call_id": "c1", "summary": ""}),
            own("prompt_change", system="obey"),
            own("leaf", target="a"),
            {"type": "custom", "customType": "pod/prune", "data": {"entries": ["a"]}},
            {"type": "custom_message", "customType": "k", "content": "told"},
            message({"role": "bashExecution", "command": "ls", "output": ""}),
            message({"role": "odd", "content": "x"}),
        ]
    )
    results = st.builds(result, CALLS, WORDS, is_error=st.booleans())
    return st.one_of(
        st.builds(user, WORDS),
        answers,
        results,
        results,
        kept,
        summaries,
        labels,
        others,
    )


@st.composite
def pi_files(draw: st.DrawFn) -> list[Json]:
    """Return a whole file: format 1, 2 or 3."""
    version = draw(st.sampled_from([None, 2, 3]))
    return [header(version), *draw(st.lists(pi_entries(), max_size=25))]


@st.composite
def claude_code_files(draw: st.DrawFn) -> list[Json]:
    """Return any lines of Claude Code's, hanging from anywhere."""
    blocks = st.one_of(
        st.builds(cc.said, WORDS),
        st.builds(cc.called, CALLS),
        st.just({"type": "thinking", "thinking": "hm", "signature": "s"}),
        st.just({"type": "odd_block"}),
    )
    parents = st.none() | IDS
    keys = st.sampled_from(["m1", "m2", "m3", ""])
    lines = st.one_of(
        st.builds(cc.user, IDS, parents, WORDS, isSidechain=st.booleans()),
        st.builds(cc.user, IDS, parents, WORDS, isCompactSummary=st.booleans()),
        st.builds(cc.part, IDS, parents, keys, blocks),
        st.builds(cc.answered, IDS, IDS, CALLS, WORDS),
        st.builds(cc.boundary, IDS, IDS),
        st.builds(cc.line, IDS, parents, st.sampled_from(["progress", "system"])),
    )
    first = cc.user("first", None, "go")
    return [first, *draw(st.lists(lines, max_size=25))]


@st.composite
def codex_files(draw: st.DrawFn) -> list[Json]:
    """Return any lines of Codex's."""
    roles = st.sampled_from(["user", "assistant", "developer"])
    lines = st.one_of(
        st.builds(codex.message, roles, WORDS),
        st.builds(codex.call, CALLS, arguments=WORDS),
        st.builds(codex.output, CALLS, WORDS),
        st.just(codex.wrapped("compacted", message="so far")),
        st.just(codex.item("reasoning", summary=[], encrypted_content="x")),
    )
    return [codex.META, *draw(st.lists(lines, max_size=25))]


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def with_odd_fields(draw: st.DrawFn, lines: list[Json]) -> list[Json]:
    """Put values of any type in the place of some of the fields."""
    return [_odd(draw, line) if draw(st.booleans()) else line for line in lines]


def _odd(draw: st.DrawFn, line: Mapping[str, object]) -> Json:
    found = dict(line)
    name = draw(st.sampled_from(sorted(found)))
    inner = found[name]
    if isinstance(inner, dict) and inner and draw(st.booleans()):
        found[name] = _odd(draw, inner)
    else:
        found[name] = draw(VALUES)
    return found
