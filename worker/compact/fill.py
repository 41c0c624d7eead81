"""Prompts with places in them to be filled."""

import re

from prompts import load

_PLACE = re.compile(r"\{([a-z_]+)\}")


def fill(name: str, **parts: str) -> str:
    """Return prompts/<name>.md with each ``{part}`` replaced, in one pass.

    So braces in what is put in stay as they are. Raises KeyError for a place
    that no part is given for.
    """
    return _PLACE.sub(lambda place: parts[place[1]], load(name))
