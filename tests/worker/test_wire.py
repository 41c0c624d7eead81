import itertools
import time
from collections.abc import Sequence
from typing import Literal

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import Raw
from msgspec.structs import replace

from prompts import load
from tests.makers import (
    MODEL,
    call,
    history,
    opaque,
    picture,
    result,
    said,
    thought,
    told,
    user,
)
from tests.strategies import histories, models, modest
from worker import api
from worker.client import Response
from worker.content import Media
from worker.history import legal_cuts, settle
from worker.items import FromModel, Item, Reasoning, ToolCall, ToolResult
from worker.model import Model
from worker.validate import problems
from worker.wire import Cache, clamp_max_tokens, items_of, to_request

NEUTRAL = api.Text(load("neutral_user"))
NO_CACHE = Cache(enabled=False)


def request_of(
    items: Sequence[Item],
    model: Model = MODEL,
    *,
    cache: Cache = NO_CACHE,
    previous_length: int | None = None,
    media: Media | None = None,
    max_tokens: int | None = None,
) -> api.Request:
    return to_request(
        items,
        system="be good",
        tools=(),
        model=model,
        cache=cache,
        previous_length=previous_length,
        media=media or Media(),
        max_tokens=max_tokens,
    )


def messages_of(
    items: Sequence[Item], model: Model = MODEL
) -> list[tuple[str, tuple[api.Block, ...]]]:
    request = request_of(items, model)

    assert problems(request, model=model) == []
    return [(message.role, message.content) for message in request.messages]


def use(call_id: str, name: str = "bash", arguments: str = "{}") -> api.ToolUse:
    return api.ToolUse(call_id, name, Raw(arguments.encode()))


def answer(call_id: str, text: str = "ok") -> api.ToolResult:
    return api.ToolResult(call_id, (api.Text(text),))


def flat(request: api.Request) -> list[api.Block]:
    return [
        block if isinstance(block, UNMARKED) else replace(block, cache_control=UNSET)
        for message in request.messages
        for block in message.content
    ]


def marks(request: api.Request) -> list[int]:
    """Return which of the messages' blocks have a cache mark."""
    blocks = [block for message in request.messages for block in message.content]
    return [
        at
        for at, block in enumerate(blocks)
        if not isinstance(block, UNMARKED) and block.cache_control is not UNSET
    ]


UNMARKED = (api.Thinking, api.RedactedThinking, api.Opaque)
UNSET = msgspec.UNSET


@modest
@given(histories(), models(), st.booleans())
def test_the_tail_of_every_legal_cut_makes_a_request_the_api_takes(
    items: list[Item], model: Model, is_cached: bool
) -> None:
    cache = Cache(enabled=is_cached)

    for cut in legal_cuts(items):
        request = request_of(items[cut:], model, cache=cache)

        assert problems(request, model=model) == []
        if any(isinstance(item, Reasoning) for item in items):
            assert request.thinking == model.thinking


@modest
@given(histories(), models())
def test_a_history_broken_off_anywhere_makes_one_once_it_is_settled(
    items: list[Item], model: Model
) -> None:
    for end in range(len(items) + 1):
        settled = [*items[:end], *settle(items[:end], "interrupted")]

        assert problems(request_of(settled, model), model=model) == []


@modest
@given(histories(), models(), st.data())
def test_more_items_leave_the_earlier_ones_and_their_mark_as_they_were(
    items: list[Item], model: Model, data: st.DataObject
) -> None:
    # A request is sent where a response follows it.
    ends = [
        at
        for at, item in enumerate(items)
        if isinstance(item, FromModel)
        and (at == 0 or getattr(items[at - 1], "response", "") != item.response)
    ]
    end = data.draw(st.sampled_from(ends)) if ends else len(items)
    model = replace(model, prefill=False)

    before = request_of(items[:end], model, cache=Cache())
    after = request_of(items, model, cache=Cache(), previous_length=end)

    assert after.system == before.system
    assert flat(after)[: len(flat(before))] == flat(before)
    assert set(marks(before)) <= set(marks(after))


