"""What the API answers instead of an answer."""

from typing import Literal

import msgspec
from msgspec import Struct

ErrorType = Literal[
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "timeout_error",
    "rate_limit_error",
    "api_error",
    "overloaded_error",
]

# The API's error page: which type goes with which status.
_TYPES: dict[int, ErrorType] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Refusal(Struct, frozen=True):
    """An error of the API: HTTP status and message."""

    status: int
    message: str

    @property
    def type(self) -> ErrorType:
        """The error's type, as the status says it."""
        return error_type(self.status)


class Refused(Exception):
    """The request is not answered; *refusal* says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class _Detail(Struct):
    type: str
    message: str


class _ErrorBody(Struct, tag_field="type", tag="error"):
    error: _Detail
    request_id: str | None


def error_type(status: int) -> ErrorType:
    """Return the type the API gives an error of *status*."""
    return _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def error_body(type: str, message: str, request_id: str | None) -> bytes:
    """Encode an error as the API does, in a body and in an ``error`` event alike."""
    return msgspec.json.encode(_ErrorBody(_Detail(type, message), request_id))
