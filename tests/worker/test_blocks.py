import json

import pytest

from tests.worker.streams import (
    block,
    call,
    event,
    folded,
    opened,
    started,
    stopped,
    text,
    told_input,
)
from worker.client import ProviderError
from worker.items import AssistantText, FromModel, Opaque, Reasoning, ToolCall


def items_of(*parts: bytes, reason: str = "end_turn") -> tuple[FromModel, ...]:
    return folded(started() + b"".join(parts) + stopped(reason)).items


def made(arguments: str, *, incomplete: bool = False, extra: str = "") -> ToolCall:
    return ToolCall("toolu_1", "bash", arguments, "msg_1", incomplete, extra)


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        ' {"a" : [1, {"b": "\\u00e9 é"}],\n "a": 1e400}\t',
        '{"big": 123456789012345678901234567890}',
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_arguments_are_kept_as_they_came(arguments: str, size: int) -> None:
    pieces = [arguments[i : i + size] for i in range(0, len(arguments), size)]

    items = items_of(block(0, call(), *map(told_input, pieces)))

    assert items == (made(arguments),)


@pytest.mark.parametrize("pieces", [[], [""], ["", " "]])
def test_no_arguments_are_an_empty_object(pieces: list[str]) -> None:
    items = items_of(block(0, call(), *map(told_input, pieces)), reason="tool_use")

    assert items == (made("{}"),)


@pytest.mark.parametrize(
    "told", ['{"a": "b', '{"a": 1}}', "[]", '"x"', "null", "5", '{"a": 1,}', "{" * 9999]
)
def test_arguments_that_are_no_whole_object_are_incomplete(told: str) -> None:
    (item,) = items_of(block(0, call(), told_input(told)), reason="tool_use")

    assert item == made("{}", incomplete=True)


def test_no_piece_of_an_object_is_a_complete_call() -> None:
    arguments = '{"command": "rm -rf {}", "then": {"x": []}}'

    for cut in range(1, len(arguments)):
        (item,) = items_of(opened(0, call(), told_input(arguments[:cut])))
        assert item == made("{}", incomplete=True)


def test_a_call_that_the_limit_cut_off_before_its_arguments_is_incomplete() -> None:
    for cut_off in (opened(0, call()), block(0, call())):
        assert items_of(cut_off, reason="max_tokens") == (made("{}", incomplete=True),)
    first, second = items_of(block(0, call()), text(1, "x"), reason="max_tokens")
    assert first == made("{}")
    assert second == AssistantText("x", "msg_1")


def test_a_call_that_nothing_closed_counts_if_its_arguments_are_whole() -> None:
    assert items_of(opened(0, call(), told_input("{}"))) == (made("{}"),)
    assert items_of(opened(0, call())) == (made("{}", incomplete=True),)


def test_arguments_may_come_whole_with_the_start() -> None:
    start = call() | {"input": {"a": 1}, "caller": {"type": "direct"}}

    (item,) = items_of(block(0, start))

    assert item == made('{"a": 1}', extra='{"caller":{"type": "direct"}}')
    (item,) = items_of(block(0, start, told_input('{"b":2}')))
    assert item == made('{"b":2}', extra='{"caller":{"type": "direct"}}')


def test_text_keeps_its_citations_and_what_else_came_with_it() -> None:
    start: dict[str, object] = {"type": "text", "text": "a", "x": 1, "citations": None}
    cited = [{"type": "citations_delta", "citation": {"n": n}} for n in (1, 2)]

    (item,) = items_of(
        block(0, start, cited[0], {"type": "text_delta", "text": "b"}, cited[1])
    )

    extra = '{"x":1,"citations":[{"n": 1},{"n": 2}]}'
    assert item == AssistantText("ab", "msg_1", extra)
    (item,) = items_of(block(0, {"type": "text", "text": "", "citations": [0]}, *cited))
    extra = '{"citations":[0,{"n": 1},{"n": 2}]}'
    assert item == AssistantText("", "msg_1", extra)


def test_reasoning_is_signed_or_redacted() -> None:
    thought = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "a\u2028"},
        {"type": "thinking_delta", "thinking": "b"},
        {"type": "signature_delta", "signature": "Ab+/=="},
    )
    redacted = block(1, {"type": "redacted_thinking", "data": "Zz+/==", "x": 1})

    assert items_of(thought, redacted) == (
        Reasoning("a\u2028b", "msg_1", "m", signature="Ab+/=="),
        Reasoning("", "msg_1", "m", redacted="Zz+/==", extra='{"x":1}'),
    )


def test_an_unknown_block_is_kept_as_it_came() -> None:
    start: dict[str, object] = {"type": "orb", "x": [1, 2.50], "y": {"é": None}}

    (item,) = items_of(block(0, start))

    assert item == Opaque(json.dumps(start, ensure_ascii=False), "msg_1")


@pytest.mark.parametrize(
    ("start", "delta", "grown"),
    [
        ({"input": {}, "id": "i"}, told_input('{"q" :1}'), '"input":{"q" :1},"id":"i"'),
        ({"text": "a"}, {"type": "text_delta", "text": "b"}, '"text":"ab"'),
        ({}, {"type": "thinking_delta", "thinking": "b"}, '"thinking":"b"'),
        ({}, {"type": "signature_delta", "signature": "b"}, '"signature":"b"'),
        ({}, {"type": "citations_delta", "citation": 1}, '"citations":[1]'),
        (
            {"content": None, "encrypted_content": None},
            {"type": "compaction_delta", "content": "c", "encrypted_content": "e"},
            '"content":"c","encrypted_content":"e"',
        ),
        ({"input": {}}, told_input(""), '"input": {}'),
    ],
)
def test_known_deltas_fill_an_unknown_block(
    start: dict[str, object], delta: dict[str, object], grown: str
) -> None:
    (item,) = items_of(block(0, {"type": "orb", **start}, delta))

    assert isinstance(item, Opaque)
    assert json.loads(item.json) == json.loads(f'{{"type":"orb",{grown}}}')
    assert grown in item.json


def test_a_provider_tool_that_the_limit_cut_off_is_left_out() -> None:
    server: dict[str, object] = {"type": "server_tool_use", "id": "s", "input": {}}
    said = AssistantText("x", "msg_1")

    for cut_off in (
        opened(1, server),
        opened(1, server, told_input('{"q')),
        block(1, server, told_input('{"q')),
    ):
        assert items_of(text(0, "x"), cut_off, reason="max_tokens") == (said,)
    result = opened(1, {"type": "web_search_tool_result", "content": []})
    assert len(items_of(text(0, "x"), result, reason="max_tokens")) == 2


def test_a_provider_tool_with_half_an_input_in_the_middle_is_garbled() -> None:
    server = block(0, {"type": "server_tool_use", "input": {}}, told_input('{"q'))
    error = event("error", error={"type": "api_error", "message": "m"})

    with pytest.raises(ProviderError) as garbled:
        items_of(server, text(1, "x"))
    with pytest.raises(ProviderError) as broken:
        items_of(server, text(1, "x"), error)

    assert garbled.value.failure.kind == "garbled"
    assert broken.value.failure.kind == "server"
    assert broken.value.failure.partial == (AssistantText("x", "msg_1"),)