@modest
@given(histories(is_hostile=False), models())
def test_a_reloaded_history_makes_the_same_bytes(
    items: list[Item], model: Model
) -> None:
    again = msgspec.json.decode(msgspec.json.encode(items), type=list[Item])

    assert request_of(again, model, cache=Cache()) == request_of(
        items, model, cache=Cache()
    )


@modest
@given(histories(), models())
def test_pruned_results_keep_their_pairs(items: list[Item], model: Model) -> None:
    pruned = [
        replace(item, content=None, summary="[Output truncated - 9 tokens]", images=())
        if isinstance(item, ToolResult)
        else item
        for item in items
    ]

    assert problems(request_of(pruned, model), model=model) == []


def test_a_turn_becomes_alternating_messages() -> None:
    items = history(
        user("go"),
        said("let me see", "r"),
        call("a", "r", arguments='{"command":"ls"}'),
        call("b", "r"),
        result("a"),
        result("b"),
        said("done", "s"),
        user("thanks"),
        user("and now?"),
    )

    assert messages_of(items) == [
        ("user", (api.Text("go"),)),
        (
            "assistant",
            (
                api.Text("let me see"),
                use("a", arguments='{"command":"ls"}'),
                use("b"),
            ),
        ),
        ("user", (answer("a"), answer("b"))),
        ("assistant", (api.Text("done"),)),
        ("user", (api.Text("thanks"), api.Text("and now?"))),
    ]


def test_leading_system_items_stand_behind_the_prompt() -> None:
    request = request_of([told("summary"), told(" "), told("rules"), user("go")])

    assert request.system == (
        api.Text("be good"),
        api.Text("summary"),
        api.Text("rules"),
    )
    assert request.messages == (api.Message("user", (api.Text("go"),)),)


def test_a_tail_that_starts_with_the_model_gets_the_neutral_user_block() -> None:
    assert messages_of([told("summary"), call("a"), result("a")]) == [
        ("user", (NEUTRAL,)),
        ("assistant", (use("a"),)),
        ("user", (answer("a"),)),
    ]


def test_a_history_without_anything_to_say_gets_it_too() -> None:
    assert messages_of([]) == [("user", (NEUTRAL,))]
    assert messages_of([told("summary")]) == [("user", (NEUTRAL,))]
    assert messages_of([user(" \n")]) == [("user", (NEUTRAL,))]


def test_empty_turns_of_the_model_are_not_sent() -> None:
    # corpus case 11: "", white space only, and an empty user text.
    items = history(user("hi"), said("", "a"), said(" \n\t", "b"), user(""), user("go"))

    assert messages_of(items) == [("user", (api.Text("hi"), api.Text("go")))]


def test_a_system_item_in_between_is_a_system_message_where_the_model_takes_it() -> (
    None
):
    model = replace(MODEL, system_messages=True)
    items = history(
        user("go"), call("a"), result("a"), told("hurry"), told("up"), said("done")
    )
    items.append(user("more"))

    assert messages_of(items, model) == [
        ("user", (api.Text("go"),)),
        ("assistant", (use("a"),)),
        ("user", (answer("a"),)),
        ("system", (api.Text("hurry"), api.Text("up"))),
        ("assistant", (api.Text("done"),)),
        ("user", (api.Text("more"),)),
    ]


def test_else_it_stands_behind_the_results_in_the_user_message() -> None:
    items = history(user("go"), call("a"), result("a"), told("hurry"), said("done"))
    items.append(user("more"))

    assert messages_of(items) == [
        ("user", (api.Text("go"),)),
        ("assistant", (use("a"),)),
        ("user", (answer("a"), api.Text("hurry"))),
        ("assistant", (api.Text("done"),)),
        ("user", (api.Text("more"),)),
    ]


def test_a_system_item_before_the_users_words_keeps_its_place() -> None:
    model = replace(MODEL, system_messages=True)
    items = history(user("go"), said("done"), told("a branch"), user("on"), told("now"))

    assert messages_of(items, model) == [
        ("user", (api.Text("go"),)),
        ("assistant", (api.Text("done"),)),
        ("user", (api.Text("a branch"), api.Text("on"))),
        ("system", (api.Text("now"),)),
    ]


