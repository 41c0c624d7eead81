"""What a hook is told, to the letter."""

from typing import get_args

import msgspec
import pytest

from pod.hooks.payloads import AnyPayload, HookEvent, event_of
from tests.pod.hooks.samples import (
    BEFORE_COMPACT,
    BEFORE_TREE,
    COMPACTED,
    COMPACTING,
    NAVIGATED,
    POST_TOOL_CALL,
    PRE_LLM_REQUEST,
    PRE_TOOL_CALL,
    RUN_ENDED,
    SAMPLES,
)

AT = '"at":"2026-01-01T00:00:00.000Z"'
WRITTEN: list[tuple[AnyPayload, str]] = [
    (
        BEFORE_COMPACT,
        (
            '"session_before_compact","session":"s1","reason":"mid_turn",'
            '"will_retry":true,"mode":"worker","tokens_before":90100,'
            '"first_kept":"e9","instructions":"keep the names",'
            '"previous_summary":"","is_split_turn":true,"items":['
            '{"type":"user_text","text":"go"},'
            '{"type":"tool_call","call_id":"c","name":"bash","arguments":"{}",'
            '"response":"r"},'
            '{"type":"tool_result","call_id":"c","summary":"ok"}],'
            '"turn_prefix":[{"type":"assistant_text","text":"on it","response":"r2"}],'
            '"details":{"read_files":["/a"]},"entries":["e1","e2","e3","e4"]}'
        ),
    ),
    (
        COMPACTING,
        (
            '"session_compacting","session":"s1","compaction_id":"k1",'
            '"reason":"manual","will_retry":false,"mode":"worker",'
            '"instructions":"","previous_summary":"before",'
            '"items":[{"type":"user_text","text":"go"}],"turn_prefix":[]}'
        ),
    ),
    (
        COMPACTED,
        (
            '"session_compact","session":"s1","reason":"post_run",'
            f'"will_retry":false,"entry":{{"type":"compaction","seq":7,"id":"e7",'
            f'"parent":"e6",{AT},"compaction_id":"k1","reason":"post_run",'
            '"mode":"mechanical","summary":"short","first_kept":null,'
            '"compacted_from":"e6","tokens_before":100,"tokens_after":10},'
            '"from_hook":false}'
        ),
    ),
    (
        BEFORE_TREE,
        (
            '"session_before_tree","session":"s1","target":"e2","old_leaf":"e9",'
            '"common_ancestor":"e1","entries":["e3","e9"],"wants_summary":true,'
            '"instructions":"","replace_instructions":false,"label":"try 2"}'
        ),
    ),
    (
        NAVIGATED,
        (
            '"session_tree","session":"s1","old_leaf":"e9","new_leaf":"e10",'
            f'"entry":{{"type":"branch_summary","seq":10,"id":"e10","parent":"e2",{AT},'
            '"from_id":"e9","summary":"tried it"},"from_hook":true}'
        ),
    ),
    (
        PRE_LLM_REQUEST,
        (
            '"pre_llm_request","session":"s1","run":"r1","model":"m","request":3,'
            '"items":12,"tokens":45000,"post_run_threshold":80000,'
            '"turn_threshold":90000,"window":null}'
        ),
    ),
    (
        PRE_TOOL_CALL,
        (
            '"pre_tool_call","session":"s1","run":"r1","name":"bash",'
            '"call_id":"c1","arguments":{"command": "ls"},"compact_worker":false}'
        ),
    ),
    (
        POST_TOOL_CALL,
        (
            '"post_tool_call","session":"s1","run":"r1","name":"bash",'
            '"call_id":"c1","arguments":{"command": "ls"},"is_error":false,'
            '"summary":"exit code 0","content":"a\\nb","images":1}'
        ),
    ),
    (
        RUN_ENDED,
        (
            '"run_end","session":"s1","entry":{"type":"run_end","seq":9,"id":"e9",'
            f'"parent":"e8",{AT},"run":"r1","outcome":"finished","reason":"done",'
            '"exit_code":0,"text":"all done","requests":2}}'
        ),
    ),
]


@pytest.mark.parametrize(("payload", "written"), WRITTEN)
def test_a_payload_is_one_json_object_that_names_its_event(
    payload: AnyPayload, written: str
) -> None:
    json = msgspec.json.encode(payload)

    assert json.decode() == f'{{"event":{written}'
    assert msgspec.json.decode(json, type=AnyPayload) == payload


def test_there_is_one_payload_for_each_event() -> None:
    assert [event_of(payload) for payload in SAMPLES] == list(get_args(HookEvent))
    assert [type(payload) for payload in SAMPLES] == list(get_args(AnyPayload))
    tags = [payload.__struct_config__.tag for payload in SAMPLES]
    assert tags == list(get_args(HookEvent))
