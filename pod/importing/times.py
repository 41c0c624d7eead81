"""Times of other agents, as the log writes them."""

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
)


def moment(at: str) -> str:
    """Return a time in UTC with milliseconds, "" for what is none.

    One without a zone is taken for UTC.
    """
    if not _RFC3339.fullmatch(at):
        return ""
    try:
        found = datetime.fromisoformat(at)
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        found = found.astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return f"{found:%Y-%m-%dT%H:%M:%S}.{found.microsecond // 1000:03d}Z"
