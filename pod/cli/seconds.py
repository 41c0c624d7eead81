"""Times as people write them on a command line."""

import re

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class BadTime(ValueError):
    """A time that is not one."""


def parse_seconds(text: str) -> float:
    """Return the seconds *text* stands for: 90, 90s, 1.5m, 2h.

    Raises BadTime for anything else, zero included.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    seconds = 0.0 if match is None else float(match[1]) * UNITS[match[2]]
    if seconds <= 0:
        raise BadTime(f"{text!r} is no time: write seconds (90), or 90s, 30m, 2h")
    return seconds
