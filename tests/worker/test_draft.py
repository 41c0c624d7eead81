"""A request made with the memory of the one before is the same request."""

import sys
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st
from msgspec import Raw
from msgspec.structs import replace

from tests.makers import MODEL, call, picture, result, said, thought, told, user
from tests.strategies import broken_histories, histories, models, modest
from worker import api
from worker.content import Media
from worker.encode import Encoded, encode_request
from worker.history import mend, settle
from worker.items import Item
from worker.model import Model
from worker.validate import Checked, problems
from worker.wire import Cache, Memory, to_request

TOOLS = (api.ToolSpec("bash", "Run.", Raw(b'{"type":"object"}')),)


class Way:
    """One way to make requests: with memories, or without."""

    def __init__(self, *, remembers: bool) -> None:
        self._memory = Memory() if remembers else None
        self.checked = Checked() if remembers else None
        self._encoded = Encoded() if remembers else None
        self._length: int | None = None

    def request(
        self,
        items: Sequence[Item],
        model: Model,
        cache: Cache = Cache(),  # noqa: B008  frozen
        media: Media = Media(),  # noqa: B008  frozen
        max_tokens: int = 4_000,
    ) -> tuple[api.Request, list[str], bytes]:
        """Return the request, what is wrong with it, and its bytes."""
        request = to_request(
            items,
            system="be good",
            tools=TOOLS,
            model=model,
            cache=cache,
            previous_length=self._length,
            media=media,
            max_tokens=max_tokens,
            memory=self._memory,
        )
        self._length = len(items)
        wrong = problems(request, model=model, checked=self.checked)
        return request, wrong, encode_request(request, encoded=self._encoded)


def turns(first: int, last: int) -> list[Item]:
    """Return turns, each of a call and its result."""
    return [
        item
        for number in range(first, last)
        for item in (call(f"c{number}"), result(f"c{number}", f"saw {number}"))
    ]


def steps() -> st.SearchStrategy[list[int]]:
    """How many items are added from request to request."""
    return st.lists(st.integers(1, 6), min_size=40, max_size=40)


@modest
@given(
    st.one_of(histories(), broken_histories().map(lambda broken: broken[0])),
    models(),
    steps(),
    st.sampled_from([Cache(), Cache(ttl="1h"), Cache(enabled=False)]),
    st.sampled_from([Media(), Media(images=2), Media(bytes=40)]),
)
def test_a_growing_history_makes_the_same_requests(
    items: list[Item], model: Model, sizes: list[int], cache: Cache, media: Media
) -> None:
    new, old = Way(remembers=True), Way(remembers=False)
    end = 0

    for size in sizes:
        end += size
        # What was broken off is settled, and goes on as if nothing had been.
        grown = [*items[:end], *settle(items[:end], "interrupted")]

        assert new.request(grown, model, cache, media) == old.request(
            grown, model, cache, media
        )
        if end >= len(items):
            break


VARIED = [
    user("go", picture(), picture()),
    told("what a system message may say, where there may be one"),
    *turns(0, 2),
    said("first", "a"),
    said("then", "b"),
    user("and now", picture()),
    thought(of="c2"),
    *turns(2, 4),
]
"""Sent differently by each kind of model, and at each length of thinking."""


@modest
@given(histories(), st.data())
def test_terms_that_change_make_the_same_requests(
    drawn: list[Item], data: st.DataObject
) -> None:
    items = [*VARIED, *drawn]
    new, old = Way(remembers=True), Way(remembers=False)

    for _ in range(6):
        grown = items[: data.draw(st.integers(1, len(items)))]
        if data.draw(st.booleans()):
            del grown[data.draw(st.integers(0, len(grown) - 1))]
        grown = mend(grown, "interrupted")
        model = data.draw(st.just(MODEL) | models())
        media = data.draw(st.sampled_from([Media(), Media(images=1)]))
        # At 2000 a budget of 2048 shrinks, at 900 none fits.
        max_tokens = data.draw(st.sampled_from([4_000, 2_000, 900]))

        assert new.request(
            grown, model, media=media, max_tokens=max_tokens
        ) == old.request(grown, model, media=media, max_tokens=max_tokens)


TOLD_LATE = [user("go"), told("note"), *turns(0, 2)]
CUT_BACK = [user("go"), *turns(0, 1)]


@pytest.mark.parametrize(
    ("before", "model", "after"),
    [
        (TOLD_LATE, replace(MODEL, system_messages=True), [*TOLD_LATE, *turns(2, 3)]),
        ([user("go"), said("a", "1"), said("b", "2")], MODEL, [user("go")]),
        (CUT_BACK, MODEL, [CUT_BACK[0], told("note"), *CUT_BACK[1:]]),
        (
            [user("go"), SIGNED := thought(of="c1"), *turns(1, 2)],
            MODEL,
            [user("go"), SIGNED, user("no, this")],
        ),
    ],
)
def test_what_no_longer_fits_is_made_anew(
    before: list[Item], model: Model, after: list[Item]
) -> None:
    new, old = Way(remembers=True), Way(remembers=False)
    for way in (new, old):
        way.request(before, model)

    assert new.request(after, MODEL) == old.request(after, MODEL)


def ask(*messages: api.Message) -> api.Request:
    return api.Request("m", 4_000, (), messages, TOOLS)


