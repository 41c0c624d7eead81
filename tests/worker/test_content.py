import struct
from base64 import b64encode

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import Raw
from msgspec.structs import replace

from prompts import load
from tests.makers import call, opaque, picture, said, thought
from tests.strategies import HOSTILE
from tools.base import Image
from worker import api
from worker.content import (
    IMAGE_BYTES,
    Media,
    clean,
    clean_json,
    kept_images,
    response_block,
    result_block,
    user_blocks,
)
from worker.items import Reasoning, ToolResult, UserText


@given(st.text(st.characters(codec=None)) | st.sampled_from(HOSTILE))
def test_clean_text_can_be_sent_and_stays_so(text: str) -> None:
    cleaned = clean(text)

    assert cleaned.encode().decode() == cleaned
    assert "\0" not in cleaned
    assert clean(cleaned) == cleaned


@given(st.text())
def test_well_formed_text_without_nuls_stays_as_it_is(text: str) -> None:
    text = text.replace("\0", "")

    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("\udfff", "\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("a\0b", "a\ufffdb"),
    ],
)
def test_what_json_cannot_carry_is_replaced(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize(
    ("json", "expected"),
    [
        ('{ "x" : 1.50 }', '{ "x" : 1.50 }'),
        ('{"x":"\\ud83d\\ude00"}', '{"x":"\\ud83d\\ude00"}'),
        ('{"x":"\\ud83d\\u0041"}', '{"x":"\\ufffd\\u0041"}'),
        ('{"x":"\\uDFFF"}', '{"x":"\\ufffd"}'),
        ('{"x":"\\u0000"}', '{"x":"\\ufffd"}'),
        ('{"x":"\\\\u0000 \\\\ud800"}', '{"x":"\\\\u0000 \\\\ud800"}'),
        ('{"x":"\\\\\\ud800"}', '{"x":"\\\\\\ufffd"}'),
        ("[1]", None),
        ("", None),
        ('{"x":', None),
        ('{"x":' + "[" * 100_000, None),
    ],
)
def test_json_keeps_its_bytes_but_for_what_the_api_refuses(
    json: str, expected: str | None
) -> None:
    assert clean_json(json) == expected


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=3))
def test_any_json_object_keeps_its_meaning(value: dict[str, str | int | None]) -> None:
    json = msgspec.json.encode(value).decode()
    cleaned = clean_json(json)

    assert cleaned is not None
    if "\\u0000" not in json:
        assert cleaned == json


def test_arguments_that_are_no_object_are_sent_as_none() -> None:
    broken = call("a", arguments='{"command":"l')

    assert response_block(broken) == api.ToolUse("a", "bash", Raw(b"{}"))


def test_a_call_of_a_tool_that_cannot_exist_gets_a_name_that_can() -> None:
    # The API checks names in the history too; the model may make one up.
    names = ["no such tool!", "", "x" * 300]

    blocks = [response_block(call("a", name=name)) for name in names]

    assert blocks == [
        api.ToolUse("a", name, Raw(b"{}")) for name in ("no_such_tool_", "_", "x" * 128)
    ]


def test_other_fields_of_a_block_come_back_behind_its_own() -> None:
    extra = '{"citations":[{"n":1.0}],"text":"not mine","cache_control":{"type":"x"}}'

    assert response_block(replace(said("hi"), extra=extra)) == api.Opaque(
        Raw(b'{"type":"text","text":"hi","citations":[{"n":1.0}]}')
    )


def test_extra_that_says_nothing_new_or_is_broken_changes_nothing() -> None:
    for extra in ('{"type":"text"}', "{}", "no json"):
        assert response_block(replace(said("hi"), extra=extra)) == api.Text("hi")


def test_reasoning_is_sent_byte_for_byte() -> None:
    assert response_block(thought(" a\n\0 ")) is None  # not what was signed
    assert response_block(thought(" a\n ")) == api.Thinking(" a\n ", "signed  a\n ")
    assert response_block(
        Reasoning("", "r", "m", redacted="cmVk")
    ) == api.RedactedThinking("cmVk")
    assert response_block(Reasoning("", "r", "m", signature="s")) == api.Thinking(
        "", "s"
    )


def test_an_unknown_block_is_sent_as_it_came() -> None:
    json = '{ "type":"new_block",  "data":[1.0, 2e3] }'

    assert response_block(opaque(json)) == api.Opaque(Raw(json.encode()))
    assert response_block(opaque("no json")) is None


def test_a_result_shows_its_content_or_else_its_summary() -> None:
    full = ToolResult("a", "ran ls", content="x\ny")

    assert result_block(full, frozenset()).content == (api.Text("x\ny"),)
    assert result_block(replace(full, content=None), frozenset()).content == (
        api.Text("ran ls"),
    )


@pytest.mark.parametrize("is_error", [True, False])
@pytest.mark.parametrize("content", ["", " \n\t"])
def test_an_empty_result_says_that_there_was_nothing(
    content: str, is_error: bool
) -> None:
    block = result_block(ToolResult("a", "ran ls", content, is_error), frozenset())

    assert block == api.ToolResult(
        "a", (api.Text(load("empty_result")),), is_error=is_error
    )


def test_images_stand_behind_the_text_and_not_in_an_error() -> None:
    # The API takes nothing but text where is_error is true.
    shot = ToolResult("a", "took it", images=(picture(),))

    assert result_block(shot, frozenset({0})).content == (
        api.Text("took it"),
        api.Image(api.Base64("image/gif", picture().data)),
    )
    assert result_block(replace(shot, is_error=True), frozenset({0})).content == (
        api.Text("took it"),
        api.Text(load("image_left_out")),
    )


WIDE = b64encode(b"GIF89a" + struct.pack("<HH", 8001, 1) + b"\0\0").decode()


@pytest.mark.parametrize(
    "image",
    [
        Image("image/tiff", "SUkqAA=="),
        Image("image/gif", ""),
        Image("image/gif", picture().data + "A"),
        Image(
            "image/gif", picture(20).data.replace("AAAA", "\u00e9\u00e9\u00e9\u00e9")
        ),
        Image("image/gif", WIDE),
        picture(IMAGE_BYTES + 4),
    ],
)
def test_an_image_the_api_would_refuse_is_never_sent(image: Image) -> None:
    items = [UserText("look", (image, picture()))]

    assert kept_images(items, Media(bytes=2 * IMAGE_BYTES)) == {0: frozenset({1})}


def test_an_image_is_sent_as_what_it_is_not_as_what_its_name_says() -> None:
    shot = Image("image/png", picture().data)

    assert user_blocks(UserText("", (shot,)), frozenset({0})) == [
        api.Image(api.Base64("image/gif", shot.data))
    ]


@given(
    st.lists(st.lists(st.sampled_from([16, 20, 60]), max_size=3), max_size=20),
    st.integers(1, 5),
    st.integers(60, 200),
)
def test_images_stay_within_both_bounds_and_the_newest_is_among_them(
    sizes: list[list[int]], count: int, size: int
) -> None:
    items = [UserText("x", tuple(map(picture, each))) for each in sizes]

    kept = kept_images(items, Media(images=count, bytes=size))

    chosen = sorted((at, each) for at, positions in kept.items() for each in positions)
    all_of_them = [(at, n) for at, each in enumerate(sizes) for n in range(len(each))]
    assert len(chosen) <= count
    assert sum(sizes[at][each] for at, each in chosen) <= size
    assert chosen == all_of_them[len(all_of_them) - len(chosen) :]
    assert bool(chosen) == bool(all_of_them)
