"""The bodies of the small endpoints: the models there are, and a count."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from worker.loopback.rules import Served


class _Model(Struct, tag_field="type", tag="model"):
    id: str
    display_name: str
    max_input_tokens: int
    max_tokens: int
    created_at: str = "1970-01-01T00:00:00Z"
    lifecycle: str = "active"


class _Page(Struct):
    data: list[_Model]
    first_id: str | None
    last_id: str | None
    has_more: bool = False


class _Count(Struct):
    input_tokens: int


def count(tokens: int) -> bytes:
    """Encode the answer of ``POST /v1/messages/count_tokens``."""
    return msgspec.json.encode(_Count(tokens))


def model(served: Served) -> bytes:
    """Encode the answer of ``GET /v1/models/ID``."""
    return msgspec.json.encode(_model(served))


def models(served: Sequence[Served]) -> bytes:
    """Encode the answer of ``GET /v1/models``: all on one page."""
    data = [_model(one) for one in served]
    first = data[0].id if data else None
    last = data[-1].id if data else None
    return msgspec.json.encode(_Page(data, first, last))


def _model(served: Served) -> _Model:
    return _Model(
        id=served.id,
        display_name=served.id,
        max_input_tokens=served.window,
        max_tokens=served.max_output,
    )
