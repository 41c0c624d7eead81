import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import Raw

from tests.corpus import CORPUS, corpus
from tests.worker.streams import folded, naive_events
from worker.billing import Bill
from worker.usage import Usage

STREAMS = sorted((CORPUS / "sse_bodies").glob("*.sse"))


def bill(*told: object) -> Bill:
    made = Bill()
    for usage in told:
        made.add(Raw(json.dumps(usage).encode()))
    return made


def test_the_last_figure_told_counts_field_by_field() -> None:
    told = bill(
        {"input_tokens": 43, "cache_read_input_tokens": 7, "output_tokens": 1},
        {"input_tokens": 61, "output_tokens": 2, "cache_read_input_tokens": None},
    )

    assert told.usage == Usage(input=61, cache_read=7, output=2)
    assert told.context_tokens(has_server_tools=False) == 70


def test_cache_writes_are_told_by_how_long_they_stay() -> None:
    split = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 70}

    told = bill(
        {"cache_creation_input_tokens": 100, "cache_creation": split},
        {"cache_creation_input_tokens": 100, "output_tokens": 1},
    )

    fewer = {"cache_creation_input_tokens": 50}
    assert bill({"cache_creation": split}, fewer).usage == Usage(
        cache_write=50, cache_write_1h=50
    )
    whole = Usage(cache_write=100, cache_write_1h=70, output=1)
    assert told.usage == whole
    assert bill({"cache_creation": split, "output_tokens": 1}).usage == whole


def test_reasoning_and_searches_are_counted() -> None:
    told = bill(
        {"input_tokens": 1, "output_tokens": 1},
        {
            "output_tokens": 9,
            "output_tokens_details": {"thinking_tokens": 4},
            "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 5},
        },
    )

    assert told.usage == Usage(input=1, output=9, reasoning=4, web_searches=2)


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        {"input_tokens": 0, "output_tokens": 0},
        {"input_tokens": None, "cache_creation": None, "iterations": None},
        {"input_tokens": "many"},
        {"input_tokens": -1},
        [],
        "x",
    ],
)
def test_nothing_told_or_only_zeroes_is_unknown(told: object) -> None:
    assert bill(told).usage is None
    assert bill(told).context_tokens(has_server_tools=False) is None


def test_a_prompt_of_zero_tokens_is_not_believed() -> None:
    zeroes = {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 3}

    assert bill({"input_tokens": 17}, zeroes).usage == Usage(input=17, output=3)
    assert bill(zeroes, {"input_tokens": 17}).usage == Usage(input=17, output=3)
    moved = {"input_tokens": 0, "cache_read_input_tokens": 17}
    assert bill({"input_tokens": 17}, moved).usage == Usage(cache_read=17)


def iteration(kind: str, prompt: int, output: int) -> dict[str, object]:
    return {"type": kind, "input_tokens": prompt, "output_tokens": output}


def test_a_compaction_iteration_is_billed_and_is_not_the_context() -> None:
    told = bill(
        {"input_tokens": 23_000, "output_tokens": 1},
        {
            "input_tokens": 23_000,
            "output_tokens": 1_000,
            "iterations": [
                iteration("compaction", 180_000, 3_500),
                iteration("message", 23_000, 1_000),
            ],
        },
        {"output_tokens": 1_000},
    )

    assert told.usage == Usage(input=203_000, output=4_500)
    assert told.context_tokens(has_server_tools=False) == 24_000


def test_a_compaction_alone_leaves_the_context_unknown() -> None:
    told = bill(
        {"input_tokens": 0, "iterations": [iteration("compaction", 180_000, 3_500)]}
    )

    assert told.usage == Usage(input=180_000, output=3_500)
    assert told.context_tokens(has_server_tools=False) is None


def test_what_iterations_leave_out_is_not_lost() -> None:
    told = bill(
        {
            "input_tokens": 10,
            "cache_read_input_tokens": 90,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 2},
            "iterations": [iteration("message", 10, 5)],
        }
    )

    assert told.usage == Usage(input=10, cache_read=90, output=5, reasoning=2)


def test_sums_over_the_providers_own_tool_runs_are_not_the_context() -> None:
    told = bill({"input_tokens": 13_520, "output_tokens": 415})

    assert told.context_tokens(has_server_tools=True) is None
    assert told.context_tokens(has_server_tools=False) == 13_935


@pytest.mark.parametrize(
    ("name", "usage", "context"),
    [
        (
            "vercel-ai__anthropic-advisor-20250301.1",
            Usage(input=1051 + 2728 + 3676, output=35 + 3880 + 3356),
            3676 + 3356,
        ),
        (
            "pydantic-ai__test_anthropic_test_anthropic_advisor_tool_stream__0",
            Usage(input=1128 + 2543 + 1283, output=135 + 18 + 10, reasoning=47),
            1283 + 10,
        ),
        ("vercel-ai__anthropic-fallback", Usage(input=820, output=264), 676),
        ("vercel-ai__anthropic-message-delta-input-tokens", Usage(61, output=2), 63),
        (
            "vercel-ai__anthropic-code-execution-20260120-prompt-cache.1",
            Usage(input=6, cache_read=6289, cache_write=3337, output=198),
            None,
        ),
        ("anthropic-sdk-python__stream-b-fallback", Usage(31, output=547), 578),
    ],
)
def test_recorded_bills(name: str, usage: Usage, context: int | None) -> None:
    response = folded(corpus(f"sse_bodies/{name}.sse").read_bytes())

    assert response.usage == usage
    assert response.context_tokens == context


@pytest.mark.skipif(not STREAMS, reason="no corpus beside the project")
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_recorded_streams_without_iterations_are_billed_as_they_say(path: Path) -> None:
    last: dict[str, object] = {}
    for told in naive_events(path):
        parts = [told.get("message"), told]
        for part in parts:
            if isinstance(part, Mapping) and isinstance(part.get("usage"), Mapping):
                last |= part["usage"]
        if told["type"] == "message_stop":
            break
    else:
        return
    if "iterations" in last or "spliced" in path.name:
        return

    usage = folded(path.read_bytes()).usage

    assert usage is not None
    assert usage.input == last["input_tokens"]
    assert usage.cache_read == last.get("cache_read_input_tokens", 0)
    assert usage.cache_write == last.get("cache_creation_input_tokens", 0)
    assert usage.output == last["output_tokens"]
