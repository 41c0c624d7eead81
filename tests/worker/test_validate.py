"""Each rule once broken by hand, in a request that is right otherwise."""

from typing import Literal

import pytest
from msgspec import Raw
from msgspec.structs import replace

from tests.makers import MODEL
from worker.api import (
    Base64,
    Block,
    CacheControl,
    Image,
    Message,
    Opaque,
    RedactedThinking,
    Request,
    Text,
    Thinking,
    ToolResult,
    ToolSpec,
    ToolUse,
)
from worker.validate import problems

NONE = Raw(b"{}")
GO = Message("user", (Text("go"),))
CALL = Message("assistant", (Thinking("hm", "s"), ToolUse("a", "bash", NONE)))
ANSWER = Message("user", (ToolResult("a", (Text("ok"),)),))
PNG = Image(Base64("image/png", "AAAA"))
USED = b'{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}'
FOUND = b'{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]}'
Role = Literal["user", "assistant", "system"]


TOOLS = (ToolSpec("bash", "", NONE),)


def ask(*messages: Message) -> Request:
    return Request("claude-test-1", 8_000, (Text("be good"),), messages, TOOLS)


def message(role: Role, *blocks: Block) -> Message:
    return Message(role, blocks)


FINE = [
    ask(GO),
    ask(GO, CALL, ANSWER),
    replace(ask(GO, CALL, ANSWER), thinking=1024),
    replace(ask(GO, CALL, ANSWER), thinking="adaptive"),
    ask(GO, message("assistant", Opaque(Raw(USED)), Opaque(Raw(FOUND)))),
    ask(GO, message("assistant", Opaque(Raw(USED)))),
    ask(message("user", PNG)),
    replace(ask(GO, CALL, ANSWER, message("assistant", Text("k")), GO), thinking="off"),
    replace(ask(GO), tools=()),
    ask(GO, message("assistant", ToolUse("a", "b", Raw(b'{"x":"\\\\ud800"}'))), ANSWER),
]


@pytest.mark.parametrize("request_", FINE)
def test_a_good_request_has_no_problems(request_: Request) -> None:
    assert problems(request_, model=MODEL) == []


def test_a_model_with_more_abilities_may_be_sent_more() -> None:
    model = replace(MODEL, prefill=True, system_messages=True)
    pause = message("assistant", Opaque(Raw(USED)), Opaque(Raw(FOUND)))
    system = message("system", Text("now"))
    done = message("assistant", Text("done"))

    for request in (
        ask(GO, done),
        ask(GO, system),
        ask(GO, system, done),
        ask(GO, pause, system),
    ):
        assert problems(request, model=model) == []


