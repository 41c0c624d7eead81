import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st
from msgspec import UNSET, DecodeError, Raw

from worker import api
from worker.encode import decode_request, encode_count, encode_request

HI = api.Message("user", (api.Text("hi"),))


def request(*messages: api.Message) -> api.Request:
    return api.Request(model="m", max_tokens=100, system=(), messages=messages or (HI,))


def raw(told: object) -> Raw:
    return Raw(json.dumps(told, ensure_ascii=False).encode())


def test_a_whole_request_is_these_bytes() -> None:
    whole = api.Request(
        model="claude",
        max_tokens=1000,
        system=(api.Text("be brief", api.CacheControl()),),
        messages=(
            api.Message(
                "user", (api.Text("é"), api.Image(api.Base64("image/png", "QQ")))
            ),
            api.Message(
                "assistant",
                (
                    api.Thinking("hm", "sig"),
                    api.RedactedThinking("data"),
                    api.Opaque(Raw(b'{"type":"orb", "x": 1.50}')),
                    api.ToolUse("t", "ls", Raw(b'{ "a": 1 }')),
                ),
            ),
            api.Message(
                "user",
                (
                    api.ToolResult("t", (api.Text("no"),), is_error=True),
                    api.Text("so?", api.CacheControl("1h")),
                ),
            ),
        ),
        tools=(api.ToolSpec("ls", "lists", Raw(b'{"type": "object"}')),),
        thinking="adaptive",
        effort="high",
        temperature=1.0,
        betas=("a-beta",),
    )

    assert encode_request(whole).decode() == (
        '{"model":"claude","max_tokens":1000,"stream":true,"temperature":1.0,'
        '"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},'
        '"tools":[{"name":"ls","description":"lists","input_schema":{"type": "object"}}],'
        '"system":[{"type":"text","text":"be brief",'
        '"cache_control":{"type":"ephemeral"}}],"messages":['
        '{"role":"user","content":[{"type":"text","text":"é"},{"type":"image",'
        '"source":{"type":"base64","media_type":"image/png","data":"QQ"}}]},'
        '{"role":"assistant","content":['
        '{"type":"thinking","thinking":"hm","signature":"sig"},'
        '{"type":"redacted_thinking","data":"data"},{"type":"orb", "x": 1.50},'
        '{"type":"tool_use","id":"t","name":"ls","input":{ "a": 1 }}]},'
        '{"role":"user","content":[{"type":"tool_result","tool_use_id":"t",'
        '"content":[{"type":"text","text":"no"}],"is_error":true},'
        '{"type":"text","text":"so?",'
        '"cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}'
    )


