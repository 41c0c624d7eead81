"""The hooks of a run across compactions, and those of the compact worker's calls."""

from contextlib import closing
from pathlib import Path

import pytest

from pod.entries import Compaction, CustomMessage, RunEnd
from pod.events import HookFailed
from pod.hooks.payloads import PreLlmRequest, PreToolCall
from tests.pod.compaction.pods import FillingPod
from tests.pod.hooks.answering import Answering, hook
from worker.history import faults


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


async def test_a_request_is_asked_about_once_however_often_it_is_built(
    path: Path,
) -> None:
    asked = Answering()
    with closing(FillingPod(path, hooks=[hook("pre_llm_request", asked)])) as case:
        end = await case.pod.run("fetch them")

    requests = [p.request for p in asked.told if isinstance(p, PreLlmRequest)]
    assert len(case.compactions) > 0
    assert requests == list(range(1, len(requests) + 1))
    assert len(requests) == 13
    assert end.outcome == "finished"


async def test_what_hooks_add_is_measured_before_the_request_goes_out(
    path: Path,
) -> None:
    huge = {"context": ["word " * 18_000]}  # 22 500 tokens, the late limit
    asked = Answering(None, None, None, huge, None)
    with closing(FillingPod(path, hooks=[hook("pre_llm_request", asked)])) as case:
        end = await case.pod.run("fetch them")

    requests = [p.request for p in asked.told if isinstance(p, PreLlmRequest)]
    assert requests == list(range(1, len(requests) + 1))  # none is asked about again
    kinds = [type(entry) for entry in case.told]
    at = kinds.index(CustomMessage)
    assert Compaction in kinds[at : at + 4]
    assert faults(case.session.items) == []
    assert end.outcome == "finished"


async def test_the_calls_of_a_compact_worker_are_asked_about_as_its_own(
    path: Path,
) -> None:
    asked = Answering()
    hooks = [hook("pre_tool_call", asked), hook("post_tool_call", asked)]
    with closing(FillingPod(path, hooks=hooks)) as case:
        await case.pod.run("fetch them")

    calls = [p for p in asked.told if isinstance(p, PreToolCall)]
    assert len(case.compactions) > 0
    assert {p.name for p in calls if p.compact_worker} == {"write_summary"}
    assert {p.name for p in calls if not p.compact_worker} == {"fetch"}
    others = [p for p in asked.told if not isinstance(p, PreToolCall)]
    assert len(others) == sum(not p.compact_worker for p in calls)


async def test_a_compact_worker_that_is_denied_its_summary_leaves_it_to_the_next_rung(
    path: Path,
) -> None:
    no = {"stop": True, "message": "no summaries here"}
    hooks = [hook("pre_tool_call", no, tools=("write_summary",))]
    with closing(FillingPod(path, hooks=hooks)) as case:
        end = await case.pod.run("fetch them")

    assert end.outcome == "finished"
    assert {entry.mode for entry in case.compactions} == {"mechanical"}


async def test_a_hook_that_fails_in_a_run_is_an_event_of_it(path: Path) -> None:
    hooks = [hook("run_end", ValueError("x"), name="tell")]
    with closing(FillingPod(path, calls=1, hooks=hooks)) as case:
        await case.pod.run("fetch them")

    assert case.heard.of(HookFailed) == [HookFailed("run_end", "tell", "ValueError: x")]
    assert isinstance(case.told[-1], RunEnd)
