import msgspec
import pytest
from hypothesis import given, strategies as st

from pod.compaction.clip import clips_to_fit
from pod.entries import Clip
from pod.view import Shown, clipped
from tests.corpus import corpus
from tests.makers import call, picture, result, said, thought, user
from tests.pod.compaction.counting import count
from tests.strategies import histories, modest
from worker.items import Item, ToolCall, ToolResult


def shown(*items: Item) -> list[Shown]:
    return [Shown(f"e{n}", item) for n, item in enumerate(items, 1)]


def after(kept: list[Shown], clips: tuple[Clip, ...]) -> list[Item]:
    texts = {clip.entry: clip.text for clip in clips}
    return [
        clipped(one.item, texts[one.entry]) if one.entry in texts else one.item
        for one in kept
    ]


def fitted(kept: list[Shown], room: int) -> list[Item]:
    return after(kept, clips_to_fit(kept, room=room, count=count))


def text_of(item: Item) -> str:
    assert isinstance(item, ToolResult)
    return item.content or ""


def test_what_fits_is_left_alone() -> None:
    kept = shown(user("a"), result("1", "ok" * 100))

    assert clips_to_fit(kept, room=100, count=count) == ()


def test_the_largest_are_cut_to_the_same_size() -> None:
    kept = shown(said("small"), result("1", "x" * 8_000), result("2", "y" * 20_000))

    small, one, two = fitted(kept, 1_000)

    assert small == said("small")
    assert 900 < count(one) + count(two) + count(small) <= 1_000
    assert abs(count(one) - count(two)) < 20


def test_beginning_end_and_a_note_of_what_is_gone_stay() -> None:
    content = "\n".join(f"line {n}" for n in range(2_000))

    [clip] = clips_to_fit(shown(result("1", content)), room=300, count=count)

    assert clip.text.startswith("line 0\nline 1\n")
    assert clip.text.endswith("\nline 1999")
    assert "left out; the full text is in the session log, entry e1 …]" in clip.text


@pytest.mark.parametrize(
    "note",
    [
        "[… 30 lines, 900 bytes left out; the full text is in /s/x.files/1.txt …]",
        "[the complete output (90000 bytes) is in /s/x.files/1.txt]",
        "[the complete output (90000 bytes) is in /s/x.files/1.txt, but it is short]",
    ],
)
def test_the_file_with_the_whole_of_it_stays_named(note: str) -> None:
    content = f"{'x' * 8_000}\n{note}\n{'y' * 8_000}"

    [clip] = clips_to_fit(shown(result("1", content)), room=300, count=count)

    assert "the full text is in /s/x.files/1.txt …]" in clip.text


def test_a_note_in_a_message_names_no_file() -> None:
    note = "[… 30 lines left out; the full text is in /s/x.files/1.txt …]"

    [clip] = clips_to_fit(shown(user(f"{note}\n{'x' * 8_000}")), room=300, count=count)

    assert "the full text is in the session log, entry e1 …]" in clip.text


def test_images_go_and_are_told_of() -> None:
    big = picture(4_000)
    item = result("1", "text", *[big] * 300)
    before = count(item)

    [clip] = clips_to_fit(shown(item), room=100, count=count)

    assert clip.text == "text\n[300 images left out]"
    assert count(clipped(item, clip.text)) < 100 < before


def test_a_call_keeps_the_shape_of_its_arguments() -> None:
    arguments = msgspec.json.encode(
        {"path": "a.py", "content": "x" * 40_000, "flags": [1] * 3_000}
    ).decode()

    [item] = fitted(shown(call("1", name="write_file", arguments=arguments)), 400)

    assert isinstance(item, ToolCall)
    values = msgspec.json.decode(item.arguments, type=dict[str, str])
    assert list(values) == ["path", "content", "flags"]
    assert values["path"] == "a.py"
    assert "left out" in values["content"]
    assert count(item) <= 400


def test_reasoning_is_never_touched() -> None:
    kept = shown(thought("t" * 8_000), result("1", "x" * 8_000))

    reasoning, cut = fitted(kept, 1_000)

    assert reasoning == thought("t" * 8_000)
    assert count(cut) < 100


def test_a_line_of_megabytes_is_cut() -> None:
    """Case 18: one line without a newline."""
    content = corpus("cases/inputs/18-one-line.txt").read_text()

    [item] = fitted(shown(result("1", content)), 2_000)

    assert count(item) <= 2_000
    assert text_of(item)[:50] == content[:50]


@modest
@given(histories(), st.integers(0, 400))
def test_any_history_can_be_clipped(items: list[Item], room: int) -> None:
    kept = shown(*items)

    smaller = fitted(kept, room)

    for item, clip in zip(items, smaller, strict=True):
        assert type(item) is type(clip)
        assert count(clip) <= count(item)
        if isinstance(clip, ToolCall) and clip != item:
            msgspec.json.decode(clip.arguments, type=dict[str, msgspec.Raw])
