"""What wire.py writes, the API's side takes: two readings of one contract.

The rules here know nothing of validate.py, so each checks the other.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st
from msgspec import Raw
from msgspec.structs import replace

from tests.strategies import histories, modest
from tests.worker.loopback.pictures import png
from tools.base import Image
from worker.api import ToolSpec
from worker.encode import encode_request
from worker.items import (
    AssistantText,
    Item,
    Opaque,
    Reasoning,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.loopback import signing
from worker.loopback.engine import KEY, Engine
from worker.loopback.refusal import Refused
from worker.loopback.rules import Served
from worker.model import Model
from worker.policy import Script
from worker.wire import to_request

ID = "claude-test"
LOOK = ToolSpec("bash", "Run.", Raw(b'{"type":"object"}'))
PICTURE = Image("image/png", png(3, 3))


def made_by_the_server(item: Item) -> Item:
    """The same item as a real server gives it: signed, with real pictures."""
    match item:
        case Reasoning(redacted=""):
            signature = signing.sign(KEY, ID, item.text)
            return replace(item, model=ID, signature=signature)
        case Reasoning():
            return replace(item, model=ID, redacted=signing.seal(KEY, ID, "x"))
        case AssistantText():
            return replace(item, extra="")
        case ToolCall():
            return replace(item, extra='{"caller":{"type":"direct"}}')
        case UserText() | ToolResult():
            return replace(item, images=tuple(PICTURE for _ in item.images))
        case _:
            return item


def is_known(item: Item) -> bool:
    """Whether a model of today says such a thing: of opaque blocks, server tools."""
    return not isinstance(item, Opaque) or "srv_" in item.json


def refused(items: Sequence[Item], model: Model) -> str | None:
    known = [made_by_the_server(item) for item in items if is_known(item)]
    request = to_request(known, system="Be brief.", tools=(LOOK,), model=model)
    served = Served(ID, system_messages=model.system_messages, prefill=model.prefill)
    try:
        Engine(Script([]), models=(served,)).admit(encode_request(request))
    except Refused as refusal:
        return refusal.refusal.message
    return None


models = st.builds(
    Model,
    provider=st.just("anthropic"),
    id=st.just(ID),
    window=st.none(),
    max_tokens=st.just(4000),
    thinking=st.sampled_from([None, "adaptive", "off", 1024]),
    effort=st.sampled_from([None, "high"]),
    temperature=st.sampled_from([None, 0.5]),
    system_messages=st.booleans(),
    prefill=st.booleans(),
)


@modest
@given(histories(), models)
def test_what_is_sent_is_taken(items: list[Item], model: Model) -> None:
    assert refused(items, model) is None


@pytest.mark.parametrize("thinking", [None, 1024])
def test_an_empty_history_is_taken(thinking: int | None) -> None:
    model = Model("anthropic", ID, None, 4000, thinking=thinking)

    assert refused([], model) is None
