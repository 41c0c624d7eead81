"""What models are told: one .md file each, loaded by name."""

import re
from functools import cache
from importlib.resources import files


@cache
def load(name: str) -> str:
    """Return the text of prompts/<name>.md, without the newline at its end.

    Raises FileNotFoundError for a name that is not shipped.
    """
    text = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    return text.removesuffix("\n")


_PLACE = re.compile(r"\{([a-z_]+)\}")


def fill(name: str, **parts: str) -> str:
    """Return prompts/<name>.md with each ``{part}`` replaced, in one pass.

    So braces in what is put in stay as they are. Raises KeyError for a place
    that no part is given for.
    """
    return _PLACE.sub(lambda place: parts[place[1]], load(name))
