"""What hooks may answer, and what several answers make."""

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pod.entries import FileDetails
from pod.hooks.answers import (
    MOST_BYTES,
    Answer,
    BeforeCompactAnswer,
    BeforeTreeAnswer,
    CompactingAnswer,
    Garbage,
    HookCompaction,
    HookSummary,
    Nothing,
    PostToolCallAnswer,
    PreLlmRequestAnswer,
    PreToolCallAnswer,
    changed,
    parse,
)
from tests.pod.hooks.samples import POST_TOOL_CALL

KINDS: list[type[Answer]] = [
    BeforeCompactAnswer,
    CompactingAnswer,
    BeforeTreeAnswer,
    PreLlmRequestAnswer,
    PreToolCallAnswer,
    PostToolCallAnswer,
    Nothing,
]

texts = st.text(max_size=5)
maybe = st.none() | texts
lines = st.lists(texts, max_size=2).map(tuple)
answers: st.SearchStrategy[Answer] = st.one_of(
    st.builds(CompactingAnswer, prompt=maybe, context=lines),
    st.builds(
        BeforeCompactAnswer,
        compaction=st.none() | st.builds(HookCompaction, summary=texts),
    ),
    st.builds(
        BeforeTreeAnswer,
        cancel=st.booleans(),
        summary=st.none() | st.builds(HookSummary, text=texts),
        instructions=maybe,
        replace_instructions=st.none() | st.booleans(),
        label=maybe,
        message=texts,
    ),
    st.builds(PreLlmRequestAnswer, stop=st.booleans(), context=lines, message=texts),
    st.builds(PreToolCallAnswer, deny=st.booleans(), stop=st.booleans()),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("said", [None, b"", b" \n", b"{}", b"null\n", {}])
def test_none_nothing_and_an_empty_object_change_nothing(
    said: object, kind: type[Answer]
) -> None:
    assert parse(said, kind) == kind()


def test_an_answer_may_be_json_a_mapping_or_the_struct_itself() -> None:
    answer = BeforeCompactAnswer(
        compaction=HookCompaction(
            summary="s",
            first_kept="e3",
            details=FileDetails(read_files=("/a",)),
            preserve_data='{"k": 1}',
        )
    )
    said = {
        "compaction": {
            "summary": "s",
            "first_kept": "e3",
            "details": {"read_files": ["/a"]},
            "preserve_data": '{"k": 1}',
        }
    }

    assert parse(said, BeforeCompactAnswer) == answer
    assert parse(msgspec.json.encode(said), BeforeCompactAnswer) == answer
    assert parse(answer, BeforeCompactAnswer) == answer


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        (b"cancel", BeforeTreeAnswer, "its answer is no JSON: "),
        (b'{"cancel": true}{}', BeforeTreeAnswer, "its answer is no JSON: "),
        (b"\xff", BeforeTreeAnswer, "its answer is no JSON: "),
        (b'{"label": "\xff"}', BeforeTreeAnswer, "its answer is no JSON: "),
        (b"[" * 100_000, BeforeTreeAnswer, "its answer "),
        (b'{"cancle": true}', BeforeTreeAnswer, "its answer cannot be used: "),
        (b'{"cancel": "yes"}', BeforeTreeAnswer, "its answer cannot be used: "),
        (b'{"summary": {}}', BeforeTreeAnswer, "its answer cannot be used: "),
        (b'{"deny": true}', Nothing, "its answer cannot be used: "),
        (b"true", PreToolCallAnswer, "its answer cannot be used: "),
        (True, PreToolCallAnswer, "its answer cannot be used: "),
        ("deny", PreToolCallAnswer, "its answer cannot be used: "),
        (PreToolCallAnswer(deny=True), Nothing, "its answer cannot be used: "),
        (object(), Nothing, "it returned object, which is no answer: "),
        ({1j: 2}, Nothing, "it returned dict, which is no answer: "),
        ({"message": "\ud800"}, PreToolCallAnswer, "it returned dict, which is no"),
        (b" " * (MOST_BYTES + 1), Nothing, "its answer is longer than 1,048,576 bytes"),
        (
            b'{"preserve_data": "{"}',
            CompactingAnswer,
            "its preserve_data is no JSON text: ",
        ),
        (
            BeforeCompactAnswer(
                compaction=HookCompaction(summary="s", preserve_data="{")
            ),
            BeforeCompactAnswer,
            "its preserve_data is no JSON text: ",
        ),
    ],
)
def test_what_is_no_answer_is_refused_with_the_reason(
    said: object, kind: type[Answer], message: str
) -> None:
    with pytest.raises(Garbage) as caught:
        parse(said, kind)

    assert str(caught.value).startswith(message)


def test_a_later_answer_overrides_only_what_it_sets_and_adds_its_context() -> None:
    first = CompactingAnswer(prompt="a", context=("one",), preserve_data="1")
    later = CompactingAnswer(prompt="b", context=("two", "three"))

    assert first.with_later(later) == CompactingAnswer(
        prompt="b", context=("one", "two", "three"), preserve_data="1"
    )


def test_false_and_an_empty_text_override_where_leaving_out_means_none() -> None:
    first = BeforeTreeAnswer(replace_instructions=True, label="a", instructions="b")
    later = BeforeTreeAnswer(replace_instructions=False, label="")

    assert first.with_later(later) == BeforeTreeAnswer(
        replace_instructions=False, label="", instructions="b"
    )


@given(answers)
def test_an_empty_answer_before_or_after_another_changes_nothing(
    answer: Answer,
) -> None:
    empty = type(answer)()

    assert answer.with_later(empty) == answer
    assert empty.with_later(answer) == answer


def test_an_answer_that_stops_something_without_a_word_is_signed_by_its_hook() -> None:
    said = "the hook h says so, and not why"

    assert PreToolCallAnswer(deny=True, message=" ").signed("h").message == said
    assert BeforeTreeAnswer(cancel=True).signed("h").message == said
    assert PreLlmRequestAnswer(stop=True, message="m").signed("h").message == "m"
    coloured = PreLlmRequestAnswer(stop=True, message="\x1b[31mm\x00").signed("h")
    assert coloured.message == "m␀"
    assert BeforeCompactAnswer().signed("h") == BeforeCompactAnswer()
    assert CompactingAnswer().signed("h") == CompactingAnswer()


@pytest.mark.parametrize(
    ("said", "summary", "content", "images"),
    [
        (PostToolCallAnswer(), "exit code 0", "a\nb", 1),
        (PostToolCallAnswer(summary="s"), "s", "a\nb", 1),
        (PostToolCallAnswer(content="c"), "exit code 0", "c", 0),
        (PostToolCallAnswer(content=""), "exit code 0", "", 0),
        (PostToolCallAnswer(context=("d", "e")), "exit code 0", "a\nb\nd\ne", 1),
        (PostToolCallAnswer(content="c", context=("d",)), "exit code 0", "c\nd", 0),
    ],
)
def test_a_result_is_as_the_answer_leaves_it(
    said: PostToolCallAnswer, summary: str, content: str, images: int
) -> None:
    assert changed(POST_TOOL_CALL, said) == replace(
        POST_TOOL_CALL, summary=summary, content=content, images=images
    )


def test_context_for_a_result_without_content_comes_after_its_summary() -> None:
    seen = replace(POST_TOOL_CALL, content=None)

    assert changed(seen, PostToolCallAnswer(context=("d",))) == replace(
        seen, content="exit code 0\nd"
    )
