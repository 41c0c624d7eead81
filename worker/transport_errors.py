"""What the exceptions of the SDK and of httpx2 mean for the run."""

import ssl

import trio

from worker.client import Failure, ProviderError
from worker.failures import classify


def silence(seconds: float) -> Failure:
    """Return the failure of a provider that has said nothing for *seconds*."""
    return Failure("timeout", f"the provider has been silent for {seconds:g} s")


def failure_of(error: Exception) -> Failure:
    """Sort an exception from sending a request or reading its answer.

    Only with the SDK loaded. Raises *error* itself where it is none of theirs:
    then it is a bug here.
    """
    import anthropic
    import httpx2

    match error:
        case ProviderError():
            return error.failure
        case anthropic.APIStatusError():
            text = error.response.text if error.response.is_closed else error.message
            return classify(error.status_code, error.type, text, error.response.headers)
        case anthropic.APIConnectionError():
            # The SDK puts it around everything that happens while it sends.
            cause = error.__cause__
            if isinstance(cause, Exception):
                return failure_of(cause)
            return _broken(error)
        case httpx2.ConnectTimeout() | httpx2.ConnectError() | httpx2.ProxyError():
            return Failure("connection", f"the provider cannot be reached: {error}")
        case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return Failure("invalid", f"[model] base_url is no web address: {error}")
        case httpx2.LocalProtocolError():
            return Failure("invalid", f"the request cannot be sent: {error}")
        case httpx2.TimeoutException() | trio.TooSlowError():
            return Failure("timeout", "the provider was silent for too long")
        case httpx2.DecodingError():
            return Failure("garbled", f"the answer cannot be unpacked: {error}")
        case httpx2.HTTPError() | httpx2.StreamError():
            return _broken(error)
        case anthropic.AnthropicError():
            return Failure("auth", f"the credentials cannot be used: {error}")
        case TypeError() | ValueError() if _is_about_auth(error):
            return Failure("auth", f"the credentials cannot be used: {error}")
        case UnicodeEncodeError():
            return Failure("auth", f"the key or a header is not plain ASCII: {error}")
        case trio.BrokenResourceError() | ssl.SSLError() | OSError():
            return _broken(error)
        case _:
            raise error


def _broken(error: Exception) -> Failure:
    said = str(error) or type(error).__name__
    return Failure("connection", f"the connection broke: {said}")


def _is_about_auth(error: Exception) -> bool:
    return any(word in str(error).lower() for word in ("authenticat", "credential"))
