"""Signatures of thinking, so that a block that was changed is found out.

The real API's signatures are opaque. Ours are two MACs: one of the model and
the text, one of the model and the first. The second tells a text that was
changed (the signature is ours, but not of this text) from a signature that is
not ours or another model's.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error
from typing import Literal

_SIZE = hashlib.sha256().digest_size


def sign(key: bytes, model: str, text: str) -> str:
    """Sign *text*, thought by *model*; the signature is base64."""
    first = _mac(key, model, text)
    return b64encode(first + _mac(key, model, first.hex())).decode()


Verdict = Literal["valid", "changed", "foreign"]


def check(key: bytes, model: str, text: str, signature: str) -> Verdict:
    """Tell whether *signature* is ours, and of this text and model."""
    try:
        raw = b64decode(signature, validate=True)
    except (Error, ValueError):
        return "foreign"
    first, second = raw[:_SIZE], raw[_SIZE:]
    if not hmac.compare_digest(second, _mac(key, model, first.hex())):
        return "foreign"
    ours = hmac.compare_digest(first, _mac(key, model, text))
    return "valid" if ours else "changed"


def seal(key: bytes, model: str, payload: str) -> str:
    """Make the data of a redacted block out of *payload*."""
    return f"{b64encode(payload.encode()).decode()}.{sign(key, model, payload)}"


def check_sealed(key: bytes, model: str, data: str) -> Verdict:
    """Tell whether *data* came from seal with the same key and model."""
    head, _, signature = data.partition(".")
    try:
        payload = b64decode(head, validate=True).decode()
    except (Error, ValueError):
        return "foreign"
    return check(key, model, payload, signature)


def _mac(key: bytes, model: str, text: str) -> bytes:
    data = f"{model}\0{text}".encode()
    return hmac.digest(key, data, "sha256")