def test_what_is_not_set_is_left_out() -> None:
    assert json.loads(encode_request(request(), stream=False)) == {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


def test_a_body_for_counting_has_no_max_tokens_and_no_stream() -> None:
    asked = api.Request("m", 100, (), (HI,), thinking=2048, temperature=1.0)

    body = encode_count(asked)

    assert json.loads(body) == {
        "model": "m",
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
    assert decode_request(body, counting=True).max_tokens == 0
    with pytest.raises(DecodeError, match="max_tokens"):
        decode_request(body)


cache = st.sampled_from([UNSET, api.CacheControl(), api.CacheControl("1h")])
inputs = st.dictionaries(st.text(max_size=5), st.integers() | st.text(), max_size=2)
texts = st.builds(api.Text, st.text(), cache)
images = st.builds(
    api.Image, st.builds(api.Base64, st.text(max_size=5), st.text(max_size=5)), cache
)
pads: list[Callable[[object], str]] = [json.dumps, lambda x: json.dumps(x, indent=2)]
raws = st.builds(lambda x, pad: Raw(pad(x).encode()), inputs, st.sampled_from(pads))
blocks = (
    texts
    | images
    | st.builds(api.Thinking, st.text(), st.text())
    | st.builds(api.RedactedThinking, st.text())
    | st.builds(api.ToolUse, st.text(), st.text(), raws, cache)
    | st.builds(
        api.ToolResult,
        st.text(),
        st.lists(texts | images, max_size=3).map(tuple),
        st.booleans(),
        cache,
    )
    | inputs.map(lambda told: api.Opaque(raw(told | {"type": "orb"})))
    | inputs.map(
        lambda told: api.Opaque(
            raw(told | {"type": "text", "text": "a", "citations": []})
        )
    )
    | inputs.map(
        lambda told: api.Opaque(
            raw(told | {"type": "tool_use", "id": "a", "name": "b", "caller": 1})
        )
    )
)
messages = st.builds(
    api.Message,
    st.sampled_from(["user", "assistant", "system"]),
    st.lists(blocks, max_size=4).map(tuple),
)
requests = st.builds(
    api.Request,
    model=st.text(),
    max_tokens=st.integers(0, 2**31),
    system=st.lists(texts, max_size=2).map(tuple),
    messages=st.lists(messages, max_size=4).map(tuple),
    tools=st.lists(st.builds(api.ToolSpec, st.text(), st.text(), raws), max_size=2).map(
        tuple
    ),
    thinking=st.sampled_from([None, "adaptive", "off", 1024]),
    effort=st.sampled_from([None, "low", "max"]),
    temperature=st.sampled_from([None, 0.0, 0.5, 1.0]),
)


@settings(max_examples=200, deadline=None)
@given(asked=requests, stream=st.booleans())
def test_decoding_is_the_inverse_of_encoding(asked: api.Request, stream: bool) -> None:
    body = encode_request(asked, stream=stream)

    assert decode_request(body) == asked
    assert encode_request(decode_request(body), stream=stream) == body
    json.loads(body)


@settings(max_examples=50, deadline=None)
@given(asked=requests, more=st.lists(messages, min_size=1, max_size=2))
def test_a_longer_history_begins_with_the_same_bytes(
    asked: api.Request, more: list[api.Message]
) -> None:
    longer = api.Request(
        model=asked.model,
        max_tokens=asked.max_tokens,
        system=asked.system,
        messages=(*asked.messages, *more),
        tools=asked.tools,
        thinking=asked.thinking,
        effort=asked.effort,
        temperature=asked.temperature,
    )

    short, long = encode_request(asked), encode_request(longer)

    assert long.startswith(short.removesuffix(b"]}"))


def test_a_cache_mark_changes_nothing_but_itself() -> None:
    marked = api.Message("user", (api.Text("hi", api.CacheControl()),))
    mark = b',"cache_control":{"type":"ephemeral"}'

    bodies = [encode_request(request(HI, HI)), encode_request(request(marked, HI))]

    assert bodies[0] == bodies[1].replace(mark, b"")
    assert bodies[0] != bodies[1]


def decoded(*content: object) -> tuple[api.Block, ...]:
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user"}]}
    told = json.dumps(body | {"messages": [{"role": "user", "content": list(content)}]})
    return decode_request(told.encode()).messages[0].content


def test_strings_stand_for_one_text_block() -> None:
    body = b"""{"model": "m", "max_tokens": 1, "system": "s", "messages":
        [{"role": "user", "content": "hi"}], "stream": true, "metadata": {}}"""

    assert decode_request(body) == api.Request("m", 1, (api.Text("s"),), (HI,))
    result = {"type": "tool_result", "tool_use_id": "t"}
    assert decoded(result | {"content": "x"}, result, result | {"content": ""}) == (
        api.ToolResult("t", (api.Text("x"),)),
        api.ToolResult("t"),
        api.ToolResult("t"),
    )


@pytest.mark.parametrize(
    "block",
    [
        {"type": "orb", "x": [1]},
        {"type": "text", "text": "a", "citations": []},
        {"type": "image", "source": {"type": "url", "url": "u"}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "document"}]},
    ],
)
def test_what_the_structs_cannot_hold_is_opaque(block: dict[str, object]) -> None:
    assert decoded(block) == (api.Opaque(raw(block)),)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"model": "m", "max_tokens": 1}',
        b'{"model": "m", "max_tokens": "1", "messages": []}',
        b'{"model": "m", "max_tokens": 1, "messages": [{"role": "x", "content": ""}]}',
        b'{"model": "m", "max_tokens": 1, "messages": [], "thinking": {"type": "x"}}',
        b'{"model": "m", "max_tokens": 1, "messages": [], "system": [{"type": "x"}]}',
    ],
)
def test_what_is_no_request_is_an_error(body: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_request(body)


@pytest.mark.parametrize(
    "block",
    [
        {},
        5,
        {"type": 5},
        {"type": "text"},
        {"type": "text", "text": None},
        {"type": "tool_use", "id": "t", "name": "n", "input": [1]},
        {"type": "tool_use", "id": "t", "name": "n"},
        {"type": "tool_result", "content": "x"},
        {"type": "image"},
        {
            "type": "text",
            "text": "",
            "cache_control": {"type": "ephemeral", "ttl": "x"},
        },
    ],
)
def test_a_block_of_the_wrong_shape_is_an_error(block: object) -> None:
    with pytest.raises(DecodeError):
        decoded(block)


def test_lone_surrogates_cannot_be_sent() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode_request(request(api.Message("user", (api.Text("\ud83d"),))))
