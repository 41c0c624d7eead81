"""What models are told: one .md file each, loaded by name."""

from functools import cache
from importlib.resources import files


@cache
def load(name: str) -> str:
    """Return the text of prompts/<name>.md, without the newline at its end.

    Raises FileNotFoundError for a name that is not shipped.
    """
    text = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    return text.removesuffix("\n")