def test_a_system_item_with_no_user_beside_it_speaks_as_the_user() -> None:
    model = replace(MODEL, system_messages=True)

    assert messages_of([user("go"), said("done"), told("a branch")], model) == [
        ("user", (api.Text("go"),)),
        ("assistant", (api.Text("done"),)),
        ("user", (api.Text("a branch"),)),
    ]


def test_a_paused_response_is_sent_as_it_came_and_goes_on() -> None:
    used = '{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}'
    found = '{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]}'
    block, other = api.Opaque(Raw(used.encode())), api.Opaque(Raw(found.encode()))
    paused = history(user("go"), opaque(used, "r"))

    assert messages_of(paused) == [
        ("user", (api.Text("go"),)),
        ("assistant", (block,)),
    ]
    assert messages_of([*paused, opaque(found, "s"), user("so?")]) == [
        ("user", (api.Text("go"),)),
        ("assistant", (block, other)),
        ("user", (api.Text("so?"),)),
    ]


def test_a_response_that_ends_in_another_unknown_block_is_no_pause() -> None:
    items = history(user("go"), opaque('{"type":"container_upload"}'))

    assert messages_of(items)[2:] == [("user", (NEUTRAL,))]


def test_an_answer_that_was_cut_off_goes_on_behind_the_neutral_block() -> None:
    cut_off = history(user("go"), said("one, two ", "r"))
    first = [("user", (api.Text("go"),)), ("assistant", (api.Text("one, two "),))]

    assert messages_of(cut_off) == [*first, ("user", (NEUTRAL,))]
    assert messages_of([*cut_off, said("three", "s")]) == [
        *first,
        ("user", (NEUTRAL,)),
        ("assistant", (api.Text("three"),)),
        ("user", (NEUTRAL,)),
    ]


def test_only_the_very_last_text_of_a_prefill_is_stripped() -> None:
    # corpus case 12.
    model = replace(MODEL, prefill=True)
    items = history(
        user("Say Pong"),
        thought("t \n", "r"),
        said("keep inner  blank \n", "r"),
        said("Pong \n", "r"),
    )

    assert messages_of(items, model)[1] == (
        "assistant",
        (
            api.Thinking("t \n", "signed t \n"),
            api.Text("keep inner  blank \n"),
            api.Text("Pong"),
        ),
    )
    assert messages_of([*items, user("again")], model)[1][1][2] == api.Text("Pong \n")


def test_a_stripped_text_keeps_its_other_fields() -> None:
    model = replace(MODEL, prefill=True)
    items = history(user("go"), replace(said("Pong \n"), extra='{"citations":null}'))

    assert messages_of(items, model)[1] == (
        "assistant",
        (api.Opaque(Raw(b'{"type":"text","text":"Pong","citations":null}')),),
    )


def test_there_is_no_prefill_while_thinking_is_on() -> None:
    model = replace(MODEL, prefill=True, thinking="adaptive")

    assert messages_of([user("go"), said("done")], model)[-1] == ("user", (NEUTRAL,))


def test_reasoning_that_led_to_nothing_is_not_sent() -> None:
    items = history(
        user("go"),
        thought("a", "r"),
        call("a", "r"),
        thought("b", "r"),
        result("a"),
        thought("c", "s"),
        said("", "s"),
    )

    assert messages_of(items) == [
        ("user", (api.Text("go"),)),
        ("assistant", (api.Thinking("a", "signed a"), use("a"))),
        ("user", (answer("a"),)),
    ]


def test_reasoning_of_another_model_and_unsigned_reasoning_stay_at_home() -> None:
    items = history(
        user("go"),
        thought("theirs", "r", model="other-2"),
        Reasoning("unsigned", "r", MODEL.id),
        said("hello", "r"),
        user("go on"),
    )

    assert messages_of(items)[1] == ("assistant", (api.Text("hello"),))


