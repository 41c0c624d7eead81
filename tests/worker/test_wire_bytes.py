"""What wire.py makes, as bytes: read back, and judged by the loopback server.

The server's rules were written apart from validate.py's.
"""

from collections.abc import Sequence

from hypothesis import given
from msgspec.structs import replace

from tests.makers import MODEL_ID
from tests.strategies import histories, models, modest
from worker.encode import decode_request, encode_request
from worker.history import legal_cuts, settle
from worker.items import Item, Opaque, Reasoning
from worker.loopback.body import read_body
from worker.loopback.refusal import Refusal
from worker.loopback.rules import Served, check_body
from worker.loopback.signing import seal, sign
from worker.model import Model
from worker.wire import Cache, to_request

KEY = b"key"


def signed(items: Sequence[Item]) -> list[Item]:
    """Sign all reasoning as the server does; leave out blocks it does not know."""
    made: list[Item] = []
    for item in items:
        if isinstance(item, Reasoning) and item.redacted:
            item = replace(item, redacted=seal(KEY, MODEL_ID, "secret"))
        elif isinstance(item, Reasoning):
            item = replace(item, signature=sign(KEY, MODEL_ID, item.text))
        if not (isinstance(item, Opaque) and "new_block" in item.json):
            made.append(item)
    return made


def refusal_of(items: Sequence[Item], model: Model) -> Refusal | None:
    served = Served(
        MODEL_ID, system_messages=model.system_messages, prefill=model.prefill
    )
    request = to_request(
        items,
        system="be good",
        tools=(),
        model=model,
        cache=Cache(),
        previous_length=len(items) // 2,
    )
    return check_body(read_body(encode_request(request)), served, KEY, tokens=0)


@modest
@given(histories(), models())
def test_every_legal_tail_passes_the_servers_rules(
    drawn: list[Item], model: Model
) -> None:
    items = signed(drawn)

    for cut in legal_cuts(items):
        assert refusal_of(items[cut:], model) is None


@modest
@given(histories(), models())
def test_a_settled_crash_passes_the_servers_rules(
    drawn: list[Item], model: Model
) -> None:
    items = signed(drawn)

    for end in range(len(items)):
        settled = [*items[:end], *settle(items[:end], "interrupted")]

        assert refusal_of(settled, model) is None


@modest
@given(histories(), models())
def test_a_request_read_back_is_the_same(items: list[Item], model: Model) -> None:
    request = to_request(
        items, system="be good", tools=(), model=model, cache=Cache(ttl="1h")
    )

    again = decode_request(encode_request(request))

    assert replace(again, betas=request.betas) == request
