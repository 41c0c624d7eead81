"""Keys and tables of a manifest as messages name them."""

from collections.abc import Sequence

from pod.toml_positions import KeyPath
from pod.toml_text import quoted, toml_key

SHOWN = 60
"""Characters of a wrong value or key that a message repeats."""


def label(path: KeyPath) -> str:
    """Return how messages name the place *path*.

    ``[tools] builtin[2]``; ``[[hooks]] tools[0]`` for what is in any of an array
    of tables: a position tells which.
    """
    match path:
        case (str(name), int(), *rest):
            header = f"[[{shown_part(name)}]]"
        case (first, *rest):
            header = f"[{shown_part(first)}]"
        case _:
            return ""
    return f"{header} {_dotted(rest)}" if rest else header


def _dotted(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        is_key = text and isinstance(part, str)
        text += f".{shown_part(part)}" if is_key else shown_part(part)
    return text


def shown_part(part: str | int) -> str:
    """Return one part of a path, as TOML and not too long."""
    if isinstance(part, int):
        return f"[{part}]"
    return toml_key(part) if len(part) <= SHOWN else f"{quoted(part[:SHOWN])}…"