MARK = CacheControl()
BAD: dict[str, Request] = {
    "at least one message": ask(),
    "first message": ask(message("assistant", Text("hi")), GO),
    "roles must alternate": ask(GO, GO),
    "must have content": ask(message("user")),
    "no JSON object": ask(GO, message("assistant", Opaque(Raw(b"[]"))), GO),
    "in a user message": ask(message("user", Thinking("a", "s"), Text("go"))),
    "image in an assistant message": ask(GO, message("assistant", PNG), GO),
    "system.0: text must": replace(ask(GO), system=(Text(" "),)),
    "content.0: text must": ask(message("user", Text("\n"))),
    "content.0.content.0: text must": ask(
        GO, CALL, message("user", ToolResult("a", (Text(""),)))
    ),
    "takes no assistant message at the end": ask(GO, message("assistant", Text("hi"))),
    "ends with white space": ask(GO, message("assistant", Text("hi "))),
    "has no tool_result next": ask(GO, CALL, GO),
    "not called just before": ask(
        GO, CALL, ANSWER, message("assistant", Text("x")), ANSWER
    ),
    "2 tool_result blocks": ask(
        GO, CALL, message("user", *ANSWER.content, *ANSWER.content)
    ),
    "ids must be unique": ask(GO, CALL, ANSWER, CALL, ANSWER),
    "must come before anything": ask(
        GO, CALL, message("user", Text("hi"), *ANSWER.content)
    ),
    "the id 'a.b' does not match": ask(
        GO,
        message("assistant", ToolUse("a.b", "bash", NONE)),
        message("user", ToolResult("a.b", (Text("ok"),))),
    ),
    "the id '' does not match": ask(
        GO,
        message("assistant", ToolUse("", "bash", NONE)),
        message("user", ToolResult("", (Text("ok"),))),
    ),
    "the name 'a b' does not match": ask(
        GO, message("assistant", ToolUse("a", "a b", NONE)), ANSWER
    ),
    "the id 'c d' does not match": ask(
        GO,
        message("assistant", Opaque(Raw(b'{"type":"tool_use","id":"c d","name":"b"}'))),
        message("user", ToolResult("c d", (Text("ok"),))),
    ),
    "without its server_tool_use": ask(GO, message("assistant", Opaque(Raw(FOUND)))),
    "the final block cannot be thinking": ask(
        GO, message("assistant", Text("a"), Thinking("b", "s")), GO
    ),
    "the final block cannot be redacted_thinking": ask(
        GO, message("assistant", RedactedThinking("b")), GO
    ),
    "thinking without signature": ask(
        GO, message("assistant", Thinking("b", ""), Text("a")), GO
    ),
    "expected thinking, found tool_use": replace(
        ask(GO, message("assistant", ToolUse("a", "bash", NONE)), ANSWER),
        thinking=2048,
    ),
    "expected thinking, found text": replace(
        ask(
            GO,
            message(
                "assistant", Text("so"), Thinking("b", "s"), ToolUse("a", "b", NONE)
            ),
            ANSWER,
        ),
        thinking=2048,
    ),
    "while thinking is off": replace(ask(GO, CALL, ANSWER), thinking="off"),
    "less than 1": replace(ask(GO), max_tokens=0),
    "exceeds the window": replace(ask(GO), max_tokens=200_001),
    "must be below max_tokens": replace(ask(GO), thinking=8_000),
    "less than 1024": replace(ask(GO), thinking=1_000),
    "temperature": replace(ask(GO), thinking=1_024, temperature=0.5),
    "tools.0: the name": replace(ask(GO), tools=(ToolSpec("", "", NONE),)),
    "input_schema": replace(ask(GO), tools=(ToolSpec("a", "", Raw(b"[]")),)),
    "tools: must be defined": replace(ask(GO, CALL, ANSWER), tools=()),
    "names must be unique": replace(ask(GO), tools=(ToolSpec("a", "", NONE),) * 2),
    "input is no JSON object": ask(
        GO, message("assistant", ToolUse("a", "bash", Raw(b"1"))), ANSWER
    ),
    "5 blocks have it": ask(message("user", *[Text("a", MARK)] * 5)),
    "cannot be set for thinking": ask(
        GO,
        message(
            "assistant",
            Opaque(
                Raw(
                    b'{"type":"thinking","thinking":"a","signature":"s",'
                    b'"cache_control":{"type":"ephemeral"}}'
                )
            ),
            Text("b"),
        ),
        GO,
    ),
    "cannot be set for empty text": ask(message("user", Text("", MARK), Text("a"))),
    "must not come behind one of 5m": ask(
        message("user", Text("a", MARK), Text("b", CacheControl("1h")))
    ),
    "101 images": ask(message("user", *[PNG] * 101)),
    "media type": ask(message("user", Image(Base64("image/tiff", "AAAA")))),
    "an image of 0 bytes": ask(message("user", Image(Base64("image/png", "")))),
    "bytes of images": ask(
        message("user", *[Image(Base64("image/png", "A" * 4_000_000))] * 9)
    ),
    "all content must be text": ask(
        GO, CALL, message("user", ToolResult("a", (Text("x"), PNG), is_error=True))
    ),
    "content cannot be empty": ask(
        GO, CALL, message("user", ToolResult("a", (), is_error=True))
    ),
    "system.0: a lone": replace(ask(GO), system=(Text("\ud800"),)),
    "content.0: a lone": ask(message("user", Text("a\0"))),
    "in what bash says": replace(ask(GO), tools=(ToolSpec("bash", "\udfff", NONE),)),
}


@pytest.mark.parametrize("words", BAD)
def test_what_the_api_refuses_is_told(words: str) -> None:
    assert any(words in problem for problem in problems(BAD[words], model=MODEL))


@pytest.mark.parametrize(
    "escape", [b"\\ud800", b"\\uDFFF x", b"\\u0000", b"\\\\\\ud800"]
)
def test_half_a_character_in_arguments_is_told(escape: bytes) -> None:
    made = ToolUse("a", "bash", Raw(b'{"x":"' + escape + b'"}'))

    assert "messages.1.content.0: a lone surrogate or a NUL" in problems(
        ask(GO, message("assistant", made), ANSWER), model=MODEL
    )


SYSTEM = message("system", Text("now"))
DONE = message("assistant", Text("done"))
MISPLACED: dict[str, Request] = {
    "first message": ask(SYSTEM, GO),
    "two system messages in a row": ask(GO, SYSTEM, SYSTEM),
    "must follow a user message": ask(GO, DONE, SYSTEM),
    "only the assistant may follow": ask(GO, SYSTEM, GO),
    "text only": ask(GO, message("system", PNG)),
    "has no tool_result next": ask(GO, CALL, SYSTEM, ANSWER),
}


@pytest.mark.parametrize("words", MISPLACED)
def test_a_system_message_has_its_places(words: str) -> None:
    model = replace(MODEL, system_messages=True)

    assert any(words in problem for problem in problems(MISPLACED[words], model=model))


def test_older_models_take_no_system_messages() -> None:
    assert problems(ask(GO, SYSTEM), model=MODEL) == [
        "messages.1: claude-test-1 takes no system messages"
    ]


def test_no_prefill_while_thinking_is_on() -> None:
    model = replace(MODEL, prefill=True)

    assert problems(replace(ask(GO, DONE), thinking="adaptive"), model=model) == [
        "messages.1: no assistant message at the end while thinking is on"
    ]


def test_larger_models_take_more_images() -> None:
    request = ask(message("user", *[PNG] * 101))

    assert problems(request, model=replace(MODEL, window=1_000_000)) == []
