"""Makes requests of items, and looks at what is in them."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from prompts import load
from tests.makers import (
    MODEL,
)
from worker import api
from worker.content import Media
from worker.items import Item
from worker.model import Model
from worker.validate import problems
from worker.wire import Cache, to_request

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
