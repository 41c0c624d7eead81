"""File name patterns: ``*``, ``?``, ``[…]``, ``**``, ``{a,b}``."""

import re

from tools.pattern_set import read_set

MOST_ALTERNATIVES = 200

_WILD = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def expand(pattern: str) -> list[str]:
    """Write a pattern with ``{a,b}`` as several without.

    Raises ValueError where that gives more than 200.
    """
    done, todo = [], [pattern]
    while todo:
        braces = _BRACES.search(current := todo.pop())
        if braces is None:
            done.append(current)
            continue
        before, after = current[: braces.start()], current[braces.end() :]
        todo += [before + inner + after for inner in reversed(braces[1].split(","))]
        if len(done) + len(todo) > MOST_ALTERNATIVES:
            raise ValueError(f"over {MOST_ALTERNATIVES} alternatives in {{…}}")
    return list(dict.fromkeys(done))


def split_base(pattern: str) -> tuple[str, str]:
    """Split the folders without wildcards off the beginning of a pattern."""
    parts = pattern.split("/")
    plain = 0
    while plain < len(parts) - 1 and not _WILD.search(parts[plain]):
        plain += 1
    base = "/".join(parts[:plain])
    if plain and not base and pattern.startswith("/"):
        base = "/"
    return base, "/".join(parts[plain:])


def depth_of(pattern: str) -> int | None:
    """Return how many folders deep a match lies at most; None where any deep."""
    parts = _parts(pattern)
    return None if "**" in parts else len(parts)


def to_regex(pattern: str) -> re.Pattern[str]:
    """Translate a pattern (without braces) for paths relative to where it begins.

    ``**`` stands for any number of folders, also none; ``*``, ``?`` and
    ``[…]`` stay within a name. Match with ``fullmatch``.
    """
    parts = _parts(pattern)
    if pattern.endswith("/") and parts[-1:] != ["**"]:
        parts.append("**")
    pieces = []
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if part == "**":
            pieces.append(".+" if is_last else "(?:[^/]+/)*")
        else:
            pieces.append(_segment(part) + ("" if is_last else "/"))
    return re.compile("".join(pieces), re.DOTALL)


def _parts(pattern: str) -> list[str]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    # "**/**" says no more than "**" and would make the search slow.
    return [p for i, p in enumerate(parts) if p != "**" or parts[i - 1 : i] != ["**"]]


def _segment(part: str) -> str:
    pieces: list[str] = []
    index = 0
    while index < len(part):
        char = part[index]
        index += 1
        if char == "*":
            if pieces[-1:] != ["[^/]*"]:
                pieces.append("[^/]*")
        elif char == "?":
            pieces.append("[^/]")
        elif char == "[" and (found := read_set(part, index)) is not None:
            regex, index = found
            pieces.append(regex)
        elif char == "\\" and index < len(part):
            pieces.append(re.escape(part[index]))
            index += 1
        else:
            pieces.append(re.escape(char))
    return "".join(pieces)