GO = api.Message("user", (api.Text("go"),))
USE = api.Message("assistant", (api.ToolUse("a", "bash", Raw(b"{}")),))
ANSWER = api.Message("user", (api.ToolResult("a", (api.Text("ok"),)),))
TOLD = api.Message("system", (api.Text("note"),))
DONE = api.Message("assistant", (api.Text("done"),))
PICTURES = api.Message("user", (api.Image(api.Base64("image/gif", "AAAA")),) * 60)
REASONED = api.Message("assistant", (api.Thinking("hm", "s"), *USE.content))
LOOP_B, LOOP_C = (
    (
        api.Message("assistant", (api.ToolUse(id, "bash", Raw(b"{}")),)),
        api.Message("user", (api.ToolResult(id, (api.Text("ok"),)),)),
    )
    for id in "bc"
)
AGAIN: dict[str, tuple[api.Request, Model, api.Request, Model]] = {
    "the same call id": (
        ask(GO, USE, ANSWER, DONE, GO),
        MODEL,
        ask(GO, USE, ANSWER, DONE, GO, USE, ANSWER),
        MODEL,
    ),
    "another message in the same place": (
        ask(GO, DONE, GO, DONE, GO),
        MODEL,
        ask(GO, GO, GO, DONE, GO),
        MODEL,
    ),
    "a model that takes less": (
        ask(GO, TOLD, DONE, GO, DONE, GO),
        replace(MODEL, system_messages=True),
        ask(GO, TOLD, DONE, GO, DONE, GO, DONE, GO),
        MODEL,
    ),
    "an end that was not the end before": (
        ask(GO, USE, ANSWER, DONE, GO, DONE, GO),
        MODEL,
        ask(GO, USE),
        MODEL,
    ),
    "no tools any more": (
        ask(GO, USE, ANSWER, DONE, GO),
        MODEL,
        replace(ask(GO, USE, ANSWER, DONE, GO, DONE, GO), tools=()),
        MODEL,
    ),
    "too many images together": (
        ask(PICTURES, DONE, GO, DONE, GO),
        MODEL,
        ask(PICTURES, DONE, GO, DONE, GO, DONE, PICTURES),
        MODEL,
    ),
    "reasoning in the open loop": (
        ask(GO, REASONED, ANSWER, *LOOP_B),
        MODEL,
        replace(ask(GO, REASONED, ANSWER, *LOOP_B, *LOOP_C), thinking="off"),
        MODEL,
    ),
    "no reasoning where the open loop begins": (
        ask(GO, USE, ANSWER, *LOOP_B),
        MODEL,
        replace(ask(GO, USE, ANSWER, *LOOP_B, *LOOP_C), thinking=2_048),
        MODEL,
    ),
}


@pytest.mark.parametrize("what", AGAIN)
def test_what_is_wrong_by_what_came_before_is_still_found(what: str) -> None:
    first, first_model, second, second_model = AGAIN[what]
    checked = Checked()
    assert problems(first, model=first_model, checked=checked) == []

    found = problems(second, model=second_model, checked=checked)

    assert found
    assert found == problems(second, model=second_model)


def test_what_was_sent_before_is_taken_over() -> None:
    way = Way(remembers=True)
    items = [user("go"), *turns(0, 4)]
    before, _, _ = way.request(items, MODEL)

    after, _, _ = way.request(items + turns(4, 5), MODEL)

    # All but the last response and its results, in which the marks are.
    same = [a is b for a, b in zip(before.messages, after.messages, strict=False)]
    assert same == [True] * 7 + [False] * 2


def test_what_was_right_is_not_looked_at_again() -> None:
    way = Way(remembers=True)
    items = [user("go"), *turns(0, 4)]
    way.request(items, MODEL)
    after, _, _ = way.request(items + turns(4, 5), MODEL)
    assert way.checked is not None

    known = way.checked.start(after.messages, MODEL)

    # Message 8 has the mark that the last request ended with, 9 and 10 are new.
    assert (len(after.messages), known.count) == (11, 8)


def test_what_was_encoded_is_not_encoded_again() -> None:
    way = Way(remembers=True)
    encoded = Encoded()
    items = [user("go"), *turns(0, 4)]
    before, _, _ = way.request(items, MODEL)
    after, _, _ = way.request(items + turns(4, 5), MODEL)

    first, second = encoded.messages(before.messages), encoded.messages(after.messages)

    same = [a is b for a, b in zip(first, second, strict=False)]
    assert same == [True] * 7 + [False] * 2


def test_a_budget_that_must_be_off_takes_over_as_well() -> None:
    way = Way(remembers=True)
    model = Model("anthropic", "claude-test-1", None, 4_000, thinking=1_024)
    items = [user("go"), *turns(0, 4)]
    before, _, _ = way.request(items, model)

    after, _, _ = way.request(items + turns(4, 5), model)

    assert (before.thinking, after.thinking) == ("off", "off")
    assert all(
        a is b for a, b in zip(before.messages[:7], after.messages[:7], strict=True)
    )


@pytest.mark.parametrize("thinking", [None, "adaptive", 1_024])
def test_what_left_the_history_is_not_kept(thinking: int | None) -> None:
    way = Way(remembers=True)
    model = Model("anthropic", "claude-test-1", None, 4_000, thinking=thinking)
    gone: list[Item] = [user("go", picture()), *turns(0, 6)]
    request, _, _ = way.request(gone, model)
    message = request.messages[2]
    del request
    assert sys.getrefcount(message) > 2  # this name, and the memory

    way.request([told("a summary"), user("go on")], model)

    assert sys.getrefcount(message) == 2
    # The list, the loop's name, and what the call itself holds.
    assert [sys.getrefcount(item) for item in gone] == [3] * len(gone)
