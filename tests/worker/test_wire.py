import itertools
import time

import msgspec
from hypothesis import given, strategies as st
from msgspec import Raw
from msgspec.structs import replace

from tests.makers import (
    MODEL,
    call,
    history,
    opaque,
    result,
    said,
    thought,
    told,
    user,
)
from tests.strategies import histories, models, modest
from tests.worker.wires import (
    NEUTRAL,
    answer,
    flat,
    marks,
    messages_of,
    request_of,
    use,
)
from worker import api
from worker.client import Response
from worker.history import legal_cuts, settle
from worker.items import FromModel, Item, Reasoning, ToolCall, ToolResult
from worker.model import Model
from worker.validate import problems
from worker.wire import Cache, clamp_max_tokens, items_of


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
