from collections import defaultdict
from typing import get_args

import tomli
from hypothesis import given, strategies as st

from pod.hooks.payloads import HookEvent
from pod.manifest import (
    HookTable,
    Manifest,
    ModelTable,
    PermissionsTable,
    PromptTable,
    ToolsTable,
)
from pod.merge import Source, merge
from pod.render_manifest import render
from tests.pod.test_toml_text import texts

lines = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
paths = lines.filter(lambda text: "\0" not in text)
manifests = st.builds(
    Manifest,
    model=st.builds(
        ModelTable,
        id=lines,
        max_tokens=st.integers(1, 10**12),
        thinking=st.sampled_from([None, "off", 4096]),
        temperature=st.none() | st.floats(0, 1),
        betas=st.lists(lines, max_size=2).map(tuple),
    ),
    prompt=st.builds(PromptTable, system=st.none() | texts, append=texts),
    tools=st.builds(ToolsTable, timeout=st.floats(1e-300, 31e6)),
    permissions=st.builds(
        PermissionsTable, read_roots=st.lists(paths, max_size=2).map(tuple)
    ),
    hooks=st.lists(
        st.builds(
            HookTable,
            event=st.sampled_from(get_args(HookEvent)),
            command=st.none() | st.lists(paths, min_size=1, max_size=2).map(tuple),
            on_failure=st.sampled_from([None, "block"]),
            tools=st.lists(lines, max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)


@given(manifests)
def test_what_is_printed_loads_as_the_same_manifest(manifest: Manifest) -> None:
    sources: defaultdict[str, Source] = defaultdict(Source)

    text = render(manifest, sources)

    assert merge(text.encode(), "again.toml", []).manifest == manifest


def test_every_value_says_where_it_comes_from() -> None:
    raw = b"[model]\nid = 'a'\n"
    merged = merge(raw, "my\npod.toml", ["model.max_tokens=5"])

    text = render(merged.manifest, merged.sources)

    assert text.startswith(
        "[pod]\n"
        'name = "pod"  # default\n'
        'description = ""  # default\n'
        "\n"
        "[model]\n"
        'provider = "anthropic"  # default\n'
        'id = "a"  # my\\npod.toml:2\n'
        "max_tokens = 5  # -c\n"
        "# unset: effort\n"
    )
    assert text.endswith("min_savings = 20_000  # default\n")
    assert tomli.loads(text)["model"]["id"] == "a"


def test_every_key_is_there() -> None:
    sources = {key: Source() for key in merge(None, "", []).sources}

    text = render(Manifest(), sources)

    keys = [line.removeprefix("# unset: ").split(" = ")[0] for line in text.split("\n")]
    assert [key for key in keys if key and key[0] != "["] == [
        key.split(".")[1] for key in sources
    ]
