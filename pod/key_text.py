"""Keys and tables of a manifest as messages name them."""

from pod.toml_positions import KeyPath
from pod.toml_text import quoted, toml_key

SHOWN = 60
"""Characters of a wrong value or key that a message repeats."""


def label(path: KeyPath) -> str:
    """Return how messages name the place *path*: ``[tools] builtin[2]``."""
    table, *rest = map(shown_part, path)
    if not rest:
        return f"[{table}]"
    dotted = ".".join(rest).replace(".[", "[")
    return f"[{table}] {dotted}"


def shown_part(part: str | int) -> str:
    """Return one part of a path, as TOML and not too long."""
    if isinstance(part, int):
        return f"[{part}]"
    return toml_key(part) if len(part) <= SHOWN else f"{quoted(part[:SHOWN])}…"
