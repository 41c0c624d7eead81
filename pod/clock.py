"""Time as the log and the events write it."""

from datetime import UTC, datetime


def now() -> str:
    """Return the time in UTC, RFC 3339 with milliseconds and a Z."""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")
