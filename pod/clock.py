"""Time as the log and the events write it."""

from datetime import UTC, datetime


def now() -> str:
    """Return the time in UTC, RFC 3339 with milliseconds and a Z."""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")


def seconds_between(earlier: str, later: str) -> float | None:
    """Return the seconds from one such time to another, None where one is none."""
    try:
        passed = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (ValueError, TypeError):  # TypeError: one has a zone, the other has none
        return None
    return passed.total_seconds()