def test_reasoning_of_a_dated_snapshot_is_ones_own() -> None:
    own = thought("mine", "r", model=f"{MODEL.id}-20260101")

    assert messages_of([user("go"), own, said("hello", "r"), user("on")])[1] == (
        "assistant",
        (api.Thinking("mine", "signed mine"), api.Text("hello")),
    )


@pytest.mark.parametrize(
    ("thinking", "expected"), [(2048, "off"), ("adaptive", "adaptive"), (None, None)]
)
def test_a_budget_is_off_while_the_open_tool_loop_has_lost_its_reasoning(
    thinking: Literal["adaptive"] | int | None, expected: str | None
) -> None:
    model = replace(MODEL, thinking=thinking, temperature=0.5)
    loop = history(user("go"), thought(of="a"), call("a"), result("a"))

    inside = request_of([call("x"), result("x"), *loop[1:]], model)
    whole = request_of(loop, model)
    closed = request_of([call("x"), result("x"), said("done"), user("on")], model)

    assert [inside.thinking, whole.thinking, closed.thinking] == [
        expected,
        thinking,
        thinking,
    ]
    for request in (inside, whole, closed):
        assert problems(request, model=model) == []


def test_reasoning_is_not_sent_while_thinking_is_off() -> None:
    model = replace(MODEL, thinking="off")
    items = history(user("go"), thought(of="a"), call("a"), result("a"))

    assert messages_of(items, model)[1] == ("assistant", (use("a"),))


@pytest.mark.parametrize(
    ("max_tokens", "expected"),
    [(8000, 4096), (4096, 2048), (1500, 1024), (1024, "off")],
)
def test_a_thinking_budget_stays_below_max_tokens(
    max_tokens: int, expected: int | str
) -> None:
    model = replace(MODEL, thinking=4096, temperature=0.5)

    request = request_of([user("go")], model, max_tokens=max_tokens)

    assert request.thinking == expected
    assert request.temperature == (0.5 if expected == "off" else None)
    assert problems(request, model=model) == []


def test_max_tokens_is_what_is_left_of_the_window() -> None:
    assert clamp_max_tokens(MODEL, 1_000) == 8_000
    assert clamp_max_tokens(MODEL, 195_000) == 5_000
    assert clamp_max_tokens(MODEL, 300_000) == 1
    assert clamp_max_tokens(replace(MODEL, window=None), 300_000) == 8_000


MARK = api.CacheControl("1h")


def test_marks_stand_behind_the_prompt_the_system_items_and_both_ends() -> None:
    before = history(told("summary"), told("rules"), user("go"), call("a"), result("a"))
    items = history(*before, call("b"), result("b"))
    cache = Cache(ttl="1h")

    request = request_of(items, cache=cache, previous_length=len(before))

    assert request.system == (
        api.Text("be good", MARK),
        api.Text("summary"),
        api.Text("rules", MARK),
    )
    assert [message.content for message in request.messages[2:]] == [
        (replace(answer("a"), cache_control=MARK),),
        (use("b"),),
        (replace(answer("b"), cache_control=MARK),),
    ]


def test_a_mark_never_stands_on_what_cannot_bear_it() -> None:
    used = '{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}'
    items = history(user("go"), thought("hm", "r"), opaque(used, "r"))

    request = request_of(items, cache=Cache())

    assert request.messages[0].content == (api.Text("go", api.CacheControl()),)
    assert problems(request, model=MODEL) == []


def test_without_a_cache_nothing_is_marked() -> None:
    request = request_of([told("summary"), user("go")], previous_length=1)

    assert b"cache_control" not in msgspec.json.encode(request)


def test_duplicate_results_of_one_call_are_still_seen() -> None:
    items = history(user("go"), call("a"), result("a"), result("a"))

    assert problems(request_of(items), model=MODEL) == [
        "messages.2: 2 tool_result blocks for 'a'"
    ]


