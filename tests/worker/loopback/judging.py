"""Has the loopback server's rules judge a request, and makes blocks to put into one."""

from tests.worker.loopback.requests import (
    MODEL,
    Fields,
    Json,
)
from worker.loopback import signing
from worker.loopback.body import read_body
from worker.loopback.meter import prompt_tokens
from worker.loopback.refusal import Refused
from worker.loopback.rules import Served, check_body

KEY = b"the key of the test"
SERVED = Served(MODEL)
MARK: Fields = {"type": "ephemeral"}
HOUR: Fields = {"type": "ephemeral", "ttl": "1h"}
BUDGET: Fields = {"type": "enabled", "budget_tokens": 1024}
Messages = tuple[Json, ...]


def refused(data: bytes, served: Served = SERVED) -> str | None:
    try:
        body = read_body(data)
        refusal = check_body(body, served, KEY, prompt_tokens(body))
    except Refused as error:
        refusal = error.refusal
    if refusal is None:
        return None
    assert refusal.status == 400
    return refusal.message


def thinking(words: str = "hm", signed: str | None = None, model: str = MODEL) -> Json:
    signature = signing.sign(KEY, model, words if signed is None else signed)
    return {"type": "thinking", "thinking": words, "signature": signature}


def redacted(data: str) -> Json:
    return {"type": "redacted_thinking", "data": data}


def image(data: str, media_type: str = "image/png") -> Json:
    source: Fields = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}
