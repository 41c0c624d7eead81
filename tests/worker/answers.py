"""One request, and the whole answer to it as a server streams it."""

import msgspec

from worker.api import Message, Request, Text
from worker.client import Response
from worker.items import AssistantText
from worker.usage import Usage

REQUEST = Request(
    model="claude-x",
    max_tokens=100,
    system=(Text("Be brief."),),
    messages=(Message("user", (Text("Hi"),)),),
    betas=("one-beta", "another-beta"),
)


def event(name: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def text_delta(text: str) -> bytes:
    delta = {"type": "text_delta", "text": text}
    data = {"type": "content_block_delta", "index": 0, "delta": delta}
    return event("content_block_delta", data)


START = event(
    "message_start",
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": 7, "output_tokens": 1},
        },
    },
) + event(
    "content_block_start",
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    },
)
STOP = (
    event("content_block_stop", {"type": "content_block_stop", "index": 0})
    + event(
        "message_delta",
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 3},
        },
    )
    + event("message_stop", {"type": "message_stop"})
)
ANSWER = START + text_delta("Hel") + text_delta("lo") + STOP

HELLO = Response(
    message_id="msg_1",
    model="claude-x",
    items=(AssistantText("Hello", response="msg_1"),),
    stop_reason="end_turn",
    usage=Usage(input=7, output=3),
    context_tokens=10,
    request_id="req_1",
)