def test_many_images_lose_the_oldest_a_quarter_at_a_time() -> None:
    # corpus case 15: screenshots until the body is too large for every request.
    media = Media(images=8, bytes=1_000)
    items = history(user("go"))
    sent: list[int] = []
    for number in range(20):
        items += [call(f"{number}"), result(f"{number}", "ok", picture())]
        request = request_of(items, media=media)
        sent.append(
            sum(
                isinstance(block, api.ToolResult)
                and len(block.content) == 2
                and isinstance(block.content[1], api.Image)
                for block in flat(request)
            )
        )

    assert sent == [1, 2, 3, 4, 5, 6, 7, 8, 6, 7, 8, 6, 7, 8, 6, 7, 8, 6, 7, 8]


def test_images_go_by_bytes_too_and_the_newest_stays() -> None:
    items = history(user("old", picture(60)), user("new", picture(100)))

    request = request_of(items, media=Media(bytes=100))

    assert request.messages[0].content == (
        api.Text("old"),
        api.Text(load("image_left_out")),
        api.Text("new"),
        api.Image(api.Base64("image/gif", picture(100).data)),
    )


def test_a_request_for_a_summary_can_go_without_images() -> None:
    items = history(user("look", picture()))

    request = request_of(items, media=Media(images=0))

    assert request.messages[0].content == (
        api.Text("look"),
        api.Text(load("image_left_out")),
    )


def test_a_response_gets_the_id_of_the_history_and_loses_nothing() -> None:
    items: list[FromModel] = [thought("hm", "msg_1"), said("", "msg_1")]
    items += [call("a", "msg_1"), opaque(response="msg_1")]
    response = Response("msg_1", "claude-test-1-20260101", tuple(items), "tool_use")

    assert items_of(response, "r7") == (
        thought("hm", "r7"),
        said("", "r7"),
        call("a", "r7"),
        opaque(response="r7"),
    )


def test_reasoning_can_be_kept_under_the_id_that_was_asked() -> None:
    items = (thought("hm", "msg_1", model="claude-snapshot"),)
    response = Response("msg_1", "claude-snapshot", items, "end_turn")

    assert items_of(response, "r7", model="alias") == (
        thought("hm", "r7", model="alias"),
    )


def test_the_first_signed_thinking_of_a_loop_is_in_every_request_of_the_loop() -> None:
    # rivals #64: a loop of four calls led by one thinking, cut at each request.
    model = replace(MODEL, thinking=2048)
    items: list[Item] = [user("go"), thought(of="c0")]
    for number in range(4):
        items += [call(f"c{number}"), result(f"c{number}")]

        request = request_of(items, model)

        assert request.messages[1].content[0] == api.Thinking("hm", "signed hm")
        assert request.thinking == 2048


def test_a_long_history_is_encoded_in_a_moment() -> None:
    items: list[Item] = []
    for number in range(10_000):
        items += [thought(of=f"{number}"), call(f"{number}"), result(f"{number}")]
        items.append(user("next"))

    started = time.process_time()
    request = request_of(items, cache=Cache(), previous_length=30_000)

    assert len(request.messages) == 20_001
    assert time.process_time() - started < 5


def test_tool_calls_of_any_kind_can_be_told_apart() -> None:
    kinds = itertools.product((True, False), ("", '{"caller":{"type":"direct"}}'))
    items = history(user("go"))
    for number, (incomplete, extra) in enumerate(kinds):
        made = ToolCall(
            f"c{number}", "bash", '{"x":1}', f"r{number}", incomplete, extra
        )
        items += [made, result(f"c{number}")]

    assert flat(request_of(items))[1::2] == [
        use("c0"),
        api.Opaque(
            Raw(
                b'{"type":"tool_use","id":"c1","name":"bash","input":{},'
                b'"caller":{"type":"direct"}}'
            )
        ),
        use("c2", arguments='{"x":1}'),
        api.Opaque(
            Raw(
                b'{"type":"tool_use","id":"c3","name":"bash","input":{"x":1},'
                b'"caller":{"type":"direct"}}'
            )
        ),
    ]
