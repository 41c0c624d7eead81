"""What a provider's error answer means for the run.

For HTTP answers and for ``error`` events inside a stream. Overflow is looked
for before anything else but a rate limit, since some servers answer it with
429, others with 500.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

import msgspec
from msgspec import Struct

from worker.client import Failure, FailureKind
from worker.error_text import read_error
from worker.overflow import find_overflow, fold, is_rate_limit

NEVER_OVERFLOW = frozenset({401, 402, 403, 404, 408, 409, 429, 529})
"""Statuses that say themselves what they are."""

_AUTH = re.compile(
    r"\bapi.?key not valid\b|\bincorrect api.?key\b|\binvalid (?:x-)?api.?key\b"
    r"|\bapi_key_invalid\b|\binvalid_api_key\b"
)
_BILLING = re.compile(
    r"\bcredit balance is too low\b|\binsufficient_quota\b|\bspend_limit_reached\b"
    r"|\b(?:contract|enforced)_spend_limit|\bbilling_hard_limit\b|\bbilling_error\b"
    r"|\byou have reached your specified api usage limits\b"
    r"|\bextra usage is required\b|\bout of extra usage\b"
)
_BUDGET = re.compile(r"\blimit:? (\d{1,15}), requested:? (\d{1,15})")
_QUOTA = re.compile(r"\bexceeded your current quota\b")
_WAIT = re.compile(
    r"\b(?:retry|try again) (?:in|after) (?:(\d{1,9})m)?(\d{1,9}(?:\.\d+)?) ?(ms|s|sec|seconds?)\b"
    r"|\bretrydelay['\"]?: ?['\"](\d+(?:\.\d+)?)s\b"
)
_LEADING_STATUS = re.compile(r"^(?:api error:? |error:? |http )?([45]\d\d)\b")

_BY_STATUS: dict[int, FailureKind] = {
    400: "invalid",
    401: "auth",
    402: "billing",
    403: "auth",
    404: "not_found",
    408: "server",
    409: "server",
    413: "payload_too_large",
    425: "server",
    429: "rate_limit",
    529: "overloaded",
}
_BY_TYPE: dict[str, FailureKind] = {
    "invalid_request_error": "invalid",
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "billing",
    "not_found_error": "not_found",
    "request_too_large": "payload_too_large",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
}


class _Reading(Struct, frozen=True):
    kind: FailureKind
    prompt_tokens: int | None = None
    window_tokens: int | None = None
    output_limit: int | None = None


def classify(
    status: int | None,
    error_type: str | None,
    message: str,
    headers: Mapping[str, str],
    *,
    now: float | None = None,
) -> Failure:
    """Say what an error answer means.

    Args:
        status: The HTTP status; None or 200 for an error inside a stream.
        error_type: The provider's word for it (``overloaded_error``), if known.
        message: The body as it came, JSON or not, or the text out of it.
        headers: With names in lower case.
        now: Unix time in seconds, for a ``retry-after`` that is a date.
    """
    told = read_error(message)
    error_type = error_type or told.type
    if status is None or status < 400:
        status = told.status or _leading_status(told.text) or status
    request_id = headers.get("request-id") or headers.get("x-request-id")
    request_id = request_id or told.request_id
    reading = _read(status, error_type, message)
    retry = _should_retry(headers)
    if reading.kind == "invalid" and retry and status not in {400, 422}:
        reading = _Reading("server")
    return Failure(
        kind=reading.kind,
        message=describe(status, error_type, told.text, request_id),
        status=status,
        retry_after=retry_after(headers, message, now=now),
        request_id=request_id,
        prompt_tokens=reading.prompt_tokens,
        window_tokens=reading.window_tokens,
        output_limit=reading.output_limit,
        should_retry=retry,
    )


def reread(failure: Failure, head: bytes, headers: Mapping[str, str]) -> Failure:
    """Look again at a 200 that was no event stream: it may be an error.

    *head* is the start of its body. Some gateways pass errors on that way.
    """
    if failure.kind != "not_a_stream":
        return failure
    found = classify(200, None, head.decode(errors="replace"), headers)
    if found.kind == "server":  # it says nothing that we know
        return failure
    return msgspec.structs.replace(found, request_id=failure.request_id)


def describe(
    status: int | None, error_type: str | None, text: str, request_id: str | None
) -> str:
    """Put what the provider said into one line for a person."""
    if status is not None and text.startswith(str(status)):
        text = text.removeprefix(str(status)).lstrip(" :")
    head = " ".join(str(part) for part in (status, error_type) if part)
    tail = f" (request id {request_id})" if request_id else ""
    return f"{head}: {text}{tail}" if head else f"{text}{tail}"


def retry_after(
    headers: Mapping[str, str], message: str = "", *, now: float | None = None
) -> float | None:
    """Return the seconds a provider asks to wait, None where it asks nothing.

    In this order: ``retry-after-ms``, ``retry-after`` (seconds or a date), the
    reset of a used-up Anthropic limit, words like "retry in 48.9s".
    """
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _seconds(value)
    if seconds is None and now is not None:
        seconds = _until(_http_date(value), now)
    if seconds is None and now is not None:
        seconds = _until(_reset(headers), now)
    return seconds if seconds is not None else _wait_in_words(message)


def _read(status: int | None, error_type: str | None, text: str) -> _Reading:
    folded = fold(f"{error_type or ''} {text}")
    if _BILLING.search(folded):
        return _Reading("billing")
    if status == 429 or error_type == "rate_limit_error" or _is_veto(status, folded):
        return _Reading(_rate_kind(folded))
    if status not in NEVER_OVERFLOW and (found := find_overflow(status, text)):
        return _Reading(
            found.kind, found.prompt_tokens, found.window_tokens, found.output_limit
        )
    if error_type == "overloaded_error":
        return _Reading("overloaded")
    if status in {None, 200, 400, 422} and _AUTH.search(folded):
        return _Reading("auth")
    if status is not None and status >= 300:
        return _Reading(_BY_STATUS.get(status) or _by_class(status))
    return _Reading(_BY_TYPE.get(error_type or "", "server"))


def _is_veto(status: int | None, folded: str) -> bool:
    return status not in NEVER_OVERFLOW and is_rate_limit(folded)


def _rate_kind(folded: str) -> Literal["rate_limit", "billing"]:
    """Tell a limit that waiting lifts from one that it does not."""
    if (budget := _BUDGET.search(folded)) and int(budget[2]) > int(budget[1]):
        return "billing"  # one request is larger than what a minute may hold
    if _QUOTA.search(folded) and not _WAIT.search(folded):
        return "billing"
    return "rate_limit"


def _by_class(status: int) -> FailureKind:
    return "server" if status >= 500 else "invalid"


def _leading_status(text: str) -> int | None:
    """Read a status that a proxy wrote before the text it passes on."""
    found = _LEADING_STATUS.match(text.lower())
    return int(found[1]) if found else None


def _should_retry(headers: Mapping[str, str]) -> bool | None:
    match headers.get("x-should-retry", "").strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            return None


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return max(value, 0.0) if math.isfinite(value) else None


def _until(moment: datetime | None, now: float) -> float | None:
    return None if moment is None else max(moment.timestamp() - now, 0.0)


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _reset(headers: Mapping[str, str]) -> datetime | None:
    """Return when the last of the used-up limits is renewed."""
    moments = []
    for name, value in headers.items():
        if not name.startswith("anthropic-ratelimit-") or not name.endswith("-reset"):
            continue
        if headers.get(f"{name.removesuffix('-reset')}-remaining", "").strip() != "0":
            continue
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            continue
        moments.append(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return max(moments, default=None)


def _wait_in_words(message: str) -> float | None:
    found = _WAIT.search(fold(message))
    if found is None:
        return None
    minutes, amount, unit, delay = found.groups()
    if delay is not None:
        return _seconds(delay)
    seconds = _seconds(amount)
    if seconds is None:
        return None
    return seconds / 1000 if unit == "ms" else seconds + 60 * int(minutes or 0)
